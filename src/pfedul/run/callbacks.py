"""How a caller follows what a federation does: one kind of object, for all of its verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError

if TYPE_CHECKING:
    from pfedul.evaluation import Evaluation


@dataclass(frozen=True)
class Progress:
    """How far training is: `replies` of `clients` have arrived for round `round` of `rounds`.

    `loss` is known when the round is complete, `accuracy` if it was then evaluated.
    """

    round: int
    rounds: int
    replies: int
    clients: int
    loss: float | None = None
    accuracy: float | None = None


class Callback:
    """Is told what happens. Override what you need; an exception ends the work.

    Every finished round is kept, however it ends.
    """

    def on_reply(self, progress: Progress) -> None:
        """A client has replied in a round of training."""

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """All clients were evaluated after a round, which is complete next."""

    def on_round(self, progress: Progress) -> None:
        """A round of training is complete; its loss is known."""

    def on_stage(self, stage: str, done: int, of: int, now: str = "") -> None:
        """So much of a stage is done: of a removal, an audit or a comparison.

        `now`: what is being worked on. The stages of a comparison come from several threads.
        """

    def on_end(self) -> None:
        """The verb has ended, perhaps by an error."""


class _Several(Callback):
    """Tells several callbacks, in their order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks

    def on_reply(self, progress: Progress) -> None:
        for callback in self._callbacks:
            callback.on_reply(progress)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        for callback in self._callbacks:
            callback.on_evaluation(evaluation)

    def on_round(self, progress: Progress) -> None:
        for callback in self._callbacks:
            callback.on_round(progress)

    def on_stage(self, stage: str, done: int, of: int, now: str = "") -> None:
        for callback in self._callbacks:
            callback.on_stage(stage, done, of, now)

    def on_end(self) -> None:
        for callback in self._callbacks:
            callback.on_end()


@contextmanager
def told(callbacks: Sequence[Callback]) -> Iterator[Callback]:
    """One callback for these, which are told at last that it has ended."""
    if not isinstance(callbacks, Sequence):
        raise PfedulError("Give callbacks as a list, such as callbacks=[Bar()].")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise PfedulError(
                f"{callback!r} is no callback; give an object of a class that is derived from "
                "pfedul.callbacks.Callback."
            )
    several = _Several(callbacks)
    try:
        yield several
    finally:
        several.on_end()

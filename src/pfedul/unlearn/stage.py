"""The stages of a removal: what each costs, how far it is, and which clients were silent."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial

from pfedul.base.tensors import Tensors
from pfedul.protocol import Check, OnRefusal, OnReply, OnStage, Refusal, Reply, Task
from pfedul.run.run import Run
from pfedul.unlearn.outcome import EVALUATION, Costs


class Stages:
    """Owns the costs of a removal; `on_stage` is a callback for progress."""

    def __init__(self, run: Run, on_stage: OnStage | None = None) -> None:
        self.run = run
        self.costs = Costs()
        self.silent: set[str] = set()
        self.on_stage: OnStage = on_stage or (lambda _stage, _done, _of: None)

    def ask(
        self,
        stage: str,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        check: Check,
        *,
        on_reply: OnReply | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> Generator[Reply, None, None]:
        """Ask clients for something as a part of a stage, with its cost and progress."""
        done, total = 0, len(clients)
        self.on_stage(stage, done, total)
        with self.costs.stage(stage) as cost:

            def hear(reply: Reply) -> None:
                nonlocal done
                done += 1
                cost.cpu_seconds += self.run.cpu_elsewhere(reply)
                if on_reply is not None:
                    on_reply(reply)
                self.on_stage(stage, done, total)

            def refuse(refusal: Refusal) -> None:
                self.run.note_refusal(refusal)
                if refusal.silent:
                    self.silent.add(refusal.client)
                if on_refusal is not None:
                    on_refusal(refusal)

            replies = self.run.ask(task, clients, shared, check, on_reply=hear, on_refusal=refuse)
            with closing(replies):
                yield from replies

    def accuracies(self, clients: Sequence[str], shared: Tensors) -> dict[str, float]:
        """Accuracies with the newest personal parts, on the clients' own test samples."""
        if not clients:
            return {}
        scores = self.run.scores_of(clients, shared, partial(self.ask, EVALUATION))
        return {client: score.accuracy for client, score in scores.items()}

"""What methods have in common that train anew from the run's own initial tensors.

They train an ordinary federation of the remaining clients, in a folder of its own among
the notes of the request, on the run's engine. Personal parts start over as well, so
that nothing of the old shared tensors comes back through them.

All records are of the training that is no longer there, and go with it: those of the new
one would not fit the ledger, whose rounds and replies stay the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pfedul.errors import MethodFailed
from pfedul.run.retrained import Recipe
from pfedul.server.checks import NOT_FINITE
from pfedul.server.round import MeanOverflows, TooFewReplies
from pfedul.store.paths import INIT_FILE
from pfedul.unlearn.base import Result
from pfedul.unlearn.context import Work

if TYPE_CHECKING:
    from pfedul.federation import Federation

_OLD_RECORDS = (
    "all records were of the training that is replaced, and are erased; train on to build new ones"
)


def recipe_of(work: Work) -> Recipe:
    """The run without the targets, with its own seed: the same initial weights and draws."""
    return Recipe(
        "retrained", work.notebook.folder / "retrained", work.seed, work.remaining, "none"
    )


@contextmanager
def failing_as(work: Work) -> Iterator[None]:
    """A round of the new training that came to nothing is the failure of the method."""
    try:
        yield
    except MeanOverflows as error:
        raise _diverged(work, error.number, "the mean of its replies overflows") from error
    except TooFewReplies as error:
        bad = [refusal for refusal in error.refused if NOT_FINITE in refusal.reason]
        if bad:
            raise _diverged(work, error.number, f"{bad[0].client}: {bad[0].reason}") from error
        worst = "; ".join(f"{one.client}: {one.reason}" for one in error.refused[:1])
        raise MethodFailed(
            f"The method '{work.name}' had too few usable replies in round {error.number} of its "
            f"training ({worst}). The run is as it was; try again, or choose another method."
        ) from error


def _diverged(work: Work, number: int, why: str) -> MethodFailed:
    return MethodFailed(
        f"The method '{work.name}' diverged in round {number} of its training ({why}). "
        "The run is as it was; try another --seed, or another method."
    )


def count(work: Work, made: Federation, rounds: int, asked: int, answered: int) -> None:
    """Rounds, and shared tensors that went out to clients and came back."""
    size = made.clusters.served_bytes(made.shared)
    work.counts.rounds += rounds
    work.counts.bytes_broadcast += size * asked
    work.counts.bytes_uploaded += size * answered


def result_of(work: Work, made: Federation, *notes: str) -> Result:
    """Shared, personal and initial tensors as the new federation has them."""
    personal = {client: made.personal(client) for client in work.remaining}
    kept = work.federation.settings.record != "none"
    return Result(
        dict(made.shared),
        {client: tensors for client, tensors in personal.items() if tensors},
        notes=(*notes, _OLD_RECORDS) if kept else notes,
        initial=made.store.read(INIT_FILE),
    )

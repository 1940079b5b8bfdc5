"""What the ledger knows about a run's rounds, for methods that repeat or undo some of them."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.run.run import Run
from pfedul.store.paths import SHARED_FILE
from pfedul.store.tables import (
    digest_of,
    first_round_of,
    joined_before,
    mean_digest,
    participants_of,
    repaired_by,
)


@dataclass(frozen=True)
class History:
    """The rounds of a run."""

    run: Run

    def participants(self, number: int) -> dict[str, int]:
        """Who took part in a round, with their samples."""
        return participants_of(self.run.store.ledger, number)

    def first_round(self, client: str) -> int | None:
        """The first round that a client took part in; None if there was none."""
        return first_round_of(self.run.store.ledger, client)

    def joined_before(self, number: int) -> set[str]:
        """Clients that joined before a round."""
        return joined_before(self.run.store.ledger, number)

    def epochs_of(self, number: int) -> int:
        """Local epochs of a round; one that repaired an earlier removal had one."""
        repair = repaired_by(self.run.store.ledger, number) is not None
        return 1 if repair else self.run.settings.local_epochs

    @property
    def shared_is_last_mean(self) -> bool:
        """Whether the shared tensors are the mean of the last round: no request changed them."""
        ledger = self.run.store.ledger
        return digest_of(ledger, SHARED_FILE) == mean_digest(ledger, self.run.rounds)

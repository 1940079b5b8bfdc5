"""What a method has used so far: rounds, bytes, time, and whose part is missing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pfedul.base.text import counted
from pfedul.unlearn.outcome import StageCost


@dataclass
class Counts:
    """What a method has asked of the network so far."""

    rounds: int = 0
    bytes_broadcast: int = 0
    bytes_uploaded: int = 0

    def __add__(self, more: Counts) -> Counts:
        return Counts(
            self.rounds + more.rounds,
            self.bytes_broadcast + more.bytes_broadcast,
            self.bytes_uploaded + more.bytes_uploaded,
        )


@dataclass
class Meter:
    """Wall and CPU seconds: of this process since it began, of workers, and from before a kill."""

    started: tuple[float, float] = field(
        default_factory=lambda: (time.perf_counter(), time.process_time())
    )
    elsewhere: float = 0.0
    before: StageCost = field(default_factory=StageCost)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop counting within the block."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            spent = time.perf_counter() - wall, time.process_time() - cpu
            self.started = self.started[0] + spent[0], self.started[1] + spent[1]

    def spent(self) -> StageCost:
        wall, cpu = time.perf_counter() - self.started[0], time.process_time() - self.started[1]
        return StageCost(self.before.seconds + wall, self.before.cpu_seconds + cpu + self.elsewhere)


@dataclass
class Account:
    """What a method has used so far, and where it is: `phase` and `number` are the current step.

    `missed` clients were away when they would have been asked, `refused` sent unusable replies.
    """

    counts: Counts = field(default_factory=Counts)
    meter: Meter = field(default_factory=Meter)
    missed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    phase: str = ""
    number: int = 0

    def as_facts(self) -> dict[str, Any]:
        """The part that a resumed method needs."""
        return {
            "counts": asdict(self.counts),
            "cost": asdict(self.meter.spent()),
            "missed": sorted(self.missed),
            "refused": sorted(self.refused),
        }

    def resume(self, facts: Mapping[str, Any]) -> None:
        self.counts = Counts(**facts["counts"])
        self.meter.before = StageCost(**facts["cost"])
        self.missed |= set(facts["missed"])
        self.refused |= set(facts["refused"])

    def notes(self) -> tuple[str, ...]:
        """How many clients' part in the method is missing.

        Not whose: an outcome stays when one of them is forgotten in turn.
        """
        notes = []
        if self.missed:
            notes.append(f"{counted(len(self.missed), 'client')} away, and left out by the method")
        if self.refused:
            notes.append(
                f"replies of {counted(len(self.refused), 'client')} were refused during the "
                "method, which did without them ('pfedul status' lists them)"
            )
        return tuple(notes)

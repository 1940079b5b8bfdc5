"""A request on its way through the stages of a removal, and who has a part in it."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.run.run import Run
from pfedul.store.requests import Request
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.stage import Stages
from pfedul.unlearn.witness import Watch


@dataclass(frozen=True)
class Removal:
    """A request, with what it is honoured with."""

    run: Run
    request: Request
    options: ForgetOptions
    away: tuple[str, ...]
    watch: Watch
    notes: tuple[str, ...] = ()

    @property
    def stages(self) -> Stages:
        return self.watch.stages

    @property
    def targets(self) -> tuple[str, ...]:
        return self.request.targets

    @property
    def remaining(self) -> list[str]:
        return [client for client in self.run.clients if client not in self.targets]

    @property
    def concerned(self) -> list[str]:
        """The remaining clients that repair and recalibrate.

        After `exclude` those of the targets' own clusters: the others stay as they are.
        """
        if not self.options.excludes:
            return self.remaining
        groups = self.run.clusters.with_any(self.targets, self.remaining).values()
        return sorted(client for group in groups for client in group)

    @property
    def present(self) -> list[str]:
        """Those of them that are not away."""
        return [client for client in self.concerned if client not in self.away]

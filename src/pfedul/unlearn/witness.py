"""The audit of a removal as one of its stages: a look before, a look at the result, a cost.

What a look is, the audit says (`pfedul.audit.instant`), which is above this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pfedul.base.tensors import Tensors
from pfedul.run.run import Run
from pfedul.unlearn.outcome import AUDIT
from pfedul.unlearn.stage import Stages

Evidence = Mapping[str, Any]
Examine = Callable[[Run, Sequence[str]], Callable[[Tensors], Evidence]]
"""(the run before a removal, the targets) -> a function from the new shared tensors to evidence."""


@dataclass
class Watch:
    """Watches one removal, if it is to be watched at all."""

    stages: Stages
    examine: Examine | None = None
    _look: Callable[[Tensors], Evidence] | None = field(default=None, init=False)

    def begin(self, targets: Sequence[str]) -> None:
        """Look at the run as it is."""
        if self.examine is not None:
            self.stages.on_stage(AUDIT, 0, 2)
            with self.stages.costs.stage(AUDIT):
                self._look = self.examine(self.stages.run, targets)
            self.stages.on_stage(AUDIT, 1, 2)

    def evidence(self, shared: Tensors) -> Evidence | None:
        """Look at what was made of it; None if the removal is not watched."""
        if self._look is None:
            return None
        with self.stages.costs.stage(AUDIT):
            found = self._look(shared)
        self.stages.on_stage(AUDIT, 2, 2)
        return found

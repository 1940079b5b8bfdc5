"""PGA's work at a target: gradient ascent inside a ball, stopped at a distance from its own model.

The shared tensors that arrive are the ball's centre and the start; the further ones
are those of the target's last upload. Both are compared over shared parameters only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pfedul.base.tensors import Tensors, read_tensors
from pfedul.base.vectors import square_distance
from pfedul.personalization.base import Job
from pfedul.protocol import Done
from pfedul.unlearn.training import SharedTraining, options_from, run, shared_model


@dataclass(frozen=True)
class ProjectedAscent(SharedTraining):
    """`square_radius` of the ball; `limit` of the squared distance to the last upload."""

    objective: str = "ascend"
    statistics: bool = False
    square_radius: float | None = None
    limit: float | None = None


def ascend_in_ball(job: Job, how: Mapping[str, Any], extra: Tensors) -> Done:
    """Ascent with a projection after each step; sends back shared tensors and how it went."""
    wish: ProjectedAscent = options_from(ProjectedAscent, how)
    with shared_model(job, wish.statistics) as parameters:
        centre = {name: p.detach().clone() for name, p in parameters.items()}
        walk = _Walk(parameters, centre, extra, wish)
        loss = run(job, wish, list(parameters.values()), walk.after_step)
    return Done(read_tensors(job.model, job.split.shared), {"loss": loss, **walk.metrics()})


@dataclass
class _Walk:
    """What is looked at after each step."""

    parameters: Mapping[str, nn.Parameter]
    centre: Tensors
    last_upload: Tensors
    wish: ProjectedAscent
    steps: int = 0
    steps_bound: int = 0
    stopped: bool = False

    @torch.no_grad()
    def after_step(self) -> bool:
        """Back onto the ball if need be; True once it is far enough from the last upload."""
        self.steps += 1
        radius, limit = self.wish.square_radius, self.wish.limit
        square = square_distance(self.parameters, self.centre, self.parameters)
        if radius is not None and square > radius:
            self.steps_bound += 1
            self._shrink((radius / square) ** 0.5)
        away = square_distance(self.parameters, self.last_upload, self.parameters)
        self.stopped = limit is not None and away > limit
        return self.stopped

    def _shrink(self, factor: float) -> None:
        for name, parameter in self.parameters.items():
            middle = self.centre[name]
            parameter.copy_(middle + (parameter - middle) * factor)

    def metrics(self) -> dict[str, float]:
        return {
            "steps": float(self.steps),
            "steps_bound": float(self.steps_bound),
            "stopped": float(self.stopped),
        }

"""A class for each position of a sequence: cross-entropy, and the share of positions right."""

from __future__ import annotations

from torch import Tensor

from pfedul.base.inputs import Inputs
from pfedul.base.registry import NoOptions
from pfedul.tasks.base import EachSample, LearningTask, TaskKind
from pfedul.tasks.sequences import checked, hits, losses, outputs, stack


def targets(_x: Inputs, y: Tensor) -> Tensor:
    return checked(y)


TOKEN_CLASSIFICATION = LearningTask(
    name="token-classification",
    figure="share of positions with the right class, averaged over samples",
    loss=EachSample(losses),
    hits=hits,
    stack=stack,
    targets=targets,
    outputs=outputs,
    by_position=True,
)

TOKEN_CLASSIFICATION_KIND = TaskKind(
    name="token-classification",
    summary="a class for each position of a sequence; labels: whole numbers, -100 for none",
    options=NoOptions,
    make=lambda _options: TOKEN_CLASSIFICATION,
)

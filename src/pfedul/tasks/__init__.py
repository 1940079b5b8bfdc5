"""What a federation learns, one file for each task; classification unless a user says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.tasks.base import LearningTask, TaskKind

DEFAULT_TASK = "classification"

TASKS: Registry[TaskKind] = Registry(
    "task",
    {
        "classification": "pfedul.tasks.classification:CLASSIFICATION_KIND",
        "multi-label": "pfedul.tasks.multi_label:MULTI_LABEL_KIND",
        "regression": "pfedul.tasks.regression:REGRESSION_KIND",
        "token-classification": "pfedul.tasks.token_classification:TOKEN_CLASSIFICATION_KIND",
        "language-modelling": "pfedul.tasks.language_modelling:LANGUAGE_MODELLING_KIND",
    },
    group="pfedul.tasks",
)


def task_of(spec: str) -> LearningTask:
    """The task that users name, with its options.

    >>> task_of("regression:tolerance=0.1").figure
    'share of samples within 0.1 of the target'
    """
    kind, options = TASKS.parse(spec)
    return kind.make(options)

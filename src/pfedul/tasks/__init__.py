"""What a federation learns, one file for each task; classification unless a user says otherwise."""

from __future__ import annotations

from pfedul.base.registry import Registry
from pfedul.tasks.base import LearningTask, TaskKind
from pfedul.tasks.classification import CLASSIFICATION, CLASSIFICATION_KIND
from pfedul.tasks.language_modelling import LANGUAGE_MODELLING_KIND
from pfedul.tasks.multi_label import MULTI_LABEL_KIND
from pfedul.tasks.regression import REGRESSION_KIND
from pfedul.tasks.token_classification import TOKEN_CLASSIFICATION_KIND

__all__ = ["CLASSIFICATION", "TASKS", "LearningTask", "task_of"]

TASKS: Registry[TaskKind] = Registry(
    "task",
    CLASSIFICATION_KIND,
    MULTI_LABEL_KIND,
    REGRESSION_KIND,
    TOKEN_CLASSIFICATION_KIND,
    LANGUAGE_MODELLING_KIND,
    group="pfedul.tasks",
)


def task_of(spec: str) -> LearningTask:
    """The task that users name, with its options.

    >>> task_of("regression:tolerance=0.1").figure
    'share of samples within 0.1 of the target'
    """
    kind, options = TASKS.parse(spec)
    return kind.make(options)

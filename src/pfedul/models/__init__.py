"""The models that can be named on the command line, in TOML and in Python.

Each declares its head by the attribute `head_name`, and its forward pass is
`head(features(x))`. A user's own `nn.Module` needs none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.models.base import check_classes
from pfedul.tasks import DEFAULT_TASK, task_of

if TYPE_CHECKING:
    from torch import nn

    from pfedul.models.base import ModelKind
    from pfedul.tasks.base import LearningTask

MODELS: Registry[ModelKind] = Registry(
    "model",
    {
        "resnet18": "pfedul.models.resnet:RESNET18",
        "cnn": "pfedul.models.cnn:CNN",
        "mlp": "pfedul.models.mlp:MLP",
        "transformer": "pfedul.models.transformer:TRANSFORMER",
    },
    group="pfedul.models",
    code=True,
)


def build_model(
    spec: str, input_shape: Sequence[int], classes: int, task: str = DEFAULT_TASK
) -> nn.Module:
    """A freshly initialised model for inputs of this shape (without the batch) and these classes.

    >>> build_model("mlp:hidden=8", (4,), 3).head
    Linear(in_features=8, out_features=3, bias=True)
    """
    return model_factory(spec, input_shape, classes, task_of(task))()


def model_factory(
    spec: str, input_shape: Sequence[int], classes: int, task: LearningTask | None = None
) -> Callable[[], nn.Module]:
    """What builds the model of `build_model`, also in a process that does not know its name."""
    kind, options = MODELS.parse(spec)
    check_classes(classes)
    if not input_shape or min(input_shape) < 1:
        raise PfedulError(
            f"A model cannot take inputs of shape {list(input_shape)}; "
            "give the shape of one sample, such as [3, 32, 32]."
        )
    further = (task or task_of(DEFAULT_TASK),) if kind.by_task else ()
    return partial(kind.build, input_shape, classes, options, *further)

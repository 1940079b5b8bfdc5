"""Distillation at a client: shared tensors are trained with the client's own old model as teacher.

The loss is that of the task plus two distances between the model now and the teacher: `PULL` times
that of the features (what the head is given), and `LAYERS` times the mean over the outputs of the
layers before the head. A distance is squared and divided by the variance of the teacher's values.
Where no head is found, or the model does not call it as a module with one input, logits take the
place of features.

The layers let a few steps restore what the others had; the features are held loosely, because
the target's old head reads them.

The teacher is the old shared tensors, which come with the task, beside the client's own old
personal part; with Ditto it is the old shared model. It looks at each batch as the student does,
which costs one forward pass for each epoch, and the client keeps nothing (docs/methods-notes.md).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul.base.inputs import answer
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.personalization.local import run_sgd
from pfedul.protocol import ClientResult
from pfedul.split import Layer, head_of, is_adapter, split_all_shared
from pfedul.unlearn.training import SharedTraining, options_from, settings_of, shared_model

PULL, LAYERS = 4, 6
"""More keeps more accuracy and brings more of the leak back; less overshoots (docs/results.md)."""


def distil_shared(job: Job, how: Mapping[str, Any], teacher: Tensors) -> ClientResult:
    """As `train_shared`, held near the features of the teacher."""
    options, head = options_from(SharedTraining, how), job.head or _found_head(job.model)
    old = Watched(_teacher(job, teacher), head)
    with (
        shared_model(job, options.statistics, options.by_batch) as parameters,
        closing(Watched(job.model, head)) as now,
    ):

        def both(*inputs: Any, **named: Any) -> Tensor:
            with torch.no_grad():
                old(*inputs, **named)
            return now(*inputs, **named)

        def loss_of(output: Tensor, labels: Tensor) -> Tensor:
            return job.training.task.loss(output, labels) + pull(now, old)

        training = settings_of(job.training, options)
        loss = run_sgd(both, list(parameters.values()), job.samples, training, loss_of=loss_of)
    return ClientResult(read_tensors(job.model, job.split.shared), {"loss": loss})


def pull(now: Watched, old: Watched) -> Tensor:
    """What is added to the loss: the weighted distances of features and layers."""
    apart = [distance(output, old.layers[name]) for name, output in now.layers.items()]
    layers = torch.stack(apart).mean() if apart else 0.0
    return PULL * distance(now.features, old.features) + LAYERS * layers


def distance(now: Tensor, old: Tensor) -> Tensor:
    """The mean squared distance in units of the variance of the old.

    >>> distance(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 2.0])).item()
    1.0
    """
    variance = old.var(correction=0)
    return F.mse_loss(now, old) / torch.where(variance > 0, variance, 1.0)


def _teacher(job: Job, shared: Tensors) -> nn.Module:
    model = copy.deepcopy(job.model)
    load_tensors(model, shared, job.split.beside_shared(job.personal))
    return model.eval()


def _found_head(model: nn.Module) -> str | None:
    try:
        return head_of(model)
    except PfedulError:
        return None


DISTIL_SHARED = {"distil-shared": distil_shared}
"""What clients run for repair rounds with a teacher."""


class Watched:
    """A model whose features and layers can be looked at after it was called.

    `layers` has the output of the module of each layer that was called last, the head left out,
    and adapters: those of fresh ones hardly vary, which is no unit for a distance.
    """

    def __init__(self, model: nn.Module, head: str | None) -> None:
        self._model = model
        self._inputs: list[Tensor] = []
        self.layers: dict[str, Tensor] = {}
        self._hooks = [
            model.get_submodule(module).register_forward_hook(partial(self._keep, layer.name))
            for layer in split_all_shared(model).layers
            for module in modules_of(layer)
            if not is_in(module, head) and not is_adapter(module)
        ]
        if head is not None:
            module = model.get_submodule(head)
            self._hooks.append(module.register_forward_pre_hook(self._note))

    def _keep(self, layer: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self.layers[layer] = output

    def _note(self, _module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._inputs += inputs

    def __call__(self, *inputs: Any, **named: Any) -> Tensor:
        self._inputs.clear()
        self.layers.clear()
        logits = answer(self._model, named or inputs)
        self.features = self._inputs[0] if len(self._inputs) == 1 else logits
        return logits

    def close(self) -> None:
        """Leave the model as it was."""
        for hook in self._hooks:
            hook.remove()


def modules_of(layer: Layer) -> list[str]:
    """The modules that own a layer's parameters.

    >>> modules_of(Layer("conv1", ("conv1.weight", "bn1.weight", "bn1.bias"), 5))
    ['conv1', 'bn1']
    """
    return list(dict.fromkeys(name.rpartition(".")[0] for name in layer.tensors))


def is_in(module: str, head: str | None) -> bool:
    """Whether a module is the head or a part of it.

    >>> is_in("fc.0", "fc"), is_in("fc", "fc"), is_in("fc2", "fc"), is_in("fc", None)
    (True, True, False, False)
    """
    return head is not None and f"{module}.".startswith(f"{head}.")

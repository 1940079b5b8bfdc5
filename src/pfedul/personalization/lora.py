"""LoRA: low-rank adapters are personal, on a base that is shared or frozen.

Hu et al., ICLR 2022: beside the matrix W of a linear layer stands a product B A of two narrow
matrices, and the layer gives W x + scale * B A x. A begins at random, the same at all clients, and
B at zero. Here each client keeps its own A and B, and both are trained: nobody averages them (the
adapters of the method FUSED are averaged, and so only one factor of those is trained).

A model that has adapters already, as `peft` makes them, is taken as it is: their tensors are
found by the names that peft gives them, `lora_A`, `lora_B` and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul.base.options import option
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.errors import PfedulError
from pfedul.personalization.base import Fitted, Job, Personalization, Recalibration
from pfedul.personalization.local import read_fitted, run_sgd, trainable
from pfedul.personalization.recalibration import norms, train_alone
from pfedul.split import is_adapter, split_adapters

THOROUGH_EPOCHS = 20
"""Of adapters that begin at zero."""


@dataclass(frozen=True)
class LoRAOptions:
    """The size of the adapters, and whether the base is trained at all."""

    rank: int = option(8, "rank of the adapters", at_least=1)
    scale: float = option(1.0, "what the product of the two factors is multiplied by", above=0)
    frozen: bool = option(False, "the base stays as the model's function makes it")


def add_adapters(options: LoRAOptions, model: nn.Module) -> None:
    """Adapters beside every linear layer, unless the model has some; the base frozen if asked."""
    if not any(is_adapter(name) for name, _ in model.named_parameters()):
        for layer in _linear_layers(model):
            _add_adapter(layer, options)
    if options.frozen:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(is_adapter(name))


def _linear_layers(model: nn.Module) -> list[nn.Linear]:
    """Not of subclasses: attention reads the weights of its own without calling the layer."""
    layers = [module for module in model.modules() if type(module) is nn.Linear]
    if not layers:
        raise PfedulError(
            "LoRA puts adapters beside linear layers and this model has none: use a model with "
            "linear layers, or one with adapters of its own, or another personalisation."
        )
    return layers


def _add_adapter(layer: nn.Linear, options: LoRAOptions) -> None:
    rank, bound = min(options.rank, *layer.weight.shape), 1 / math.sqrt(layer.in_features)
    factor = layer.weight.new_empty(rank, layer.in_features).uniform_(-bound, bound)
    layer.lora_A = nn.Parameter(factor)
    layer.lora_B = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))
    layer.register_forward_hook(partial(_with_adapter, options.scale))


def _with_adapter(scale: float, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output + scale * F.linear(F.linear(inputs[0], layer.lora_A), layer.lora_B)


def fit(job: Job) -> Fitted:
    """Base and adapters together; of a frozen base the statistics stay as they are, too."""
    load_tensors(job.model, job.shared, job.personal)
    job.model.train()
    if _has_frozen_base(job.model):
        for layer in norms(job.model):
            layer.eval()
    loss = run_sgd(job.model, trainable(job.model), job.samples, job.training)
    return read_fitted(job, loss)


def _has_frozen_base(model: nn.Module) -> bool:
    base = [parameter for name, parameter in model.named_parameters() if not is_adapter(name)]
    return not any(parameter.requires_grad for parameter in base)


def refit_adapters(job: Job, how: Recalibration) -> Tensors:
    """The adapters, everything else frozen.

    The old ones knew the targets through the old base. So a thorough recalibration begins with
    adapters that change nothing. On a frozen base they knew nobody, and stay as they are.
    """
    if _has_frozen_base(job.model):
        return job.personal
    plain = replace(job.training, augment="none")
    thorough = replace(plain, epochs=THOROUGH_EPOCHS, cosine=True)
    named = {name: p for name, p in job.model.named_parameters() if is_adapter(name)}
    if how.epochs is None:
        _empty(named)
    train_alone(job, list(named.values()), how.training(plain, thorough))
    return read_tensors(job.model, job.split.personal)


@torch.no_grad()
def _empty(adapters: dict[str, nn.Parameter]) -> None:
    for name, parameter in adapters.items():
        if "lora_B" in name.split("."):
            parameter.zero_()


LORA = Personalization(
    name="lora",
    summary="shared or frozen base, personal low-rank adapters beside its linear layers",
    shared="all but the adapters",
    personal="low-rank adapters (LoRA)",
    local_training="base and adapters together; with `frozen` the adapters alone",
    recalibration="the adapters, everything else frozen",
    paper="Hu et al., ICLR 2022",
    options=LoRAOptions,
    split=split_adapters,
    fit=fit,
    recalibrate=refit_adapters,
    prepare=add_adapters,
)

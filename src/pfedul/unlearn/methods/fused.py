"""FUSED: overwrite the target by an adapter on the layers that training moves most.

Zhong et al., CVPR 2025, arXiv 2502.20709. One round finds the critical layers (eq. 11
to 13): each client trains once from the shared tensors as they are, and layers are put
in order of how far they then moved. On the first of them an adapter is trained by the
remaining clients, everything else frozen.

The result is merged: a run that kept the frozen tensors next to the adapter would still
hold the target, for whoever drops the adapter. `pfedul.adapters` has the reversible pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.func import functional_call

from pfedul.adapters import ADAPTERS, Adapter, AdapterKind, apply_adapter, no_values, with_values
from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.personalization.local import frozen, run_sgd
from pfedul.protocol import ClientResult
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import (
    TRAIN_SHARED,
    SharedTraining,
    options_from,
    settings_of,
    shared_model,
    weight_matrices,
)


@dataclass(frozen=True)
class FusedOptions:
    """The adapter, how its layers are found, and how it is trained."""

    layers: int = option(4, "Layers with an adapter, at most.", at_least=1)
    rounds: int = option(10, "Rounds of training of the adapter.", at_least=1)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)
    adapter: str = option("sparse", "Kind of adapter.", choices=tuple(ADAPTERS))
    density: float = option(0.05, "Share of entries of a sparse adapter.", above=0, at_most=1)
    rank: int = option(16, "Rank of a LoRA adapter.", at_least=1)
    cli: str = option(
        "all", "Clients that train in the round that finds layers.", choices=("all", "remaining")
    )
    measure: str = option(
        "sum", "A layer's move: the sum over its entries, or the mean.", choices=("sum", "mean")
    )
    lr: float | None = option(None, "Rate; that of training.", above=0)


def unlearn(ctx: Context, options: FusedOptions) -> Result:
    chosen = critical_layers(ctx, options)
    seed = ctx.generator("adapter").initial_seed()
    how = options_from(AdapterTraining, {**asdict(options), "seed": seed})
    values = trained_values(ctx, how, chosen, options.rounds)
    merged = apply_adapter(dict(ctx.shared), Adapter(how, values)).merged
    return Result(ctx.tied(merged), notes=(f"the adapter is on {', '.join(chosen)}",))


def candidates(ctx: Context) -> list[str]:
    """Shared weights that an adapter can be put on: of two dimensions or more, trained.

    Neither those of a normalisation nor biases, whatever their shape.
    """
    matrices = weight_matrices(ctx.model(), ctx.trained)
    return [name for name in ctx.trained if any(name in names for names in matrices.values())]


def critical_layers(ctx: Context, options: FusedOptions) -> list[str]:
    """The candidates that one round of training moves most, those first."""
    found = moves(ctx, options)
    order = sorted(found, key=lambda name: (-float(found[name]), name))
    return order[: options.layers]


def moves(ctx: Context, options: FusedOptions) -> Tensors:
    """How far a round of training moves each candidate: Diff, the weighted mean over clients."""
    everybody = tuple(sorted((*ctx.targets, *ctx.remaining)))
    clients = everybody if options.cli == "all" else ctx.remaining
    how = SharedTraining(ctx.settings.local_epochs, statistics=False)

    def step(_number: int, _state: Tensors) -> Tensors:
        zero = torch.zeros((), dtype=torch.float64, device="cpu")
        found = {name: zero.clone() for name in candidates(ctx)}
        samples = 0
        for reply in ctx.ask("train-shared", clients, ctx.shared, how):
            samples += reply.samples
            for name in found:
                moved = (reply.shared[name] - ctx.shared[name]).abs()
                found[name] += reply.samples * move(moved, options.measure)
        return {name: total / samples for name, total in found.items()}

    return ctx.steps("layers", 1, {}, step)


def move(moved: torch.Tensor, measure: str) -> torch.Tensor:
    """Diff of one tensor at one client.

    >>> move(torch.tensor([1.0, 2.0]), "sum"), move(torch.tensor([1.0, 2.0]), "mean")
    (tensor(3., dtype=torch.float64), tensor(1.5000, dtype=torch.float64))
    """
    total = moved.sum(dtype=torch.float64)
    return total if measure == "sum" else total / moved.numel()


def trained_values(
    ctx: Context, how: AdapterTraining, chosen: list[str], rounds: int
) -> dict[str, torch.Tensor]:
    """The adapter's values after all rounds over the remaining clients; zero before them."""

    def step(_number: int, values: Tensors) -> Tensors:
        return ctx.mean("train-adapter", ctx.remaining, ctx.shared, how, extra=values, like=values)

    first = {name: no_values(how, name, ctx.shared[name]) for name in chosen}
    return ctx.steps("adapter", rounds, first, step)


def check(ctx: Context, _options: FusedOptions) -> None:
    if not candidates(ctx):
        raise PfedulError(
            "None of the shared tensors is a matrix, so there is nothing to put an adapter "
            "on; choose another method ('pfedul methods')."
        )


# At a client: the directions of the adapter are made again from its seed, only values travel.
# No statistics move, so without the adapter everything is as it was.


@dataclass(frozen=True)
class AdapterTraining(AdapterKind):
    """The adapter, and how it is trained; what is None is as in ordinary rounds."""

    epochs: int = 1
    lr: float | None = None


def train_adapter(job: Job, how: Mapping[str, Any], extra: Tensors) -> ClientResult:
    """Epochs over the client's samples; sends back the values of the adapter."""
    options = options_from(AdapterTraining, how)
    values = {name: tensor.clone().requires_grad_() for name, tensor in extra.items()}
    with shared_model(job, statistics=False) as parameters, frozen(list(parameters.values())):
        base = {name: parameters[name].detach() for name in values}
        loss = _train_values(job, options, base, values)
    return ClientResult({name: tensor.detach() for name, tensor in values.items()}, {"loss": loss})


def _train_values(job: Job, options: AdapterTraining, base: Tensors, values: Tensors) -> float:
    def adapted(*inputs: Any, **named: Any) -> Any:
        changed = with_values(base, Adapter(options, values))
        return functional_call(job.model, changed, inputs, named)

    training = settings_of(job.training, SharedTraining(options.epochs, options.lr))
    return run_sgd(adapted, list(values.values()), job.samples, training)


FUSED = Method(
    name="fused",
    summary="train a small adapter on the critical layers without the target, the rest frozen",
    unlearn=unlearn,
    about=About(
        paper="Zhong et al., CVPR 2025, arXiv 2502.20709",
        who="all clients once (the target not with cli=remaining), then all remaining clients",
        rounds="1 (critical layers) + 10 (rounds)",
        guarantee=(
            "none: what was learned is overwritten; forget keeps the merged tensors alone, and "
            "an adapter that can be dropped again is the pair in pfedul.adapters"
        ),
        avoids=(
            "the code fixes the layers by hand, moves normalisation statistics and averages two "
            "LoRA factors, whose product is not the mean of products"
        ),
        variants=("fused:adapter=lora",),
    ),
    options=FusedOptions,
    needs=Needs(target=True, spares_target=lambda options: options.cli == "remaining"),
    client={**TRAIN_SHARED, "train-adapter": train_adapter},
    check=check,
)

"""FUSED: overwrite the target by an adapter on the layers that training moves most.

Zhong et al., CVPR 2025, arXiv 2502.20709. One round finds the critical layers (eq. 11
to 13): each client trains once from the shared tensors as they are, and layers are put
in order of how far they then moved. On the first of them an adapter is trained by the
remaining clients, everything else frozen. Unlike the published code the layers are found
and not written down in advance, the sparse adapter of the paper is there beside the code's
LoRA, means are weighted, and normalisation statistics stand still. Personal tensors are
never candidates, and stay as they are.

The result is merged: a run that kept the frozen tensors beside the adapter would still
hold the target, for whoever drops the adapter. `pfedul.adapters` has the reversible pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pfedul.adapters import ADAPTERS, Adapter, apply_adapter, no_values
from pfedul.at_client import AdapterTraining, SharedTraining
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.models.base import require_choice, require_positive
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_above_zero
from pfedul.unlearn.methods.negation import weight_matrices


@dataclass(frozen=True)
class FusedOptions:
    """`layers` at most have an adapter, trained for `rounds` of `epochs`.

    `adapter`: `sparse` with a `density`, or `lora` with a `rank`. `cli`: who trains in the
    round that finds the layers, all or remaining. `measure`: a layer's move is the sum
    over its entries (the paper) or the mean. `lr`: that of training unless given.
    """

    layers: int = 4
    rounds: int = 10
    epochs: int = 1
    adapter: str = "sparse"
    density: float = 0.05
    rank: int = 16
    cli: str = "all"
    measure: str = "sum"
    lr: float | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "rounds", "epochs", "rank"):
            require_positive(name, getattr(self, name))
        require_choice("adapter", self.adapter, *ADAPTERS)
        require_choice("cli", self.cli, "all", "remaining")
        require_choice("measure", self.measure, "sum", "mean")
        if not 0 < self.density <= 1:
            raise ValueError(f"density must be above 0 and at most 1, not {self.density}")
        require_above_zero(lr=self.lr)


def unlearn(work: Work, options: FusedOptions) -> Result:
    chosen = critical_layers(work, options)
    how = AdapterTraining(
        adapter=options.adapter,
        density=options.density,
        rank=options.rank,
        seed=work.generator("adapter").initial_seed(),
        epochs=options.epochs,
        lr=options.lr,
    )
    values = trained_values(work, how, chosen, options.rounds)
    merged = apply_adapter(dict(work.shared), Adapter(how, values)).merged
    return Result(work.agreeing(merged), notes=(f"the adapter is on {', '.join(chosen)}",))


def candidates(work: Work) -> list[str]:
    """Shared weights that an adapter can be put on: of two dimensions or more, trained.

    Neither those of a normalisation nor biases, whatever their shape.
    """
    matrices = weight_matrices(work.federation.bench.build_model(), work.trained)
    found = {name for names in matrices.values() for name in names}
    return [name for name in work.trained if name in found]


def critical_layers(work: Work, options: FusedOptions) -> list[str]:
    """The candidates that one round of training moves most, those first."""
    found = moves(work, options)
    order = sorted(found, key=lambda name: (-float(found[name]), name))
    return order[: options.layers]


def moves(work: Work, options: FusedOptions) -> Tensors:
    """How far a round of training moves each candidate: Diff, the weighted mean over clients."""
    clients = work.remaining
    if options.cli == "all":
        clients = tuple(sorted((*work.targets, *work.remaining)))
    how = SharedTraining(work.federation.settings.local_epochs, statistics=False)

    def step(_number: int, _state: Tensors) -> Tensors:
        found = {name: torch.zeros((), dtype=torch.float64) for name in candidates(work)}
        samples = 0
        for reply in work.ask("train-shared", clients, work.shared, how):
            samples += reply.samples
            for name in found:
                moved = (reply.shared[name] - work.shared[name]).abs()
                found[name] += reply.samples * move(moved, options.measure)
        return {name: total / samples for name, total in found.items()}

    return work.steps("layers", 1, {}, step)


def move(moved: torch.Tensor, measure: str) -> torch.Tensor:
    """Diff of one tensor at one client.

    >>> move(torch.tensor([1.0, 2.0]), "sum"), move(torch.tensor([1.0, 2.0]), "mean")
    (tensor(3., dtype=torch.float64), tensor(1.5000, dtype=torch.float64))
    """
    total = moved.sum(dtype=torch.float64)
    return total if measure == "sum" else total / moved.numel()


def trained_values(
    work: Work, how: AdapterTraining, chosen: list[str], rounds: int
) -> dict[str, torch.Tensor]:
    """The adapter's values after all rounds over the remaining clients; zero before them."""

    def step(_number: int, values: Tensors) -> Tensors:
        return work.mean("train-adapter", work.remaining, work.shared, how, extra=values)

    first = {name: no_values(how, name, work.shared[name]) for name in chosen}
    return work.steps("adapter", rounds, first, step)


def check(work: Work, _options: FusedOptions) -> None:
    if not candidates(work):
        raise PfedulError(
            "None of the shared tensors is a matrix, so that there is nothing to put an adapter "
            "on; choose another method ('pfedul methods')."
        )


FUSED = Method(
    variants=("fused:adapter=lora",),
    name="fused",
    summary="train a small adapter on the critical layers without the target, the rest frozen",
    paper="Zhong et al., CVPR 2025, arXiv 2502.20709",
    unlearn=unlearn,
    options=FusedOptions,
    target_works=True,
    spares_target=lambda options: options.cli == "remaining",
    who="all clients once (the target not with cli=remaining), then all remaining clients",
    rounds="1 (critical layers) + 10 (rounds)",
    guarantee="none: what was learned is overwritten; forget keeps the merged tensors alone, and "
    "an adapter that can be dropped again is the pair in pfedul.adapters",
    avoids=(
        "the code fixes the layers by hand, moves normalisation statistics and averages two "
        "LoRA factors, whose product is not the mean of products"
    ),
    check=check,
)

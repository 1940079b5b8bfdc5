"""FedMemPrune: draw again what the remaining clients move least, then let them train.

Wei et al., KDD 2026 (arXiv 2605.24545), and the authors' code. One round of the remaining
clients shows what their data support: the entries that their mean update moves least, over all
shared parameters in one ranking, are taken for what only the target needed. They are replaced, in
the model after that round, by a new random draw, and further rounds follow.

Their code draws again a random three quarters of the chosen entries; here it is all of them,
from a new model of the same kind instead of one fixed distribution, so a normalisation starts
again as a new one does. The rate of the rounds falls along a cosine, as for other controls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pfedul.base.options import option
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.unlearn.base import About, Does, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, SharedTraining, fine_tuned


@dataclass(frozen=True)
class PruneOptions:
    """`fraction` of all entries is drawn again; `rounds` of `epochs` follow."""

    fraction: float = option(0.4, "Fraction of entries to draw again.", above=0, at_most=1)
    rounds: int = option(3, "Rounds over the remaining clients after it.", at_least=1)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)


def unlearn(ctx: Context, options: PruneOptions) -> Result:
    def look_and_prune(_number: int, before: Tensors) -> Tensors:
        how = SharedTraining(options.epochs)
        after = ctx.mean("train-shared", ctx.remaining, before, how)
        moves = {name: (after[name].double() - before[name]).abs() for name in ctx.trained}
        return ctx.tied(redrawn(after, least(moves, options.fraction), _new_model(ctx)))

    pruned = ctx.steps("pruning", 1, dict(ctx.shared), look_and_prune)
    return Result(fine_tuned(ctx, pruned, options.rounds, options.epochs, cosine=True))


def _new_model(ctx: Context) -> Tensors:
    model = ctx.random_model(derive_seed(ctx.seed, "unlearn", ctx.request, "pruning"))
    return dict(model.state_dict())


def least(moves: Tensors, fraction: float) -> dict[str, torch.Tensor]:
    """Masks of the smallest entries, over all tensors in one ranking.

    >>> least({"a": torch.tensor([1.0, 4.0]), "b": torch.tensor([3.0, 2.0])}, 0.5)
    {'a': tensor([ True, False]), 'b': tensor([False,  True])}
    """
    flat = torch.cat([tensor.flatten() for tensor in moves.values()])
    chosen = torch.zeros(len(flat), dtype=torch.bool, device="cpu")
    chosen[flat.argsort(stable=True)[: round(fraction * len(flat))]] = True
    parts = torch.split(chosen, [tensor.numel() for tensor in moves.values()])
    return {
        name: part.view(tensor.shape)
        for (name, tensor), part in zip(moves.items(), parts, strict=True)
    }


def redrawn(shared: Tensors, masks: dict[str, torch.Tensor], new: Tensors) -> Tensors:
    """The shared tensors with the entries under the masks replaced by the new ones."""
    return {
        name: torch.where(masks[name], new[name].to(tensor.dtype), tensor)
        if name in masks
        else tensor
        for name, tensor in shared.items()
    }


FEDMEMPRUNE = Method(
    name="fedmemprune",
    summary="draw again the entries that the others move least, then rounds",
    unlearn=unlearn,
    about=About(
        paper="Wei et al., KDD 2026",
        who="all remaining clients",
        rounds="1 + 3 (rounds)",
        avoids="one fixed distribution for every draw, which does not suit every layer",
        control=True,
    ),
    options=PruneOptions,
    does=Does(recalibrates=True),
    client=TRAIN_SHARED,
)

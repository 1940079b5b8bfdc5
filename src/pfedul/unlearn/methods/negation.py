"""NoT: turn the sign of the first shared layer, then let the remaining clients repair it.

Khalil et al., CVPR 2025 (arXiv 2503.05657); no code of the authors was found. The
pre-activations of the layer become their negatives, the largest change that leaves
every norm as it was, so weight and bias change sign; a re-implementation turns the
weight alone (`bias=False`). The first layer is the one that comes first when a
sample passes through the model, never a normalisation.

Nothing here is particular to the targets: what is forgotten is what re-training does
not find again. Where what follows the layer is frozen (FedBN's normalisation
expects the old sign), re-training may turn the sign back, which undoes it: the
cosine between the layer before and after is noted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pfedul.base.tensors import Tensors
from pfedul.base.vectors import cosine, flat
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench
from pfedul.split import is_normalisation
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_above_zero
from pfedul.unlearn.methods.fine_tune import fine_tuned

if TYPE_CHECKING:
    from pfedul.federation import Federation


@dataclass(frozen=True)
class NegationOptions:
    """`rounds` of `epochs` after the negation; `bias`: of the layer's bias as well."""

    rounds: int = 10
    epochs: int = 1
    bias: bool = True

    def __post_init__(self) -> None:
        require_above_zero(rounds=self.rounds, epochs=self.epochs)


def unlearn(work: Work, options: NegationOptions) -> Result:
    layer = first_layer(work.federation)
    names = layer.weights + layer.biases if options.bias else layer.weights
    shared = fine_tuned(work, negated(work.shared, names), options.rounds, options.epochs)
    return Result(shared, notes=_notes(layer, work.shared, shared))


def negated(shared: Tensors, names: tuple[str, ...]) -> Tensors:
    """These tensors with the other sign. Done twice, it is as if nothing had been done."""
    return {name: -tensor if name in names else tensor for name, tensor in shared.items()}


@dataclass(frozen=True)
class FirstLayer:
    """The module that is negated, with the state-dict names of its shared tensors."""

    name: str
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    alone: bool


def first_layer(federation: Federation) -> FirstLayer:
    """The first module in the forward pass that has shared weights of two or more dimensions.

    What the model's author froze is passed over: it never knew of anybody, and no round
    could repair it.
    """
    bench = federation.bench
    model = bench.build_model()
    trained = _trained(model, set(bench.split.shared))
    weights = weight_matrices(model, trained)
    if not weights:
        raise PfedulError(
            "The method 'not' negates the first shared layer with a weight matrix that is trained, "
            "and this model shares none; choose another method ('pfedul methods')."
        )
    order = forward_order(model, _sample(federation))
    first = next((path for path in order if path in weights), next(iter(weights)))
    own = dict(model.get_submodule(first).named_parameters(recurse=False))
    added = [name for name, p in own.items() if p.dim() == 1 or is_bias(name)]
    biases = [name for name in (f"{first}.{n}" if first else n for n in added) if name in trained]
    return FirstLayer(
        *(first, _with_ties(model, weights[first]), _with_ties(model, biases)), len(weights) == 1
    )


def _trained(model: nn.Module, shared: set[str]) -> set[str]:
    """Shared parameters that are not frozen, under all their names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, p in named if name in shared and p.requires_grad}


def weight_matrices(model: nn.Module, trained: Collection[str]) -> dict[str, list[str]]:
    """Modules, in the order of their definition, with those of their own weight matrices.

    A bias may have two dimensions as well, and is none; nor is what a normalisation scales by.
    """
    found: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        own = [(prefix + name, p) for name, p in module.named_parameters(recurse=False)]
        matrices = [name for name, p in own if p.dim() >= 2 and not is_bias(name)]
        names = [name for name in matrices if name in trained]
        if names and not is_normalisation(module):
            found[path] = names
    return found


def is_bias(name: str) -> bool:
    """By the last part of its name, as torch has it.

    >>> is_bias("one.bias"), is_bias("attention.bias_k"), is_bias("bias.weight")
    (True, True, False)
    """
    return "bias" in name.rpartition(".")[2]


def _with_ties(model: nn.Module, names: list[str]) -> tuple[str, ...]:
    """All names under which these tensors are in the state dict."""
    state = model.state_dict(keep_vars=True)
    meant = {id(state[name]) for name in names}
    return tuple(name for name, tensor in state.items() if id(tensor) in meant)


def forward_order(model: nn.Module, x: Tensor | None) -> list[str]:
    """Names of the modules in the order in which they finish; none if there is no sample to try.

    With gradients on: torch's fast path for transformers passes by the hooks.
    """
    order: list[str] = []

    def note(path: str) -> Callable[..., None]:
        return lambda _module, _inputs, _output: order.append(path)

    if x is None:
        return order
    model.eval()
    hooks = [module.register_forward_hook(note(path)) for path, module in model.named_modules()]
    try:
        with suppress(RuntimeError, TypeError):  # a made-up input need not suit the whole model
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return order


def _sample(federation: Federation) -> Tensor | None:
    """An input of the right shape; its values do not matter."""
    bench: Workbench = federation.bench
    for parts in bench.data.values():
        return parts.train.batch(torch.zeros(1, dtype=torch.int64))[0]
    shape = federation.store.ledger.meta("input_shape")
    return None if shape is None else torch.zeros(1, *json.loads(shape))


def _notes(layer: FirstLayer, before: Tensors, after: Tensors) -> tuple[str, ...]:
    likeness = cosine(flat(before, layer.weights), flat(after, layer.weights))
    notes = [
        f"NoT negated '{layer.name}'; the cosine between its weights before and after is "
        f"{likeness:+.2f}: -1 is the negation as it was, toward +1 it was undone"
    ]
    if likeness > 0:
        notes.append("NoT: re-training has turned the sign back, so that little was unlearned")
    if layer.alone:
        notes.append("NoT: no other shared layer has a weight matrix to repair it with")
    return tuple(notes)


def check(work: Work, _options: NegationOptions) -> None:
    first_layer(work.federation)


NOT = Method(
    name="not",
    summary="negate the first shared layer, then rounds on the others",
    paper="Khalil et al., CVPR 2025",
    unlearn=unlearn,
    options=NegationOptions,
    who="all remaining clients",
    rounds="10 (rounds)",
    avoids="re-training that turns the sign back is not seen in accuracy: the cosine is noted",
    check=check,
)

"""NoT: turn the sign of the first shared layer, then let the remaining clients repair it.

Khalil et al., CVPR 2025 (arXiv 2503.05657). The pre-activations of the layer become their
negatives, the largest change that leaves every norm as it was. The first layer is the one that
comes first when a sample passes through the model, never a normalisation. Re-training may turn
the sign back, which undoes it: the cosine between the layer before and after is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from torch import nn

from pfedul.base.inputs import Inputs, answer
from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.base.vectors import cosine, flat
from pfedul.errors import PfedulError
from pfedul.unlearn.base import About, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned, is_bias, weight_matrices


@dataclass(frozen=True)
class NegationOptions:
    """`rounds` of `epochs` after the negation; `bias`: of the layer's bias as well."""

    rounds: int = option(10, "Rounds over the remaining clients after the negation.", at_least=1)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)
    bias: bool = option(True, "Negate the layer's bias as well.")


def unlearn(ctx: Context, options: NegationOptions) -> Result:
    layer = first_layer(ctx)
    names = layer.weights + layer.biases if options.bias else layer.weights
    shared = fine_tuned(ctx, negated(ctx.shared, names), options.rounds, options.epochs)
    return Result(shared, notes=_notes(layer, ctx.shared, shared))


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


def first_layer(ctx: Context) -> FirstLayer:
    """The first module in the forward pass that has shared weights of two or more dimensions.

    Frozen layers are skipped: they carry no client information, and no round could repair them.
    """
    model = ctx.model()
    trained = _trained(model, set(ctx.split.shared))
    weights = weight_matrices(model, trained)
    if not weights:
        raise PfedulError(
            "The method 'not' negates the first shared layer with a weight matrix that is trained, "
            "and this model shares none; choose another method ('pfedul methods')."
        )
    order = forward_order(model, ctx.an_input())
    first = next((path for path in order if path in weights), next(iter(weights)))
    own = dict(model.get_submodule(first).named_parameters(recurse=False))
    added = [name for name, p in own.items() if p.dim() == 1 or is_bias(name)]
    biases = [name for name in (f"{first}.{n}" if first else n for n in added) if name in trained]
    return FirstLayer(
        name=first,
        weights=_with_ties(model, weights[first]),
        biases=_with_ties(model, biases),
        alone=len(weights) == 1,
    )


def _trained(model: nn.Module, shared: set[str]) -> set[str]:
    """Shared parameters that are not frozen, under all their names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, p in named if name in shared and p.requires_grad}


def _with_ties(model: nn.Module, names: list[str]) -> tuple[str, ...]:
    """All names under which these tensors are in the state dict."""
    state = model.state_dict(keep_vars=True)
    meant = {id(state[name]) for name in names}
    return tuple(name for name, tensor in state.items() if id(tensor) in meant)


def forward_order(model: nn.Module, x: Inputs | None) -> list[str]:
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
            answer(model, x)
    finally:
        for hook in hooks:
            hook.remove()
    return order


def _notes(layer: FirstLayer, before: Tensors, after: Tensors) -> tuple[str, ...]:
    likeness = cosine(flat(before, layer.weights), flat(after, layer.weights))
    notes = [
        f"NoT negated '{layer.name}'; the cosine between its weights before and after is "
        f"{likeness:+.2f}: -1 is the negation as it was, toward +1 it was undone"
    ]
    if likeness > 0:
        notes.append("NoT: re-training has turned the sign back, so little was unlearned")
    if layer.alone:
        notes.append("NoT: no other shared layer has a weight matrix to repair it with")
    return tuple(notes)


def check(ctx: Context, _options: NegationOptions) -> None:
    first_layer(ctx)


NOT = Method(
    name="not",
    summary="negate the first shared layer, then rounds on the others",
    unlearn=unlearn,
    about=About(
        paper="Khalil et al., CVPR 2025",
        who="all remaining clients",
        rounds="10 (rounds)",
        avoids="re-training that turns the sign back is not seen in accuracy: the cosine is noted",
    ),
    options=NegationOptions,
    client=TRAIN_SHARED,
    check=check,
)

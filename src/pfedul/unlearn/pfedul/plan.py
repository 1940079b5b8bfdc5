"""From a Fisher record to a plan: stages 1 and 2 of the paper (Eq. 6 to 11, Algorithm 1).

Nothing here knows of a run: plain dictionaries of tensors go in, a plan comes out, and nothing is
changed on the way. With several targets their Fisher is summed, and so are scores and directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator

from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.records.fisher import FisherSource, fisher_noise, summed
from pfedul.split import Layer
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView
from pfedul.unlearn.pfedul.result import LayerPlan, Plan, PlanOptions
from pfedul.unlearn.pfedul.scores import Choice, choose_layers, layer_scores

_DEFAULTS = PlanOptions()


@torch.no_grad()
def plan_removal(
    fisher: FisherSource,
    shared: Tensors,
    initial: Tensors,
    target: str | Sequence[str],
    layers: Sequence[Layer] | None = None,
    options: PlanOptions = _DEFAULTS,
    lr: float | None = None,
) -> Plan:
    """What must change in `shared` to forget the target, or several targets.

    `layers` default to those of the record. `lr`, the clients' learning rate, turns the
    Fisher of updates into that of gradients for corrections that need it; without it they
    get the Fisher of updates, and a note says so.
    """
    targets, layers = _targets(fisher, target), _layers(fisher, layers)
    of_targets, total = _fisher_of(fisher, targets, options)
    for part in (initial, of_targets, total):
        _check_layout(layers, shared, part)
    scores = layer_scores(of_targets, total, layers)
    _check_scores(scores, total)
    choice = choose_layers(scores, options)
    unit, notes = _unit(options, lr)
    model = _Model(shared, initial, of_targets, total, unit, choice)
    rows, corrected = _plan_layers(layers, scores, model, options)
    notes = (*choice.notes, *(notes if choice.weights else ()), *_unchanged(rows))
    return Plan(targets, choice.threshold, rows, corrected, options, notes)


@torch.no_grad()
def plan_exclusion(
    shared: Tensors,
    without: Tensors,
    targets: Sequence[str],
    layers: Sequence[Layer],
    options: PlanOptions,
    scores: Sequence[float],
) -> Plan:
    """What must change in `shared` to become `without`, the parameters without the targets.

    Every layer is corrected unless the options choose by `scores`.
    """
    correction, own_options = CORRECTIONS.parse(options.correction)
    choice = choose_layers(scores, options)
    rows: list[LayerPlan] = []
    corrected: Tensors = {}
    for index, (layer, score) in enumerate(zip(layers, scores, strict=True)):
        if index not in choice.weights:
            rows.append(LayerPlan(layer.name, layer.tensors, layer.parameters, score, False))
            continue
        names = [name for name in layer.tensors if name in without]
        view = LayerView({n: shared[n] for n in names}, without={n: without[n] for n in names})
        result = correction.correct(view, own_options)
        change = _relative_change(layer, result)
        rows.append(LayerPlan(layer.name, layer.tensors, layer.parameters, score, True, change))
        corrected |= result.tensors
    return Plan(tuple(targets), choice.threshold, tuple(rows), corrected, options, choice.notes)


@dataclass(frozen=True, eq=False)
class _Model:
    """The tensors of all layers; `unit` turns the Fisher into that of the correction."""

    shared: Tensors
    initial: Tensors
    target: Tensors
    total: Tensors
    unit: float
    choice: Choice

    def view(self, names: Sequence[str], weight: float) -> LayerView:
        """What the correction of one layer sees."""
        parts = (self.shared, self.initial, self.target, self.total)
        shared, initial, target, total = ({name: part[name] for name in names} for part in parts)
        choice = self.choice
        return LayerView(
            shared, initial, target, total, weight, choice.largest, choice.mean, self.unit
        )


def _plan_layers(
    layers: Sequence[Layer], scores: Sequence[float], model: _Model, options: PlanOptions
) -> tuple[tuple[LayerPlan, ...], Tensors]:
    """A row for every layer, and the tensors that change."""
    correction, own_options = CORRECTIONS.parse(options.correction)
    rows: list[LayerPlan] = []
    corrected: Tensors = {}
    for index, (layer, score) in enumerate(zip(layers, scores, strict=True)):
        weight = model.choice.weights.get(index)
        row = LayerPlan(layer.name, layer.tensors, layer.parameters, score, weight is not None)
        if weight is not None:
            first = _first_names(layer, model)
            view = model.view(list(dict.fromkeys(first.values())), weight)
            result = correction.correct(view, own_options)
            row = replace(
                row, relative_change=_relative_change(layer, result), at_bound=result.at_bound
            )
            corrected |= {n: result.tensors[of] for n, of in first.items() if result.changes[of]}
        rows.append(row)
    return tuple(rows), corrected


def _first_names(layer: Layer, model: _Model) -> dict[str, str]:
    """Each name -> the first name of the same tensor, so a tied one is corrected once.

    A layer that counts fewer parameters than its tensors have says that some are tied.
    Plain dictionaries do not say which: those with equal values.
    """
    names = layer.tensors
    if layer.parameters >= sum(model.shared[name].numel() for name in names):
        return {name: name for name in names}
    parts = (model.shared, model.initial)

    def same(one: str, other: str) -> bool:
        return one == other or all(torch.equal(part[one], part[other]) for part in parts)

    return {name: next(other for other in names if same(name, other)) for name in names}


def _relative_change(layer: Layer, result: Corrected) -> float:
    change = math.hypot(*result.changes.values())
    if not math.isfinite(change + result.norm):
        raise PfedulError(
            f"The layer '{layer.name}' has NaN or infinite weights, now or before training; "
            "go back to tensors without any before you plan."
        )
    if result.norm:
        return change / result.norm
    return math.inf if change else 0.0


def _targets(fisher: FisherSource, target: str | Sequence[str]) -> tuple[str, ...]:
    targets = tuple(dict.fromkeys([target] if isinstance(target, str) else target))
    clients = fisher.clients
    if not clients:
        raise PfedulError(_NO_FISHER)
    unknown = [client for client in targets if client not in clients]
    if unknown or not targets:
        which = f"no client '{unknown[0]}'" if unknown else "no use for an empty list of targets"
        raise PfedulError(f"The Fisher record has {which}; name some of: {', '.join(clients)}.")
    if len(targets) == len(clients):
        raise PfedulError(
            "Nobody would remain if every client with a Fisher record were forgotten; "
            "leave at least one out, or start a new federation."
        )
    return targets


def _layers(fisher: FisherSource, layers: Sequence[Layer] | None) -> Sequence[Layer]:
    if layers is None:
        layers = getattr(fisher, "layers", None)
    if not layers:
        raise PfedulError("A plan needs to know the layers; pass layers=..., such as split.layers.")
    return layers


def _fisher_of(
    fisher: FisherSource, targets: Sequence[str], options: PlanOptions
) -> tuple[Tensors, Tensors]:
    """The sum over the targets, and the sum over all clients."""
    if options.fisher_noise:
        everyone = summed(_noisy(fisher, fisher.clients, options))
        return summed(_noisy(fisher, targets, options)), everyone
    if len(targets) == 1:  # no sum, no copy
        return fisher.of(targets[0]), fisher.total()
    return summed(fisher.of(client) for client in targets), fisher.total()


def _noisy(fisher: FisherSource, clients: Sequence[str], options: PlanOptions) -> Iterator[Tensors]:
    """Each client's Fisher with its own noise, the same every time."""
    for client in clients:
        generator = Generator().manual_seed(derive_seed(options.seed, "fisher-noise", client))
        yield fisher_noise(fisher.of(client), options.fisher_noise, generator)


def _check_layout(layers: Sequence[Layer], shared: Tensors, part: Tensors) -> None:
    for name in (name for layer in layers for name in layer.tensors):
        if not (name in shared and name in part and shared[name].shape == part[name].shape):
            raise PfedulError(
                f"Shared tensors, initial tensors and Fisher must all have the tensor '{name}' "
                "of the layers, in one shape; give three that belong to the same model."
            )


def _check_scores(scores: Sequence[float], total: Tensors) -> None:
    if not all(map(math.isfinite, scores)):
        raise PfedulError("The Fisher record has NaN or infinite values; start a new record.")
    if not any(scores) and not any(bool(tensor.any()) for tensor in total.values()):
        raise PfedulError(_ZERO_FISHER)


def _unit(options: PlanOptions, lr: float | None) -> tuple[float, tuple[str, ...]]:
    """The factor that turns the Fisher of updates into that of the correction, and notes."""
    if lr is not None and not 0 < lr < math.inf:
        raise PfedulError(f"lr must be a number above 0, not {lr}.")
    correction, _ = CORRECTIONS.parse(options.correction)
    if correction.g == "update":
        return 1.0, ()
    if lr is None:
        note = "g is the update, as no learning rate is given to turn it into a gradient"
        return 1.0, (note,)
    return 1 / lr**2, ()


def _unchanged(rows: Sequence[LayerPlan]) -> tuple[str, ...]:
    names = ", ".join(row.name for row in rows if row.selected and not row.relative_change)
    note = f"chosen but unchanged, the correction being zero or lost in rounding: {names}"
    return (note,) if names else ()


_NO_FISHER = "The Fisher record is empty; train at least one round with it before you plan."
_ZERO_FISHER = (
    "The Fisher record is empty: no shared parameter has changed in training, so there is nothing "
    "to correct; with a frozen base 'forget' erases what is the target's own."
)

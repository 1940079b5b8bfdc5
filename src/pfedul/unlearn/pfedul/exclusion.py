"""The plan of the correction `exclude`, from the record of contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pfedul.base.tensors import Tensors, norm
from pfedul.errors import PfedulError
from pfedul.records.contributions import began_after, contribution, without
from pfedul.records.fisher import summed
from pfedul.run.run import Run
from pfedul.split import Layer
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.plan import plan_exclusion
from pfedul.unlearn.pfedul.result import Plan, PlanOptions
from pfedul.unlearn.pfedul.scores import layer_scores
from pfedul.unlearn.pfedul.sources import (
    NEVER_TOOK_PART,
    NOBODY_TO_COMPARE,
    stored_fisher,
    why_no_record,
)


def exclusion_of(run: Run, targets: Sequence[str], options: PlanOptions) -> Plan:
    """The plan from the record of contributions."""
    store, layers = run.store, run.bench.split.layers
    if run.rounds and began_after(store) is None:
        raise PfedulError(why_no_record(run, "contributions"))
    idle = [target for target in targets if contribution(store, target) is None]
    others = [client for client in run.clients if client not in targets]
    if idle == list(targets) or not any(contribution(store, client) for client in others):
        note = NEVER_TOOK_PART if idle == list(targets) else NOBODY_TO_COMPARE
        return Plan(tuple(targets), 0.0, (), {}, options, (note,))
    parameters = without(store, run.clients, targets)
    scores, notes = _shown_scores(run, targets)
    plan = plan_exclusion(run.shared, parameters, targets, layers, options, scores)
    tied = run.bench.split.agreeing(plan.apply(run.shared))
    corrected = {name: tensor for name, tensor in tied.items() if tensor is not run.shared[name]}
    notes += (f"{', '.join(idle)}: {NEVER_TOOK_PART}",) if idle else ()
    return replace(plan, corrected=corrected, notes=(*notes, *_statements(run, options)))


def _shown_scores(run: Run, targets: Sequence[str]) -> tuple[list[float], tuple[str, ...]]:
    """The targets' share in each layer: of the Fisher, or of the contributions without it."""
    layers, fisher = run.bench.split.layers, stored_fisher(run)
    recorded = [target for target in targets if target in fisher.clients]
    if recorded:
        return layer_scores(summed(map(fisher.of, recorded)), fisher.total(), layers), ()
    own, everyone = [0.0] * len(layers), [0.0] * len(layers)
    for client in run.clients:
        for index, length in enumerate(_lengths(contribution(run.store, client) or {}, layers)):
            everyone[index] += length
            own[index] += length if client in targets else 0.0
    scores = [a / b if b else 0.0 for a, b in zip(own, everyone, strict=True)]
    return scores, ("scores are shares of the contributions: there is no Fisher record",)


def _lengths(sums: Tensors, layers: Sequence[Layer]) -> list[float]:
    return [norm({n: sums[n] for n in layer.tensors if n in sums}) for layer in layers]


def _statements(run: Run, options: PlanOptions) -> tuple[str, ...]:
    """What holds of the corrected parameters, and what does not."""
    _, own = CORRECTIONS.parse(options.correction)
    if own.strength < 1:
        return (_IN_PART,)
    since = began_after(run.store)
    return (_NO_DIRECT_INFLUENCE, *((f"{_SINCE} {since}",) if since else ()))


_NO_DIRECT_INFLUENCE = (
    "the new shared parameters are a function of the initial tensors and the remaining clients' "
    "own updates alone: the direct influence of the targets is zero. Not covered: the others "
    "computed their updates on models that the targets had shaped"
)
_IN_PART = (
    "with a strength below 1 a part of the targets' contribution stays in the shared parameters, "
    "and the record of contributions ends, as it would give that part away"
)
_SINCE = "the record of contributions began later: 'initial' means the tensors after round"

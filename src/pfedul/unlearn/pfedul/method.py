"""pFedUL: take the targets out of the shared layers (arXiv 2606.16304).

Stages 1 and 2 of the paper, at the server alone. The default correction `exclude` reads the
record of contributions, the paper's own rule the Fisher record. Stage 3, recalibration, follows as
for any method that includes it. See `pfedul.unlearn.pfedul.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pfedul.aggregation import AGGREGATIONS
from pfedul.base.tensors import Tensors, norm
from pfedul.base.text import counted
from pfedul.errors import PfedulError
from pfedul.records import RECORDS
from pfedul.records.contributions import (
    began_after,
    contribution,
    rescaled_by_means,
    without,
)
from pfedul.records.fisher import summed
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.run.run import Run
from pfedul.split import Layer
from pfedul.store.paths import INIT_FILE, record_file
from pfedul.store.tables import was_shortened
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.plan import plan_exclusion, plan_removal
from pfedul.unlearn.pfedul.result import Plan, PlanOptions
from pfedul.unlearn.pfedul.scores import layer_scores

NEVER_TOOK_PART = "took part in no round since records began, so nothing is corrected"
NOT_FINITE = "the Fisher record has values that are not finite, so nothing is attributed by it"
NOBODY_TO_COMPARE = (
    "nobody else took part in a round since records began, so nothing can be attributed: "
    "the shared tensors are the targets' work alone and should be trained again"
)


def unlearn(ctx: Context, options: PlanOptions) -> Result:
    plan = plan_for(ctx.run, ctx.targets, options)
    return Result(_without_the_deserted(ctx, plan.apply(ctx.shared)), plan=plan, notes=plan.notes)


def _without_the_deserted(ctx: Context, shared: Tensors) -> Tensors:
    """A cluster that everybody leaves begins anew: nobody could estimate its statistics again."""
    for number, members in ctx.clusters.with_any(ctx.targets, ctx.run.clients).items():
        if set(members) <= set(ctx.targets):
            shared = ctx.clusters.put(shared, number, ctx.initial)
    return shared


def plan_for(run: Run, targets: Sequence[str], options: PlanOptions) -> Plan:
    """The plan for these targets: reads the record, changes nothing."""
    check_record(run, options)
    excludes = _record_of(options) == "contributions"
    fisher = stored_fisher(run)
    known, broken = (_contributors(run), ()) if excludes else (fisher.clients, fisher.broken)
    recorded = [target for target in targets if target in known]
    idle = [target for target in targets if target not in recorded]
    why = NOT_FINITE if set(idle) & set(broken) else NEVER_TOOK_PART
    if not recorded or set(known) <= set(targets):
        note = NOBODY_TO_COMPARE if recorded else why
        return Plan(tuple(targets), 0.0, (), {}, options, (note,))
    notes: tuple[str, ...] = (f"{', '.join(idle)}: {why}",) if idle else ()
    if broken:
        notes += (f"{counted(len(broken), 'client')} left out of the Fisher: {NOT_FINITE}",)
    if excludes:
        return _exclusion(run, targets, options, notes)
    return _correction(run, targets, recorded, options, notes)


def check_record(run: Run, options: PlanOptions) -> None:
    """Refuse where there is no record to correct by; the plan itself is not made."""
    name = _record_of(options)
    kept = stored_fisher(run).recorded if name == "fisher" else _has_contributions(run)
    if run.rounds and not kept:
        raise PfedulError(why_no_record(run, name))


def why_no_record(run: Run, name: str) -> str:
    """Why a record is missing, and what to do about it."""
    title = RECORDS[name].title
    if run.clusters.several and not RECORDS[name].with_clusters:
        return (
            f"The {title} record is about one model that all clients share, and this run has "
            f"clusters; {_instead(run)}."
        )
    if run.rounds == 0:
        return "This run has not been trained, so there is nothing to attribute; train it first."
    if name not in run.settings.records:
        return (
            f"This run keeps no {title} record, which {_who_needs(name)}; {_instead(run)}, or "
            f"train a new run with --record {name}."
        )
    return (
        f"The {title} record of this run was deleted with an earlier request (--forget-records "
        f"all, or another method or correction); train on to build a new one, or {_instead(run)}."
    )


def _who_needs(record: str) -> str:
    names = [f"'{entry.name}'" for entry in CORRECTIONS if entry.record == record]
    if len(names) == 1:
        return f"the correction {names[0]} needs"
    return f"the corrections {', '.join(names)} need"


def _instead(run: Run) -> str:
    """How to forget with what this run keeps; corrections with a caveat come last."""
    kept = {"fisher": bool(stored_fisher(run).recorded), "contributions": _has_contributions(run)}
    entries = sorted(CORRECTIONS, key=lambda entry: bool(entry.caveat))
    words = [f"--correction {entry.name}, " for entry in entries if kept[entry.record]]
    whole = "knot" if run.clusters.several else "retrain"
    return (
        f"give --method {whole}, {''.join(words)}or another method whose records this run keeps "
        "('pfedul methods')"
    )


def _has_contributions(run: Run) -> bool:
    return began_after(run.store) is not None


def _record_of(options: PlanOptions) -> str:
    return CORRECTIONS.parse(options.correction)[0].record


# From the Fisher record


def stored_fisher(run: Run) -> StoredFisher:
    """The Fisher record of a run, on disk."""
    return StoredFisher(run.store, run.clients, run.bench.split.layers)


def _correction(
    run: Run,
    targets: Sequence[str],
    recorded: Sequence[str],
    options: PlanOptions,
    notes: tuple[str, ...],
) -> Plan:
    initial, layers = run.store.read(INIT_FILE), run.bench.split.layers
    fisher, lr = stored_fisher(run), run.settings.lr
    plan = plan_removal(fisher, run.shared, initial, recorded, layers, options, lr)
    return replace(plan, targets=tuple(targets), notes=(*plan.notes, *notes, *_caveat(plan)))


def _caveat(plan: Plan) -> tuple[str, ...]:
    """How far the layers moved, and what audits found, for a correction that needs saying so."""
    caveat = CORRECTIONS.parse(plan.options.correction)[0].caveat
    if not caveat:
        return ()
    furthest = max((layer.relative_change for layer in plan.layers), default=0.0)
    return (f"no layer moved by more than {100 * furthest:.3g} % of its norm; {caveat}",)


# From the record of contributions: the correction `exclude`


def _contributors(run: Run) -> list[str]:
    """Clients that took part in a round since the record began."""
    return [c for c in run.clients if run.store.has(record_file("contributions", c))]


def _exclusion(
    run: Run, targets: Sequence[str], options: PlanOptions, notes: tuple[str, ...]
) -> Plan:
    clusters = run.clusters
    parameters = without(run.store, run.clients, targets, run.settings.weighing, clusters)
    groups = clusters.with_any(targets, run.clients)
    layers = [clusters.layer(n, layer) for n in groups for layer in run.bench.split.layers]
    shown = [_shown_scores(run, members, targets) for members in groups.values()]
    scores = [score for own, _ in shown for score in own]
    plan = plan_exclusion(run.shared, parameters, targets, layers, options, scores)
    notes = (*plan.notes, *shown[0][1], *notes, *_statements(run, targets, options))
    return replace(plan, corrected=_tied(run, plan, groups), notes=notes)


def _tied(run: Run, plan: Plan, clusters: Iterable[int]) -> Tensors:
    """What the plan corrects, with tied tensors under all their names."""
    shared = after = plan.apply(run.shared)
    for number in clusters:
        own = run.bench.split.agreeing(run.clusters.view(shared, number))
        after = run.clusters.put(after, number, own)
    return {name: tensor for name, tensor in after.items() if tensor is not run.shared[name]}


def _shown_scores(
    run: Run, clients: Sequence[str], targets: Sequence[str]
) -> tuple[list[float], tuple[str, ...]]:
    """The targets' share in each layer: of the Fisher, or of the contributions without it.

    `clients` are those of one cluster.
    """
    layers, fisher = run.bench.split.layers, stored_fisher(run)
    recorded = [target for target in targets if target in fisher.clients]
    if recorded:
        return layer_scores(summed(map(fisher.of, recorded)), fisher.total(), layers), ()
    own, everyone = [0.0] * len(layers), [0.0] * len(layers)
    for client in clients:
        for index, length in enumerate(_lengths(contribution(run.store, client) or {}, layers)):
            everyone[index] += length
            own[index] += length if client in targets else 0.0
    scores = [a / b if b else 0.0 for a, b in zip(own, everyone, strict=True)]
    return scores, ("scores are shares of the contributions: there is no Fisher record",)


def _lengths(sums: Tensors, layers: Sequence[Layer]) -> list[float]:
    return [norm({n: sums[n] for n in layer.tensors if n in sums}) for layer in layers]


def _statements(run: Run, targets: Sequence[str], options: PlanOptions) -> tuple[str, ...]:
    """What holds of the corrected parameters, and what does not."""
    _, own = CORRECTIONS.parse(options.correction)
    if own.strength < 1 or options.which_layers != "all":
        return (_IN_PART,)
    since = began_after(run.store) or 0
    weighted = AGGREGATIONS.parse(run.settings.aggregation)[0].weighted
    return (
        f"{_NO_DIRECT_INFLUENCE if weighted else _NO_VALUE}. {_NOT_COVERED}",
        *((_BY_MEANS,) if _by_means(run, targets) else ()),
        *((_CLUSTERED,) if run.clusters.several else ()),
        *((_SHORTENED,) if was_shortened(run.store.ledger, since) else ()),
        *((f"{_SINCE} {since}",) if since else ()),
    )


def _by_means(run: Run, targets: Sequence[str]) -> bool:
    groups = run.clusters.with_any(targets, run.clients).values()
    weighing = run.settings.weighing
    return any(rescaled_by_means(run.store, members, targets, weighing) for members in groups)


_NO_DIRECT_INFLUENCE = (
    "the corrected shared parameters are a function of the initial tensors and the remaining "
    "clients' own updates alone: the direct influence of the targets is zero"
)
_NO_VALUE = (
    "no value that the targets sent is left in the corrected shared parameters; but who was cut "
    "off where depended on the targets' values too, so they are not a function of the remaining "
    "clients' own updates alone"
)
_NOT_COVERED = (
    "Not covered: the others computed their updates on models that the targets had shaped"
)
_BY_MEANS = (
    "the targets' share of the weights was not the same in all rounds, so the others' updates are "
    "rescaled by a mean factor: the targets' number of samples still plays a part, and the result "
    "is not the exact one (docs/run-folder.md)"
)
_CLUSTERED = (
    "this is of the targets' own clusters, given who is in which: what a client's first update "
    "looked like helped to form them. Other clusters stay as they are"
)
_SHORTENED = (
    "updates were shortened to a length that followed those of all clients, the targets included"
)
_IN_PART = (
    "with a strength below 1, or not in all layers, a part of the targets' contribution stays in "
    "the shared parameters, and the record of contributions ends, as it would give that part away"
)
_SINCE = "the record of contributions began later: 'initial' means the tensors after round"


PFEDUL = Method(
    name="pfedul",
    summary="take the targets out of the shared layers, repair them, recalibrate",
    unlearn=unlearn,
    about=About(
        paper="Liu, Li, Zhang, arXiv 2606.16304",
        who="the server; then every remaining client, in repair rounds and to recalibrate",
        rounds="2 or more after 'exclude' (--repair-rounds), else 0",
        memory="one number for each shared parameter and client",
        avoids="the printed correction hardly moves the weights and forgets nothing: 'exclude' is "
        "the default",
        variants=(
            "pfedul:repair-rounds=0",
            "pfedul:correction=paper",
            "pfedul:correction=trust-region,clip=0.5,toward=init",
            "pfedul:correction=reset,fraction=0.3,layers=all",
            "pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3",
        ),
    ),
    needs=Needs(records=("fisher", "contributions"), trained=False),
    does=Does(recalibrates=True, plans=True, clusters=True),
    check=lambda ctx, options: check_record(ctx.run, options),
)

"""pFedUL: correct the shared layers that the targets shaped most (arXiv 2606.16304).

Stages 1 and 2 of the paper, at the server alone, from the Fisher record; stage 3,
recalibration, follows as for any method that includes it. See `pfedul.unlearn.pfedul.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pfedul.errors import PfedulError
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.run.run import Run
from pfedul.store.paths import INIT_FILE
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.pfedul.plan import plan_removal
from pfedul.unlearn.pfedul.result import Plan, PlanOptions


def unlearn(ctx: Context, options: PlanOptions) -> Result:
    plan = make_plan(ctx, options)
    return Result(plan.apply(ctx.shared), plan=plan, notes=plan.notes)


def make_plan(ctx: Context, options: PlanOptions) -> Plan:
    """The plan for the targets of a request."""
    return plan_for(ctx.run, ctx.targets, options)


def plan_for(run: Run, targets: Sequence[str], options: PlanOptions) -> Plan:
    """The plan for these targets: reads the record, changes nothing."""
    fisher = stored_fisher(run)
    recorded = [target for target in targets if target in fisher.clients]
    if run.rounds and not fisher.clients:
        raise PfedulError(why_no_fisher(run))
    if not recorded or set(recorded) == set(fisher.clients):
        note = _NEVER_TOOK_PART if not recorded else _NOBODY_TO_COMPARE
        return Plan(tuple(targets), 0.0, (), {}, options, (note,))
    idle = [target for target in targets if target not in recorded]
    notes = (f"{', '.join(idle)}: {_NEVER_TOOK_PART}",) if idle else ()
    plan = plan_removal(
        fisher,
        run.shared,
        run.store.read(INIT_FILE),
        recorded,
        run.bench.split.layers,
        options,
        run.settings.lr,
    )
    return replace(plan, targets=tuple(targets), notes=(*plan.notes, *notes))


_NEVER_TOOK_PART = "took part in no round since records began, so that nothing is corrected"
_NOBODY_TO_COMPARE = (
    "nobody else took part in a round since records began, so that nothing can be attributed: "
    "the shared tensors are the targets' work alone and should be trained anew"
)


def stored_fisher(run: Run) -> StoredFisher:
    """The Fisher record of a run, on disk."""
    return StoredFisher(run.store, run.clients, run.bench.split.layers)


def why_no_fisher(run: Run) -> str:
    """Why there is no Fisher record, and what to do about it."""
    if run.rounds == 0:
        return (
            "This run has not been trained, so that there is nothing to attribute; train it first."
        )
    if "fisher" not in run.settings.records:
        return (
            "This run keeps no Fisher record, which attribution needs; "
            "train a run with --record fisher."
        )
    return (
        "The per-client records of this run were deleted with an earlier request "
        "(--forget-records all, or a method that trains anew); train on to build new ones."
    )


def check_fisher(ctx: Context) -> None:
    """Refuse where there is no record to attribute by; the plan itself is not made."""
    if ctx.rounds and not stored_fisher(ctx.run).clients:
        raise PfedulError(why_no_fisher(ctx.run))


def check(ctx: Context, _options: PlanOptions) -> None:
    check_fisher(ctx)


PFEDUL = Method(
    name="pfedul",
    summary="correct the shared layers that the targets shaped most",
    unlearn=unlearn,
    about=About(
        paper="Liu, Li, Zhang, arXiv 2606.16304",
        who="the server; then every remaining client recalibrates on its own",
        memory="one number for each shared parameter and client",
        avoids="the printed correction hardly moves the weights: 'trust-region' and 'reset' "
        "beside it",
        variants=(
            "pfedul:correction=trust-region,clip=0.5,toward=init",
            "pfedul:correction=reset,fraction=0.3,layers=all",
            "pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3",
        ),
    ),
    needs=Needs(records=("fisher",), trained=False),
    does=Does(recalibrates=True, plans=True),
    check=check,
)

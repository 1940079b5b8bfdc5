"""pFedUL: correct the shared layers that the targets shaped most (arXiv 2606.16304).

Stages 1 and 2 of the paper, at the server alone, from the Fisher record; stage 3,
recalibration, follows as for any method that includes it. See `pfedul.unlearn.pfedul.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pfedul.errors import PfedulError
from pfedul.records.contributions import began_after
from pfedul.run.run import Run
from pfedul.store.paths import INIT_FILE
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.exclusion import exclusion_of
from pfedul.unlearn.pfedul.plan import plan_removal
from pfedul.unlearn.pfedul.result import Plan, PlanOptions
from pfedul.unlearn.pfedul.sources import (
    NEVER_TOOK_PART,
    NOBODY_TO_COMPARE,
    stored_fisher,
    why_no_record,
)


def unlearn(ctx: Context, options: PlanOptions) -> Result:
    plan = plan_for(ctx.run, ctx.targets, options)
    return Result(plan.apply(ctx.shared), plan=plan, notes=plan.notes)


def plan_for(run: Run, targets: Sequence[str], options: PlanOptions) -> Plan:
    """The plan for these targets: reads the record, changes nothing."""
    if CORRECTIONS.parse(options.correction)[0].record == "contributions":
        return exclusion_of(run, targets, options)
    fisher = stored_fisher(run)
    recorded = [target for target in targets if target in fisher.clients]
    if run.rounds and not fisher.clients:
        raise PfedulError(why_no_record(run, "fisher"))
    if not recorded or set(recorded) == set(fisher.clients):
        note = NEVER_TOOK_PART if not recorded else NOBODY_TO_COMPARE
        return Plan(tuple(targets), 0.0, (), {}, options, (note,))
    idle = [target for target in targets if target not in recorded]
    notes = (f"{', '.join(idle)}: {NEVER_TOOK_PART}",) if idle else ()
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


def check_record(ctx: Context, options: PlanOptions) -> None:
    """Refuse where there is no record to correct by; the plan itself is not made."""
    name = CORRECTIONS.parse(options.correction)[0].record
    if name == "fisher":
        missing = not stored_fisher(ctx.run).clients
    else:
        missing = ctx.record(began_after) is None
    if ctx.rounds and missing:
        raise PfedulError(why_no_record(ctx.run, name))


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
    needs=Needs(records=("fisher", "contributions"), trained=False),
    does=Does(recalibrates=True, plans=True),
    check=check_record,
)

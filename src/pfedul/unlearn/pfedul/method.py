"""pFedUL: correct the shared layers that the targets shaped most (arXiv 2606.16304).

Stages 1 and 2 of the paper, at the server alone, from the Fisher record; stage 3,
recalibration, follows as for any method that asks for it. See `pfedul.unlearn.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pfedul.base.registry import NoOptions
from pfedul.errors import PfedulError
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.store.paths import INIT_FILE
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.pfedul.plan import Plan, plan_removal

if TYPE_CHECKING:
    from pfedul.federation import Federation
    from pfedul.unlearn.options import ForgetOptions


def unlearn(work: Work, _options: NoOptions) -> Result:
    plan = make_plan(work.federation, work.targets, work.options)
    return Result(plan.apply(work.shared), plan=plan, notes=plan.notes)


def make_plan(federation: Federation, targets: Sequence[str], options: ForgetOptions) -> Plan:
    """The plan for these targets: reads the record, changes nothing."""
    fisher = StoredFisher(federation.store, federation.clients, federation.bench.split.layers)
    plan_options = options.plan_options(federation.settings.seed)
    recorded = [target for target in targets if target in fisher.clients]
    if federation.rounds and not fisher.clients:
        raise PfedulError(why_no_fisher(federation))
    if not recorded or set(recorded) == set(fisher.clients):
        note = _NEVER_TOOK_PART if not recorded else _NOBODY_TO_COMPARE
        return Plan(tuple(targets), 0.0, (), {}, plan_options, (note,))
    idle = [target for target in targets if target not in recorded]
    notes = (f"{', '.join(idle)}: {_NEVER_TOOK_PART}",) if idle else ()
    plan = plan_removal(
        fisher,
        federation.shared,
        federation.store.read(INIT_FILE),
        recorded,
        federation.bench.split.layers,
        plan_options,
        federation.settings.lr,
    )
    return replace(plan, targets=tuple(targets), notes=(*plan.notes, *notes))


_NEVER_TOOK_PART = "took part in no round since records began, so that nothing is corrected"
_NOBODY_TO_COMPARE = (
    "nobody else took part in a round since records began, so that nothing can be attributed: "
    "the shared tensors are the targets' work alone and should be trained anew"
)


def why_no_fisher(federation: Federation) -> str:
    """Why there is no Fisher record, and what to do about it."""
    if federation.rounds == 0:
        return (
            "This run has not been trained, so that there is nothing to attribute; train it first."
        )
    if "fisher" not in federation.settings.record.split("+"):
        return (
            "This run keeps no Fisher record, which attribution needs; "
            "train a run with --record fisher."
        )
    return (
        "The per-client records of this run were deleted with an earlier request "
        "(--forget-records all, or a method that trains anew); train on to build new ones."
    )


def check(work: Work, _options: NoOptions) -> None:
    make_plan(work.federation, work.targets, work.options)


PFEDUL = Method(
    name="pfedul",
    summary="correct the shared layers that the targets shaped most",
    paper="Liu, Li, Zhang, arXiv 2606.16304",
    unlearn=unlearn,
    needs=("fisher",),
    memory="one number for each shared parameter and client",
    who="the server; then every remaining client recalibrates on its own",
    avoids="the printed correction hardly moves the weights: 'trust-region' and 'reset' beside it",
    recalibrates=True,
    plans=True,
    untrained=True,
    variants=(
        "pfedul:correction=trust-region,clip=0.5,toward=init",
        "pfedul:correction=reset,fraction=0.3,layers=all",
        "pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3",
    ),
    check=check,
)

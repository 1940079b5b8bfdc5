"""A removal that leaves the shared tensors as they are is an error, unless it was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.tensors import Tensors, same_weights
from pfedul.base.text import counted
from pfedul.errors import NothingChanged
from pfedul.run.run import Run
from pfedul.store.paths import INIT_FILE
from pfedul.store.tables import first_round_of
from pfedul.unlearn.base import Result
from pfedul.unlearn.options import ForgetOptions


def refuse_unchanged(
    run: Run, targets: Sequence[str], options: ForgetOptions, result: Result, shared: Tensors
) -> None:
    """Raise if nothing changed; a target that took part in no round is in none of the tensors."""
    unchanged = took_part(run, targets) and same_weights(shared, run.shared)
    if unchanged and not options.allow_unchanged:
        raise NothingChanged(
            f"Nothing would be corrected: {_reason(options, result)}. The request is pending; give "
            f"another {_another(options)}, or "
            "--allow-unchanged to erase what belongs to the client and nothing more."
        )


def took_part(run: Run, targets: Sequence[str]) -> bool:
    """Whether any of these clients took part in a round that changed the shared tensors."""
    rounds = [first_round_of(run.store.ledger, target) for target in targets]
    return any(rounds) and not _is_initial(run)


def _is_initial(run: Run) -> bool:
    """Whether nobody has changed the shared tensors: what is frozen holds nothing of anybody."""
    initial = run.store.read(INIT_FILE)
    return initial.keys() == run.shared.keys() and same_weights(run.shared, initial)


def _another(options: ForgetOptions) -> str:
    if options.excludes:
        return "method (--method retrain)"
    return "correction or method (--correction exclude, --method retrain)"


def _reason(options: ForgetOptions, result: Result) -> str:
    if result.plan is None:
        return f"the method '{options.entry.name}' leaves the shared tensors as they are"
    if not result.plan.layers:
        return result.plan.notes[0]
    layers = counted(len(result.plan.layers), "shared layer")
    if not result.plan.selected:
        return f"of {layers} none was chosen"
    return f"of {layers}, {len(result.plan.selected)} moved by less than rounding"

"""The commands `rehearse`, `audit` and `report`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pfedul.cli.parts as parts
from pfedul.audit.levels import LEVELS, Level, level_of
from pfedul.callbacks import Bar
from pfedul.cli.parts import Function, Output, command, not_as_signed
from pfedul.errors import PfedulError
from pfedul.run.callbacks import told
from pfedul.store.ledger import Ledger
from pfedul.store.paths import AT_NODES, LEDGER_FILE
from pfedul.terminal.console import line, waiting
from pfedul.unlearn.options import ForgetOptions

if TYPE_CHECKING:
    from pfedul.audit.advice import Step
    from pfedul.store.audits import Audit


def _level(levels: list[Level], default: str) -> Callable[[Function], Function]:
    spends = "; ".join(f"{level.name}, {level.summary}" for level in levels)
    choice = click.Choice([level.name for level in levels])
    return click.option("--level", type=choice, help=f"How much to spend: {spends}.  [{default}]")


_oracles = click.option(
    "--oracles", type=click.IntRange(min=1), help="Oracles, in place of the level's number."
)


_oracles_at = click.option(
    "--oracles-at",
    type=click.Path(path_type=Path),
    help="Keep oracles in this empty folder, on another disk perhaps, from now on.",
)


def _keep_oracles(run: Path, place: Path | None) -> None:
    from pfedul.store.folder import absolute
    from pfedul.store.oracles import keep_oracles_at

    if place is not None:
        keep_oracles_at(absolute(run), place)


def refuse_nodes(run: Path) -> None:
    """Refuse a run whose clients keep their samples on other machines: an audit needs them."""
    from pfedul.store.folder import require_run

    require_run(run)
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        if ledger.meta("clients_at") == AT_NODES:
            raise PfedulError(
                f"The clients of {run} keep their samples on machines of their own, and an audit "
                "needs them here; audit a federation whose data are at hand (docs/audit.md)."
            )


@command("pfedul rehearse runs/digits --client client-03 --level quick")
@parts.client_options
@parts.options_of(ForgetOptions)
@parts.away_options
@_level([*LEVELS.values()], "default: instant, or standard with --oracles")
@_oracles
@_oracles_at
@parts.require_option()
@parts.opens
def rehearse(
    run: Path,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    level: str | None,
    oracles: int | None,
    oracles_at: Path | None,
    require: str | None,
    places: dict[str, Any],
    **options: Any,
) -> Output:
    """Forget clients on a sealed copy of RUN and audit that in full; RUN itself stays as it is.

    Evidence needs what forgetting erases, so it is gathered before. Levels above instant train
    oracles first, without the clients, and keep them in RUN/oracles; interrupted, the next
    call goes on. Then call 'pfedul forget' with the same options: equal hashes carry the
    evidence over.
    """
    from pfedul.audit.advice import Trial, after_rehearsal
    from pfedul.audit.rehearsal import Rehearsal
    from pfedul.audit.rehearsal import rehearse as run_rehearsal
    from pfedul.terminal.audit import print_price

    with parts.usage():
        forget_options = ForgetOptions(**parts.given(options))
        chosen = level_of(level, oracles)
    refuse_nodes(run)
    with parts.opened(run, places) as federation:
        _keep_oracles(run, oracles_at)
        rehearsal = Rehearsal(federation, clients, forget_options, away, chosen)
        rehearsal.check()
        print_price(rehearsal.price())
        with told([Bar()]) as callback:
            result = run_rehearsal(rehearsal, callback.on_stage)
    verdict = result.evidence["verdict"]["verdict"]
    return _audited(result, after_rehearsal(Trial.of(rehearsal), verdict, _word(run)), require)


@command("pfedul audit runs/digits --target-data client-03.npz")
@click.option(
    "--target-data",
    multiple=True,
    metavar="[ID=]FILE",
    help="Samples of the forgotten client: an .npz file with x_train, y_train (trained on) and "
    "x_test, y_test (not); or 'run', where the run's data set still has them.",
)
@click.option("--request", type=int, help="Which removal; the newest if not given.")
@_level([level for level in LEVELS.values() if level.oracles], "default: standard")
@_oracles
@_oracles_at
@parts.require_option()
@parts.opens
def audit(
    run: Path,
    target_data: tuple[str, ...],
    request: int | None,
    level: str | None,
    oracles: int | None,
    oracles_at: Path | None,
    require: str | None,
    places: dict[str, Any],
) -> Output:
    """Audit a removal after the fact, with what is left and with samples that you bring.

    The tensors before the removal and the client's personal part are gone, so not every
    surface can be tested; the result says which. 'pfedul rehearse' before a removal
    tests them all.
    """
    from pfedul.audit import after
    from pfedul.audit.advice import Removed, after_removal
    from pfedul.terminal.audit import print_price

    with parts.usage():
        chosen = level_of(level or "standard", oracles)
    refuse_nodes(run)
    with parts.opened(run, places) as federation:
        _keep_oracles(run, oracles_at)
        removal = after.honoured_request(federation, request)
        if not target_data:
            raise PfedulError(
                f"Bring samples of {', '.join(removal.targets)} with --target-data FILE.npz, or "
                f"say --target-data {after.FROM_RUN} where the run's own data set still has them."
            )
        data = after.brought_data(federation, removal.targets, target_data)
        inquiry = after.Inquiry(federation, removal, data, chosen)
        inquiry.check()
        print_price(inquiry.price())
        with told([Bar()]) as callback:
            result = after.audit_after(inquiry, callback.on_stage)
    done = Removed(removal.targets, removal.number, chosen.oracles)
    verdict = result.evidence["verdict"]["verdict"]
    return _audited(result, after_removal(done, verdict, _word(run)), require)


def _word(run: Path) -> str:
    """As one word of a command."""
    return shlex.quote(str(run))


def _audited(result: Audit, steps: list[Step], require: str | None) -> Output:
    from pfedul.audit.advice import next_command
    from pfedul.terminal.audit import print_audit

    data = {"audit": result.number, **result.evidence, "clients": result.clients}
    error = parts.unmet(result.evidence["verdict"]["verdict"], require)
    return Output(data, lambda: print_audit(result.evidence, next_command(steps)), error)


@command("pfedul report runs/digits --format html", looks=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "pdf"]),
    default="html",
    show_default=True,
    help="pdf is printed by a browser of this machine: the one that PFEDUL_BROWSER names, or "
    "chromium, google-chrome or msedge.",
)
@click.option("--request", type=int, help="Which removal; the newest if not given.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write it; else a file in RUN/reports.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw as FILE.png what could be seen before, and after each removal that was measured "
    "without oracles: every rehearsal, and the removal itself.",
)
def report(
    run: Path, form: str, request: int | None, output: Path | None, picture: Path | None
) -> Output:
    """Write what is known of a removal as a page: verdict, evidence, cost, how to repeat it.

    One file that opens from disk without a network. With --output RUN is only read and
    may be in use. Pages in RUN/reports are erased by the next removal. It exits with 1 if RUN is
    not as it was signed; the page says so.
    """
    from pfedul.report.formats import write_report

    with waiting("Writing the report"):
        path = write_report(run, form, request, output, picture)
    wrong = not_as_signed(run)
    drawn = None if picture is None else str(picture)
    words = f"Wrote {path}" + (f" and {drawn}" if drawn else "")
    return Output(
        {"report": str(path), "format": form, "picture": drawn}, lambda: line(words), wrong
    )

"""The commands `inspect`, `forget`, `recalibrate` and `admit`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pfedul.cli.completion as completion
import pfedul.cli.parts as parts
from pfedul.base.text import MISSING
from pfedul.callbacks import Bar
from pfedul.cli.parts import Output, command
from pfedul.errors import PfedulError
from pfedul.store.requests import already_done
from pfedul.store.status_tables import client_rows
from pfedul.terminal.choices import method_row, print_method
from pfedul.terminal.console import line, waiting
from pfedul.unlearn.asked import Asked
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions

if TYPE_CHECKING:
    from pfedul.federation import Federation
    from pfedul.unlearn.outcome import Outcome


@command("pfedul inspect runs/digits --client client-03 --correction reset", looks=True)
@parts.client_options
@parts.options_of(ForgetOptions)
@click.option("--all", "every", is_flag=True, help="Every client's scores as a heat map.")
@click.option("--exact", is_flag=True, help="Compare with the exact Fisher; reads clients' data.")
@click.option("--save", type=click.Path(path_type=Path), help="Save the picture as FILE.png.")
@parts.opens
def inspect(
    run: Path,
    clients: tuple[str, ...],
    every: bool,
    exact: bool,
    save: Path | None,
    places: dict[str, Any],
    **options: Any,
) -> Output:
    """Show the plan for forgetting clients; nothing is touched.

    For every shared layer: its score, whether it is chosen, and how far the
    correction will move it.
    """
    if every == bool(clients):
        raise click.UsageError("Give either --client ID or --all.")
    with parts.usage():
        ForgetOptions(**parts.given(options))
    with parts.opened(run, places, read_only=True) as federation:
        if every:
            return _inspect_all(federation, save)
        return _inspect_targets(federation, clients, parts.given(options), exact=exact, save=save)


def _inspect_all(federation: Federation, save: Path | None) -> Output:
    from pfedul.report.sections.layers import save_score_map
    from pfedul.terminal.removal import print_heat_map

    scores = federation.scores()
    layers = [layer.name for layer in federation.bench.split.layers]
    if save is not None:
        save_score_map(scores, layers, save)
    return Output({"layers": layers, "scores": scores}, lambda: print_heat_map(scores, layers))


def _inspect_targets(
    federation: Federation,
    clients: tuple[str, ...],
    options: dict[str, Any],
    *,
    exact: bool = False,
    save: Path | None = None,
) -> Output:
    from pfedul.report.sections.layers import save_plan
    from pfedul.terminal import removal

    plan = federation.plan(*clients, **options)
    result = plan.as_json()
    if save is not None:
        save_plan(plan, save)
    if exact:
        with waiting("Computing the exact Fisher"):
            result["exact_scores"] = federation.exact_scores(*clients)
        recorded = [layer.score for layer in plan.layers]
        result["rank_agreement"] = _agreement(result["exact_scores"], recorded)

    def show() -> None:
        removal.print_plan(plan)
        if exact:
            removal.print_agreement(result["exact_scores"], result["rank_agreement"])

    return Output(result, show)


def _agreement(exact: list[float], recorded: list[float]) -> float | None:
    """None if there is no ranking to compare: fewer than two layers, or equal scores."""
    from pfedul.records.exact import rank_agreement

    if len(recorded) < 2:
        return None
    agreement = rank_agreement(exact, recorded)
    return None if math.isnan(agreement) else agreement


@command("pfedul forget runs/digits --client client-03")
@parts.client_options
@parts.options_of(ForgetOptions)
@parts.options_of(Asked)
@parts.away_options
@click.option("--dry-run", is_flag=True, help="Show the plan and what would be erased; do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, which is done in a terminal only.")
@click.option("--no-audit", is_flag=True, help="Do not measure what was forgotten.")
@parts.require_option(" The removal is done all the same.")
@parts.opens
def forget(
    run: Path,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    no_audit: bool,
    require: str | None,
    places: dict[str, Any],
    by: str | None,
    ground: str | None,
    due: str | None,
    **options: Any,
) -> Output:
    """Forget clients: correct the shared layers that they shaped, erase all that was theirs.

    The remaining clients then refit their personal parts locally. What was forgotten is
    measured on the clients' samples, before they are erased. Interrupted, it is finished by
    calling it again. Called once more after that, it shows the outcome and changes nothing.
    """
    asked = parts.given({"by": by, "ground": ground, "due": due})
    with parts.usage():
        if require is not None and (no_audit or dry_run):
            raise PfedulError("--require needs the measurement of a removal; leave one out.")
        ForgetOptions(**parts.given(options))
        Asked(**asked)
    with parts.opened(run, places) as federation:
        if dry_run:
            return _dry_run(federation, clients, away, parts.given(options))
        done = already_done(federation.store.ledger, clients, federation.clients)
        _confirm(federation, clients, yes or done is not None)
        how: dict[str, Any] = {"away": away, "audit": not no_audit, "callbacks": [Bar()]}
        outcome = federation.forget(*clients, **how, **asked, **parts.given(options))
        return _forgotten(outcome, federation, done is not None, require)


def _forgotten(
    outcome: Outcome, federation: Federation, done_before: bool, require: str | None
) -> Output:
    """The outcome, and what a rehearsal says of it."""
    from pfedul.report.material import applies
    from pfedul.store.audits import best_audit, read_audits
    from pfedul.terminal.audit import print_carried_over

    result = outcome.as_json()
    audit = best_audit(read_audits(federation.store.ledger), result)
    carried_over, run = applies(result, audit), federation.store.path
    following = _next(run, outcome.request)

    def show() -> None:
        _show(result, done_before)
        if audit is not None and carried_over is not None:
            print_carried_over(audit.evidence, carried_over["differences"])
        line(f"Next: {following}")

    return Output({**result, "rehearsal": carried_over}, show, _unmet(result, require))


def _next(run: Path, request: int) -> str:
    """The command that the report names as the next step."""
    from pfedul.audit.advice import next_command
    from pfedul.report.material import Material, read_material
    from pfedul.report.sections.next_steps import next_steps

    return next_command(next_steps(Material.of(read_material(run, request))))


def _unmet(result: dict[str, Any], require: str | None) -> PfedulError | None:
    """What the removal measured of itself may be less than what is required."""
    measured = result["audit"]
    return parts.unmet(measured["verdict"]["verdict"] if measured else MISSING, require)


def _show(result: dict[str, Any], done_before: bool) -> None:
    from pfedul.terminal.audit import print_own_evidence
    from pfedul.terminal.removal import print_outcome

    if done_before:
        line("This was done before; nothing was done again.")
    print_outcome(result)
    if result["audit"] is not None:
        print_own_evidence(result["audit"])


def _dry_run(
    federation: Federation,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    given_options: dict[str, Any],
) -> Output:
    from pfedul.unlearn.checks import check_away, check_method, check_targets
    from pfedul.unlearn.erasure import files_to_erase

    options = ForgetOptions(**given_options)
    check_targets(federation, clients)
    check_away(federation, clients, away)
    check_method(federation, clients, options, away)
    method, own = METHODS.parse(options.method)
    plan = Output(method_row(method, own), lambda: print_method(method, own))
    if method.does.plans:
        plan = _inspect_targets(federation, clients, given_options)
    files = files_to_erase(federation, clients, options)
    erased = ", ".join([*files, *_erased_folders(federation, clients)]) or "no file"

    def show() -> None:
        plan.show()
        line(f"Would erase: {erased}, and the ledger's rows of them.")

    return Output(plan.data, show)


def _erased_folders(federation: Federation, clients: tuple[str, ...]) -> list[str]:
    """Oracles and comparisons that contain these clients."""
    from pfedul.store.copies import obsolete_folders

    run, remaining = federation.store.path, set(federation.clients) - set(clients)
    folders = obsolete_folders(run, remaining)
    return [f"{f.relative_to(run) if f.is_relative_to(run) else f}/" for f in folders]


def _confirm(federation: Federation, clients: tuple[str, ...], yes: bool) -> None:
    if clients and not yes and sys.stdin.isatty():
        names, folders = ", ".join(clients), ", ".join(_erased_folders(federation, clients))
        also = f" Erased with what is theirs: {folders}." if folders else ""
        question = f"Forget {names} for good?{also} This cannot be undone."
        click.confirm(question, abort=True, err=True)


@command("pfedul recalibrate runs/digits")
@parts.opens
def recalibrate(run: Path, places: dict[str, Any]) -> Output:
    """Let clients recalibrate that were away when another was forgotten."""
    with parts.opened(run, places) as federation, waiting("Recalibrating"):
        done = federation.recalibrate()
    text = f"Recalibrated: {', '.join(done) or 'nobody; all have done so'}."
    return Output({"recalibrated": done}, lambda: line(text))


@command("pfedul admit runs/digits --client client-03 --again")
@click.option(
    "--client",
    required=True,
    metavar="ID",
    help="Who joins; its data must be known.",
    shell_complete=completion.forgotten_clients,
)
@click.option("--again", is_flag=True, help="Admit a forgotten client as a new one.")
@parts.opens
def admit(run: Path, client: str, again: bool, places: dict[str, Any]) -> Output:
    """Let a client join from the next round on, as a new one."""
    with parts.opened(run, places) as federation:
        text = f"{client} is part of this run already; nothing was done."
        if client not in federation.clients:
            federation.admit(client, again=again)
            text = f"Admitted {client}; it takes part from round {federation.rounds + 1} on."
        rows = client_rows(federation.store.ledger)
        joined = next(row["joined_round"] for row in rows if row["client"] == client)
    return Output({"client": client, "joined_round": joined}, lambda: line(text))

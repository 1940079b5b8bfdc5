"""The commands `inspect`, `forget`, `recalibrate` and `admit`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import click

from pfedul.cli.parts import (
    as_json_flag,
    away_options,
    client_options,
    data_root_option,
    example,
    given,
    opened,
    options_of,
    print_json,
    run_argument,
)
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.records.exact import rank_agreement
from pfedul.report import save_plan, save_score_map
from pfedul.store.audits import best_audit, differences, read_audits
from pfedul.store.copies import obsolete_folders
from pfedul.terminal.audit import print_carried_over
from pfedul.terminal.choices import method_row, print_method
from pfedul.terminal.console import line, waiting
from pfedul.terminal.removal import (
    print_agreement,
    print_heat_map,
    print_outcome,
    print_plan,
    stage_bars,
)
from pfedul.unlearn.checks import check_away, check_method, check_targets
from pfedul.unlearn.erasure import files_to_erase
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions


@example("pfedul inspect runs/digits --client client-03 --correction reset")
@click.command()
@run_argument
@client_options
@options_of(ForgetOptions)
@click.option("--all", "every", is_flag=True, help="Every client's scores as a heat map.")
@click.option("--exact", is_flag=True, help="Compare with the exact Fisher; reads clients' data.")
@click.option("--save", type=click.Path(path_type=Path), help="Save the picture as FILE.png.")
@data_root_option
@as_json_flag
def inspect(
    run: Path,
    clients: tuple[str, ...],
    every: bool,
    exact: bool,
    save: Path | None,
    data_root: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the plan for forgetting clients; nothing is touched.

    For every shared layer: its score, whether it is chosen, and how far the
    correction will move it.
    """
    if every == bool(clients):
        raise PfedulError("Give either --client ID or --all.")
    with opened(run, data_root) as federation:
        if every:
            _inspect_all(federation, save, as_json)
        else:
            _inspect_targets(federation, clients, given(options), as_json, exact=exact, save=save)


def _inspect_all(federation: Federation, save: Path | None, as_json: bool) -> None:
    scores = federation.scores()
    layers = [layer.name for layer in federation.bench.split.layers]
    if save is not None:
        save_score_map(scores, layers, save)
    if as_json:
        print_json({"layers": layers, "scores": scores})
    else:
        print_heat_map(scores, layers)


def _inspect_targets(
    federation: Federation,
    clients: tuple[str, ...],
    options: dict[str, Any],
    as_json: bool,
    *,
    exact: bool = False,
    save: Path | None = None,
) -> None:
    plan = federation.plan(*clients, **options)
    result = plan.as_json()
    if save is not None:
        save_plan(plan, save)
    if exact:
        with waiting("Computing the exact Fisher"):
            result["exact_scores"] = federation.exact_scores(*clients)
        recorded = [layer.score for layer in plan.layers]
        result["rank_agreement"] = _agreement(result["exact_scores"], recorded)
    if as_json:
        print_json(result)
        return
    print_plan(plan)
    if exact:
        print_agreement(result["exact_scores"], result["rank_agreement"])


def _agreement(exact: list[float], recorded: list[float]) -> float | None:
    """None if there is no ranking to compare: fewer than two layers, or equal scores."""
    if len(recorded) < 2:
        return None
    agreement = rank_agreement(exact, recorded)
    return None if math.isnan(agreement) else agreement


@example("pfedul forget runs/digits --client client-03")
@click.command()
@run_argument
@client_options
@options_of(ForgetOptions)
@away_options
@click.option("--dry-run", is_flag=True, help="Show the plan and what would be erased; do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, which is done in a terminal only.")
@data_root_option
@as_json_flag
def forget(
    run: Path,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    data_root: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Forget clients: correct the shared layers that they shaped, erase all that was theirs.

    The remaining clients then refit their personal parts locally. Interrupted, it
    is finished by calling it again.
    """
    with opened(run, data_root) as federation:
        if dry_run:
            _dry_run(federation, clients, away, as_json, given(options))
            return
        _confirm(federation, clients, yes)
        with stage_bars() as on_stage:
            outcome = federation.forget(*clients, away=away, on_stage=on_stage, **given(options))
        audits = read_audits(federation.store.ledger)
    result = outcome.as_json()
    audit = best_audit(audits, result)
    changes = [] if audit is None else differences(audit.evidence, result)
    if as_json:
        applies = None if audit is None else {"holds": not changes, "differences": changes}
        print_json({**result, "rehearsal": applies})
        return
    print_outcome(result)
    if audit is not None:
        print_carried_over(audit.evidence, changes)


def _dry_run(
    federation: Federation,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    as_json: bool,
    given_options: dict[str, Any],
) -> None:
    options = ForgetOptions(**given_options)
    check_targets(federation, clients)
    check_away(federation, clients, away)
    check_method(federation, clients, options, away)
    method, method_options = METHODS.parse(options.method)
    if method.does.plans:
        _inspect_targets(federation, clients, given_options, as_json)
    elif as_json:
        print_json(method_row(method, method_options))
    else:
        print_method(method, method_options)
    if not as_json:
        files = files_to_erase(federation, clients, options)
        erased = ", ".join([*files, *_erased_folders(federation, clients)])
        line(f"Would erase: {erased or 'no file'}, and the ledger's rows of them.")


def _erased_folders(federation: Federation, clients: tuple[str, ...]) -> list[str]:
    """Oracles and comparisons that contain these clients."""
    run, remaining = federation.store.path, set(federation.clients) - set(clients)
    return [f"{folder.relative_to(run)}/" for folder in obsolete_folders(run, remaining)]


def _confirm(federation: Federation, clients: tuple[str, ...], yes: bool) -> None:
    if clients and not yes and sys.stdin.isatty():
        names, folders = ", ".join(clients), ", ".join(_erased_folders(federation, clients))
        also = f" Erased with what is theirs: {folders}." if folders else ""
        question = f"Forget {names} for good?{also} This cannot be undone."
        click.confirm(question, abort=True, err=True)


@example("pfedul recalibrate runs/digits")
@click.command()
@run_argument
@data_root_option
@as_json_flag
def recalibrate(run: Path, data_root: str | None, as_json: bool) -> None:
    """Let clients recalibrate that were away when another was forgotten."""
    with opened(run, data_root) as federation, waiting("Recalibrating"):
        done = federation.recalibrate()
    if as_json:
        print_json({"recalibrated": done})
    else:
        line(f"Recalibrated: {', '.join(done) or 'nobody; all have done so'}.")


@example("pfedul admit runs/digits --client client-03 --again")
@click.command()
@run_argument
@click.option("--client", required=True, metavar="ID", help="Who joins; its data must be known.")
@click.option("--again", is_flag=True, help="Admit a forgotten client as a new one.")
@data_root_option
@as_json_flag
def admit(run: Path, client: str, again: bool, data_root: str | None, as_json: bool) -> None:
    """Let a client join from the next round on, as a new one."""
    with opened(run, data_root) as federation:
        federation.admit(client, again=again)
        rounds = federation.rounds
    if as_json:
        print_json({"client": client, "joined_round": rounds})
    else:
        line(f"Admitted {client}; it takes part from round {rounds + 1} on.")

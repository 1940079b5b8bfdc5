"""The command line: parses and prints, nothing else."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from pfedul.cli.compare import compare
from pfedul.cli.deploy import down, up
from pfedul.cli.evidence import audit, rehearse, report
from pfedul.cli.parts import (
    INTERRUPTED,
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
from pfedul.data import DATASETS, PARTITIONS
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.records.exact import rank_agreement
from pfedul.report import save_plan, save_score_map
from pfedul.settings import Settings, changeable, from_mapping, merge, read_settings, read_toml
from pfedul.status import read_status
from pfedul.store.audits import best_audit, differences, read_audits
from pfedul.store.copies import doomed_folders
from pfedul.store.paths import LEDGER_FILE
from pfedul.terminal import audit as show_audit
from pfedul.terminal import choices as show_methods
from pfedul.terminal import console as show
from pfedul.terminal import removal as show_removal
from pfedul.unlearn.checks import check_away, check_method, check_targets
from pfedul.unlearn.erasure import files_to_erase
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions
from pfedul.version import __version__


class SentenceErrors(click.Group):
    """A user's mistake is one sentence on stderr and a non-zero exit; so is an interruption."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PfedulError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted; everything that was finished is saved.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=SentenceErrors)
@click.version_option(__version__, package_name="pfedul")
def main() -> None:
    """Train a personalised federation, forget a client, prove it."""


@example("pfedul train runs/digits --personalization fedrep --clients 10 --rounds 20")
@main.command()
@run_argument
@click.option("--config", type=click.Path(path_type=Path), help="Options from a TOML file.")
@options_of(Settings)
@as_json_flag
def train(run: Path, config: Path | None, as_json: bool, **options: Any) -> None:
    """Train the federation in the folder RUN, or continue it.

    Options on the command line win over those of --config. What was used is
    written to RUN/federation.toml. Called again on the same RUN it continues to
    --rounds; an option that conflicts with the run is refused.
    """
    asked = read_toml(config) if config else {}
    asked |= given(options)
    with _open_or_create(run, asked, config) as federation, show.training_bar() as report:
        before = federation.rounds
        try:
            federation.train(asked.get("rounds"), report)
        except KeyboardInterrupt:
            report.stop()
            _stop_after(federation.rounds, run)
    _print_training(run, before, as_json)


def _open_or_create(run: Path, asked: dict[str, Any], config: Path | None) -> Federation:
    settings = from_mapping(asked, str(config or "the command line"))
    if (run / LEDGER_FILE).is_file():
        merge(read_settings(run), asked)
        with show.waiting("Opening the run"):
            later = {key: value for key, value in changeable(asked).items() if key != "rounds"}
            return Federation.open(run, **later)
    with show.waiting(f"Loading {settings.data}"):
        federation = Federation.create(run, **asked)
    for warning in federation.warnings:
        click.echo(f"Warning: {warning}", err=True)
    return federation


def _stop_after(rounds: int, run: Path) -> NoReturn:
    saved = f"after round {rounds}, which is saved" if rounds else "before a round was finished"
    click.echo(f"Stopped {saved}; 'pfedul train {run}' goes on from there.", err=True)
    sys.exit(INTERRUPTED)


def _print_training(run: Path, before: int, as_json: bool) -> None:
    status = read_status(run)
    if as_json:
        print_json(status)
    else:
        show.trained(status, before)


@example("pfedul status runs/digits")
@main.command()
@run_argument
@as_json_flag
def status(run: Path, as_json: bool) -> None:
    """Show the state of RUN: rounds, clients, accuracy, refused replies, size.

    It only reads, so it may be called while RUN is being trained.
    """
    found = read_status(run)
    if as_json:
        print_json(found)
    else:
        show.status(found)


@example("pfedul evaluate runs/digits --json")
@main.command()
@run_argument
@data_root_option
@as_json_flag
def evaluate(run: Path, data_root: str | None, as_json: bool) -> None:
    """Measure each client's personal model on the client's own test samples."""
    with opened(run, data_root) as federation, show.waiting("Evaluating"):
        evaluation = federation.evaluate()
    if as_json:
        print_json(show.evaluation_data(evaluation))
    else:
        show.evaluation(evaluation)


@example("pfedul inspect runs/digits --client client-03 --correction reset")
@main.command()
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
            _inspect_targets(federation, clients, exact, save, as_json, given(options))


def _inspect_all(federation: Federation, save: Path | None, as_json: bool) -> None:
    scores = federation.scores()
    layers = [layer.name for layer in federation.bench.split.layers]
    if save is not None:
        save_score_map(scores, layers, save)
    if as_json:
        print_json({"layers": layers, "scores": scores})
    else:
        show_removal.heat_map(scores, layers)


def _inspect_targets(
    federation: Federation,
    clients: tuple[str, ...],
    exact: bool,
    save: Path | None,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    plan = federation.plan(*clients, **options)
    found = plan.as_json()
    if save is not None:
        save_plan(plan, save)
    if exact:
        with show.waiting("Computing the exact Fisher"):
            found["exact_scores"] = federation.exact_scores(*clients)
        running = [layer.score for layer in plan.layers]
        found["rank_agreement"] = _agreement(found["exact_scores"], running)
    if as_json:
        print_json(found)
        return
    show_removal.plan(plan)
    if exact:
        show_removal.agreement(found["exact_scores"], found["rank_agreement"])


def _agreement(exact: list[float], running: list[float]) -> float | None:
    """None where there is no ranking to compare: fewer than two layers, or equal scores."""
    if len(running) < 2:
        return None
    found = rank_agreement(exact, running)
    return None if math.isnan(found) else found


@example("pfedul forget runs/digits --client client-03")
@main.command()
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
        with show_removal.stages() as on_stage:
            outcome = federation.forget(*clients, away=away, on_stage=on_stage, **given(options))
        found = outcome.as_json()
        rehearsed = best_audit(read_audits(federation.store.ledger), found)
    evidence = None if rehearsed is None else rehearsed.evidence
    others = [] if evidence is None else differences(evidence, found)
    if as_json:
        applies = None if evidence is None else {"holds": not others, "differences": others}
        print_json({**found, "rehearsal": applies})
        return
    show_removal.outcome(found)
    if evidence is not None:
        show_audit.carried_over(evidence, others)


def _dry_run(
    federation: Federation,
    clients: tuple[str, ...],
    away: tuple[str, ...],
    as_json: bool,
    options: dict[str, Any],
) -> None:
    check_targets(federation, clients)
    check_away(federation, clients, away)
    wish = ForgetOptions(**options)
    check_method(federation, clients, wish, away)
    method, own = METHODS.parse(wish.method)
    if method.does.plans:
        _inspect_targets(federation, clients, False, None, as_json, options)
    elif as_json:
        print_json(show_methods.method_row(method, own))
    else:
        show_methods.one(method, own)
    if not as_json:
        doomed = [*files_to_erase(federation, clients, wish), *_doomed_folders(federation, clients)]
        show.line(f"Would erase: {', '.join(doomed) or 'no file'}, and the ledger's rows of them.")


def _doomed_folders(federation: Federation, clients: tuple[str, ...]) -> list[str]:
    """Oracles and comparisons that these clients are in."""
    run, present = federation.store.path, set(federation.clients) - set(clients)
    return [f"{folder.relative_to(run)}/" for folder in doomed_folders(run, present)]


def _confirm(federation: Federation, clients: tuple[str, ...], yes: bool) -> None:
    if clients and not yes and sys.stdin.isatty():
        names, also = ", ".join(clients), ", ".join(_doomed_folders(federation, clients))
        words = f" Erased with what is theirs: {also}." if also else ""
        question = f"Forget {names} for good?{words} This cannot be undone."
        click.confirm(question, abort=True, err=True)


@example("pfedul recalibrate runs/digits")
@main.command()
@run_argument
@data_root_option
@as_json_flag
def recalibrate(run: Path, data_root: str | None, as_json: bool) -> None:
    """Let clients recalibrate that were away when another was forgotten."""
    with opened(run, data_root) as federation, show.waiting("Recalibrating"):
        done = federation.recalibrate()
    if as_json:
        print_json({"recalibrated": done})
    else:
        show.line(f"Recalibrated: {', '.join(done) or 'nobody; all have done so'}.")


@example("pfedul admit runs/digits --client client-03 --again")
@main.command()
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
        show.line(f"Admitted {client}; it takes part from round {rounds + 1} on.")


@example("pfedul datasets --json")
@main.command()
@as_json_flag
def datasets(as_json: bool) -> None:
    """List the data sets and the partitions that deal them to clients."""
    tables = {"datasets": show.dataset_rows(DATASETS), "partitions": show.choice_rows(PARTITIONS)}
    _print_tables(tables, as_json)


@example("pfedul personalizations")
@main.command()
@as_json_flag
def personalizations(as_json: bool) -> None:
    """List the personalisations: what each shares, what it keeps, how it trains."""
    _print_tables({"personalizations": show.personalization_rows(PERSONALIZATIONS)}, as_json)


@example("pfedul models")
@main.command()
@as_json_flag
def models(as_json: bool) -> None:
    """List the models and their options."""
    _print_tables({"models": show.choice_rows(MODELS)}, as_json)


@example("pfedul methods")
@main.command()
@as_json_flag
def methods(as_json: bool) -> None:
    """List the unlearning methods: what each needs, who works, for how long, what it promises."""
    if as_json:
        print_json({"methods": [show_methods.method_row(method) for method in METHODS]})
        return
    for method in METHODS:
        show_methods.one(method)


for further in (rehearse, audit, compare, report, up, down):
    main.add_command(further)


def _print_tables(tables: dict[str, list[dict[str, str]]], as_json: bool) -> None:
    if as_json:
        print_json(tables)
        return
    for title, rows in tables.items():
        show.table(title, rows)

"""The commands `train`, `status` and `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pfedul.cli.parts as parts
from pfedul.callbacks import Bar
from pfedul.cli.parts import Output, command, not_as_signed
from pfedul.experiments.scales import preset, preset_names
from pfedul.settings import OWN, Settings, changeable, from_mapping, merge, read_settings, read_toml
from pfedul.store.paths import LEDGER_FILE
from pfedul.terminal.console import waiting
from pfedul.unlearn.methods import with_records_of_methods

if TYPE_CHECKING:
    from pfedul.federation import Federation


@command("pfedul train runs/digits --personalization fedrep --clients 10 --rounds 20")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Options from a TOML file, or from a preset of 'pfedul reproduce' such as cpu-cifar10.",
)
@parts.options_of(Settings)
def train(run: Path, config: Path | None, **options: Any) -> Output:
    """Train the federation in the folder RUN, or continue it.

    Options on the command line win over those of --config. What was used is
    written to RUN/federation.toml. Called again on the same RUN it continues to
    --rounds; an option that conflicts with the run is refused.
    """
    from pfedul.run.owncode import refuse_code_of_run
    from pfedul.status import read_status
    from pfedul.terminal.status import print_trained

    named = parts.given(options)
    with parts.usage():
        configured = _configuration(config) if config else {}
        settings = with_records_of_methods(configured | named)
        chosen = from_mapping(settings, str(config or "the command line"))
    if config is not None:
        refuse_code_of_run(config, configured, named)
    with _open_or_create(run, settings, chosen.data, named) as federation:
        before = federation.rounds
        try:
            federation.train(settings.get("rounds"), [Bar()])
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_stopped(federation.rounds, run)) from None
    result = read_status(run)
    return Output(result, lambda: print_trained(result, before))


def _configuration(config: Path) -> dict[str, Any]:
    """The values of a file, or of a preset where there is no such file."""
    if not config.exists() and str(config) in preset_names():
        return preset(str(config))
    return read_toml(config)


def _open_or_create(
    run: Path, given_settings: dict[str, Any], data: str, named: dict[str, Any]
) -> Federation:
    """`named`: what the command line itself says, which may confirm code that RUN names."""
    from pfedul.federation import Federation
    from pfedul.run.owncode import CODE

    if (run / LEDGER_FILE).is_file():
        stored, code = read_settings(run), {key: named[key] for key in CODE if key in named}
        merge(stored, {k: v for k, v in given_settings.items() if getattr(stored, k) != OWN})
        changes = changeable(given_settings)
        changes.pop("rounds", None)
        with waiting("Opening the run"):
            return Federation.open(run, **code, **changes)
    with waiting(f"Loading {data}"):
        federation = Federation.create(run, **given_settings)
    for warning in federation.warnings:
        click.echo(f"Warning: {warning}", err=True)
    return federation


def _stopped(rounds: int, run: Path) -> str:
    saved = f"after round {rounds}, which is saved" if rounds else "before a round was finished"
    return f"Stopped {saved}; 'pfedul train {run}' goes on from there."


@command("pfedul status runs/digits", looks=True)
def status(run: Path) -> Output:
    """Show the state of RUN: rounds, clients, accuracy, refused replies, size.

    It only reads, so it may be called while RUN is being trained. It exits with 1 if RUN is not as
    it was signed.
    """
    from pfedul.status import read_status
    from pfedul.terminal.status import print_status

    result = read_status(run)
    return Output(result, lambda: print_status(result), not_as_signed(run))


@command("pfedul evaluate runs/digits --json", looks=True)
@parts.opens
def evaluate(run: Path, places: dict[str, Any]) -> Output:
    """Measure each client's personal model on the client's own test samples.

    It only reads, so it may be called while RUN is being trained, and on a read-only copy.
    """
    from pfedul.terminal.status import print_evaluation

    with parts.opened(run, places, read_only=True) as federation, waiting("Evaluating"):
        evaluation = federation.evaluate()
    return Output(evaluation.as_json(), lambda: print_evaluation(evaluation))

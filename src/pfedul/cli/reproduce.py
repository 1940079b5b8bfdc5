"""The command `reproduce`."""

from __future__ import annotations

from pathlib import Path

import click

import pfedul.cli.completion as completion
from pfedul.base.names import DEVICES, PRECISIONS
from pfedul.cli.parts import Output, command, data_root_option, given
from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.scales import SCALES

_SCALES = "; ".join(f"{name}: {summary}" for name, summary in SCALES.items())


@command("pfedul reproduce table7 --scale toy --seeds 2 --into runs/table7", run=False)
@click.argument(
    "names",
    nargs=-1,
    metavar="[EXPERIMENT]...",
    shell_complete=completion.names(EXPERIMENTS),
)
@click.option(
    "--scale", type=click.Choice(list(SCALES)), default="cpu", show_default=True, help=_SCALES
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Trainings of each."
)
@click.option(
    "--oracles",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Retrained models that each removal is compared with.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path("reproduced"),
    show_default=True,
    help="Folder for results; the cases in it are not worked out again.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes that train and remove, with one thread each; as many as cores.",
)
@click.option("--device", help=f"Where clients and audits compute: {DEVICES}; cpu by default.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    show_default=True,
    help="Precision of local training.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Only trainings with this in their name, DATA/PERSONALISATION/COLUMN/seedN, such as "
    "cifar10/fedrep, Sequential or seed0; given again, those with either.",
)
@click.option("--price", "only_price", is_flag=True, help="Only say what it would cost.")
@click.option("--keep-runs", is_flag=True, help="Keep the run folders that nothing needs any more.")
@data_root_option
def reproduce(
    names: tuple[str, ...],
    scale: str,
    seeds: int,
    oracles: int,
    into: Path,
    workers: int | None,
    device: str | None,
    precision: str,
    only: tuple[str, ...],
    only_price: bool,
    keep_runs: bool,
    data_root: str | None,
) -> Output:
    """Make the tables and figures of the paper, and ours, from nothing; without names, list them.

    `all` names every experiment. Each case, a training and its removals, is a file in FOLDER/cells,
    and tables share cases. Interrupted, the same command goes on; a second process with the same
    FOLDER takes other cases. Runs in FOLDER/runs stay until no experiment needs them.
    """
    from pfedul.experiments.cases import Scale
    from pfedul.experiments.reproduce import Reproduction
    from pfedul.experiments.reproduce import reproduce as run_reproduction
    from pfedul.terminal import reproduce as terminal

    if names in {(), ("list",)}:
        return Output(terminal.listed(EXPERIMENTS), lambda: terminal.print_list(EXPERIMENTS))
    chosen = list(EXPERIMENTS if names == ("all",) else map(EXPERIMENTS.__getitem__, names))
    size = Scale(scale, seeds, oracles, precision)
    how = given({"data_root": data_root, "workers": workers, "device": device})
    reproduction = Reproduction(chosen, size, into, how, keep_runs, only)
    with terminal.timing():
        price = reproduction.price()
    terminal.print_price(price, names)
    if only_price:
        return Output(price.as_json(), lambda: None)
    with terminal.progress() as on_progress:
        documents = run_reproduction(reproduction, on_progress)
    return Output(documents, lambda: terminal.print_documents(documents, into))

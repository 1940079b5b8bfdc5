"""The command `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pfedul.cli.completion as completion
from pfedul.callbacks import Bar
from pfedul.cli.evidence import refuse_nodes
from pfedul.cli.parts import Output, client_options, command, opened, opens, require_option
from pfedul.errors import PfedulError, RequirementNotMet
from pfedul.unlearn.methods import METHODS

if TYPE_CHECKING:
    from pfedul.report.material import Json


@command("pfedul compare runs/digits --client client-03 --methods pfedul,federaser,retrain")
@client_options
@click.option(
    "--methods",
    multiple=True,
    default=("all",),
    show_default=True,
    metavar="NAME[:KEY=VALUE,...]",
    shell_complete=completion.names(METHODS, "all", separator=","),
    help="Methods, with commas between or given again; 'all'. For pfedul the options of "
    "'forget': pfedul:correction=reset,fraction=0.3. NAME+recalibrate recalibrates after it.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often each method is tried from the same checkpoint, with seeds of its own.",
)
@click.option(
    "--oracles", type=click.IntRange(min=2), default=2, show_default=True, help="Oracles to train."
)
@click.option("--workers", type=click.IntRange(min=1), help="Cells at a time; as many as cores.")
@click.option(
    "--in-turn",
    is_flag=True,
    help="Forget the clients one after another; judge when all have left.",
)
@click.option(
    "--save", type=click.Path(path_type=Path), help="Also write page, picture and JSON here."
)
@require_option(" One method must reach it, with every seed.")
@opens
def compare(
    run: Path,
    clients: tuple[str, ...],
    methods: tuple[str, ...],
    seeds: int,
    oracles: int,
    workers: int | None,
    in_turn: bool,
    save: Path | None,
    require: str | None,
    places: dict[str, Any],
) -> Output:
    """Forget clients with many methods, each in a branch of RUN, and audit them side by side.

    RUN itself stays as it is; branches, results and the page are in RUN/comparisons.
    Interrupted, the next call goes on with the cells that are not finished; the page also
    has what earlier calls found about the same clients.
    """
    from pfedul.compare.page import check_writable, write_pages
    from pfedul.terminal.compare import print_comparison

    refuse_nodes(run)
    with opened(run, places) as federation:
        if save is not None:
            check_writable(save)
        size: dict[str, Any] = {"seeds": seeds, "oracles": oracles, "workers": workers}
        result = federation.compare(
            *clients, methods=methods, in_turn=in_turn, callbacks=[Bar()], **size
        )
    document = result.document
    files = result.files if save is None else write_pages(document, save)
    return Output(
        {**document, "files": {kind: str(file) for kind, file in files.items()}},
        lambda: print_comparison(document, files["page"]),
        error_of(document, require),
    )


def error_of(document: Json, required: str | None) -> PfedulError | None:
    """Where no method has a result, or none meets with every seed what is required."""
    from pfedul.audit.advice import meets
    from pfedul.compare.tables import verdicts_of

    if all(cell["failure"] for cell in document["cells"] if cell["asked"]):
        return PfedulError("No method that was asked for came to a result; its row says why.")
    if required is None:
        return None
    rows = [verdicts_of(row) for row in document["methods"] if row["asked"]]
    if any(row and all(meets(verdict, required) for verdict in row) for row in rows):
        return None
    return RequirementNotMet(f"No method has a verdict as --require asks for: '{required}'.")

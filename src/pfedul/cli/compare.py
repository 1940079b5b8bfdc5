"""The command `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pfedul.callbacks import Bar
from pfedul.cli.evidence import refuse_nodes
from pfedul.cli.parts import Output, client_options, command, opened, opens


@command("pfedul compare runs/digits --client client-03 --methods pfedul,federaser,retrain")
@client_options
@click.option(
    "--methods",
    multiple=True,
    default=("all",),
    show_default=True,
    metavar="NAME[:KEY=VALUE,...]",
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
        result = federation.compare(
            *clients,
            methods=methods,
            seeds=seeds,
            oracles=oracles,
            workers=workers,
            in_turn=in_turn,
            callbacks=[Bar()],
        )
    document = result.document
    files = result.files if save is None else write_pages(document, save)
    failed = all(cell["failure"] for cell in document["cells"] if cell["asked"])
    return Output(
        {**document, "files": {kind: str(file) for kind, file in files.items()}},
        lambda: print_comparison(document, files["page"]),
        "No method that was asked for came to a result; its row says why." if failed else None,
    )

"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import pfedul.cli.completion as completion
import pfedul.cli.parts as parts
from pfedul.cli.parts import Output, command
from pfedul.terminal.console import line, waiting


@command("pfedul export runs/digits --client client-03 --into models/client-03", looks=True)
@click.option(
    "--client",
    required=True,
    metavar="ID",
    help="The client.",
    shell_complete=completion.clients,
)
@click.option(
    "--into", required=True, type=click.Path(path_type=Path), help="A new folder, or an empty one."
)
@click.option("--onnx", is_flag=True, help="Also write model.onnx.")
@parts.opens
def export(run: Path, client: str, into: Path, onnx: bool, places: dict[str, Any]) -> Output:
    """Write the whole model of a client, shared and personal tensors together, into a folder.

    The folder gets model.safetensors and model.py, whose function 'load' returns the model.
    What is taken away is not erased when the client is forgotten.
    """
    with parts.opened(run, places, read_only=True) as federation, waiting("Exporting"):
        files = federation.export(client, into, onnx=onnx)
    names = {file.name: str(file) for file in files}
    return Output(
        {"client": client, "rounds": federation.rounds, "files": names},
        lambda: line(f"Wrote {', '.join(names.values())}."),
    )

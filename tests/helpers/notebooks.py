"""Notebooks without Jupyter: its kernel would bring thirty packages into the development tools."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from helpers.cells_here import cells_here


def read_notebook(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def code_of(notebook: dict[str, Any]) -> list[str]:
    """What each code cell says."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any]) -> str | None:
    """What a notebook shows below the cell: its last line, if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


if __name__ == "__main__":
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with cells_here():  # those of a comparison
        for cell in code_of(read_notebook(Path(sys.argv[1]))):
            if (shown := run_cell(cell, namespace)) is not None:
                print(shown)

"""Imports only go down: no module imports one of a higher floor, and there is no cycle.

Typing-only and lazy imports count, and so do the entries of registries, which are imported when
they are used. The floors are also in docs/architecture.md.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

FLOORS = (
    *("version", "errors", "base", "aggregation", "split", "adapters", "tasks", "data"),
    *(
        "models",
        "personalization",
        "evaluation",
        "protocol",
        "store",
        "clusters",
        "records",
        "settings",
    ),
    *("client", "server", "engine", "run", "unlearn", "audit", "status", "proof", "report"),
    *("dashboard", "compare", "experiments", "keywords", "federation"),
    *("flower", "terminal", "callbacks", "cli"),
)
DOORS = ("pfedul", "pfedul.__main__")
"""The package's own door and `python -m pfedul`: on top of everything."""


ENTRY = re.compile(r"^(pfedul[.\w]+):\w+$")
"""An entry of a registry: `module:attribute`."""


@cache
def modules() -> dict[str, Path]:
    return {_name(path): path for path in sorted((SRC / "pfedul").rglob("*.py"))}


def _name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of pfedul that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(ENTRY.findall(node.value))
    return {name for name in names if name in known}


@cache
def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: imported(path, known) - {name} for name, path in known.items()}


def floor(module: str) -> int:
    return len(FLOORS) if module in DOORS else FLOORS.index(module.split(".")[1])


def test_no_import_goes_up():
    upward = [
        f"{module} imports {name}"
        for module, names in graph().items()
        for name in names
        if floor(name) > floor(module)
    ]
    assert not upward


def test_there_is_no_cycle():
    """A package's door lists its entries, which do not import the door."""
    TopologicalSorter(graph()).prepare()


def test_the_floors_are_those_of_the_docs():
    page = (SRC.parent / "docs/architecture.md").read_text()
    assert ", ".join(FLOORS) in " ".join(page.split())


def test_every_floor_is_there():
    assert {name.split(".")[1] for name in modules() if name not in DOORS} == set(FLOORS)


def test_few_modules_at_the_top_and_none_is_long():
    top = [path for path in (SRC / "pfedul").glob("*.py")]
    lengths = {path: len(path.read_text().splitlines()) for path in modules().values()}
    assert len(top) <= 14
    assert {path: length for path, length in lengths.items() if length > 350} == {}


METHOD_FILES = [
    path
    for path in (SRC / "pfedul/unlearn/methods").rglob("*.py")
    if path.name not in {"__init__.py", "retrain.py", "budgeted.py"}
]


@pytest.mark.parametrize("path", METHOD_FILES, ids=lambda path: path.stem)
def test_a_method_sees_its_context_and_not_the_run(path):
    """Methods that train a run of their own, retraining, are excepted."""
    reached = [
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "run"
        and isinstance(node.value, ast.Name)
        and node.value.id == "ctx"
    ]
    assert not reached
    assert not {"pfedul.run.run", "pfedul.store.store"} & imported(path, modules())


OF_FLOWER = "pfedul.flower.deployment.down"
"""It erases rows of Flower's own database, not of the ledger."""

SQL = ("SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "PRAGMA ")


def test_sql_is_in_the_store_alone():
    outside = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        if not name.startswith(("pfedul.store", OF_FLOWER))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(SQL)
    ]
    assert not outside

"""What pfedul imports is declared, what is declared is locked with hashes, and Flower's private
modules are imported in one place only."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from test_imports import modules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = ("dev.lock", "torch.lock", "torch-cpu.lock", "audit.lock", "docs.lock")

WITH_FLOWER = ("pfedul.flower", "pfedul.engine.flower")
"""Packages that need the extras of Flower; nothing else may."""

FLOWER_PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.simulation"}
FLOWER_PRIVATE = "pfedul.flower.deployment.control"
"""Its docstring says why there is no public module for what it does."""


@cache
def imports(module: str) -> set[str]:
    """The names of all modules that a module of pfedul imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def distributions(names: set[str]) -> set[str]:
    """The packages of other people to which modules belong."""
    tops = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"pfedul"}
    return {canonicalize_name(packages_distributions()[top][0]) for top in tops}


def declared(*extras: str) -> dict[str, Requirement]:
    """The requirements of the package with these extras, by their names."""
    wanted = [Requirement(line) for line in PROJECT["dependencies"]]
    for extra in extras:
        wanted += [Requirement(line) for line in EXTRAS[extra]]
    return {canonicalize_name(item.name): item for item in wanted}


def locked(name: str) -> dict[str, list[str]]:
    """The packages of a lock file -> the pinned versions; every one of them must have hashes."""
    versions: dict[str, list[str]] = {}
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        package, version, rest = re.fullmatch(r"([\w.-]+)==([\w.+]+)(.*)", line).groups()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), line
        versions.setdefault(canonicalize_name(package), []).append(version)
    return versions


def test_what_the_package_imports_is_declared_and_nothing_else():
    plain = [name for name in modules() if not name.startswith(WITH_FLOWER)]
    assert distributions(set().union(*map(imports, plain))) == set(declared())


def test_what_flower_needs_is_declared_by_its_extras():
    flower = [name for name in modules() if name.startswith(WITH_FLOWER)]
    needed = distributions(set().union(*map(imports, flower)))
    assert needed <= set(declared("flower", "flower-simulation"))
    assert {"flwr", "cryptography", "httpx", "ray"} <= needed


def test_private_modules_of_flower_are_imported_in_one_place():
    private = {
        module: [name for name in imports(module) if name.split(".")[0] == "flwr"]
        for module in modules()
        if module != FLOWER_PRIVATE
    }
    assert {name for names in private.values() for name in names} <= FLOWER_PUBLIC
    assert imports(FLOWER_PRIVATE) - FLOWER_PUBLIC  # else the exception is no longer needed


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_hash_for_everything_and_names_no_address(name):
    assert locked(name)
    assert "://" not in (ROOT / "requirements" / name).read_text()


def test_everything_declared_is_in_the_lock():
    wanted = declared("flower", "flower-simulation", "dev")
    versions = locked("dev.lock") | locked("torch.lock")
    for name in set(wanted) - {"pfedul"}:
        pinned = versions.get(name, [])
        assert pinned, f"{name} is not locked: run 'make lock'"
        assert all(wanted[name].specifier.contains(version) for version in pinned), name


def test_torch_has_one_version():
    (constraint,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert locked("torch.lock")["torch"] == [constraint]
    assert locked("torch-cpu.lock")["torch"] == [f"{constraint}+cpu"]

"""What the shell needs before a command runs is there without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import pfedul
from pfedul.aggregation import AGGREGATIONS
from pfedul.audit.attacks import ATTACKS
from pfedul.base.names import AUGMENTATIONS, OPTIMIZERS
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.experiments import EXPERIMENTS
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.personalization.augmentation import AUGMENTATIONS as KNOWN_AUGMENTATIONS
from pfedul.personalization.descent import OPTIMIZERS as KNOWN_OPTIMIZERS
from pfedul.records import RECORDS
from pfedul.tasks import TASKS
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.pfedul.corrections import CORRECTIONS

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "flwr", "pandas", "safetensors", "sklearn")

EVERY_HELP = """
import click
from pfedul.cli import main
context = click.Context(main, info_name="pfedul")
for name in main.list_commands(context):
    command = main.get_command(context, name)
    assert "Example:" in command.get_help(click.Context(command, info_name=name))
main.get_help(context)
"""

SEEN = "import json, sys; print(json.dumps(sorted(set(sys.modules) & set({heavy!r}))))"


def seen_after(code: str, *words: str) -> list[str]:
    """Of the heavy packages, those that this code imports in a new process."""
    command = [sys.executable, "-c", f"{code}\n{SEEN.format(heavy=HEAVY)}", *words]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_no_help_imports_torch():
    assert seen_after(EVERY_HELP) == []


def test_importing_pfedul_imports_torch_only_when_a_name_is_used():
    assert seen_after("import pfedul") == []
    assert "torch" in seen_after("import pfedul; pfedul.Federation")


@pytest.mark.parametrize("name", pfedul.__all__)
def test_every_name_of_the_package_is_there(name):
    assert getattr(pfedul, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pfedul' has no attribute 'Federatoin'"):
        pfedul.Federatoin  # noqa: B018


@pytest.mark.parametrize(
    "registry",
    [
        *(AGGREGATIONS, ATTACKS, CORRECTIONS, DATASETS, EXPERIMENTS),
        *(METHODS, MODELS, PARTITIONS, PERSONALIZATIONS, RECORDS, TASKS),
    ],
    ids=lambda registry: registry.kind,
)
def test_names_of_a_registry_are_those_of_its_entries(registry):
    assert registry.names() == [entry.name for entry in registry]


def test_words_of_options_are_those_that_the_code_knows():
    assert list(OPTIMIZERS) == list(KNOWN_OPTIMIZERS)
    assert list(AUGMENTATIONS) == list(KNOWN_AUGMENTATIONS)

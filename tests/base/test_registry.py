"""Entries that other packages and notebooks add to a registry."""

import sys
import warnings
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from helpers.scripts import run_script
from pfedul import Federation, Settings
from pfedul.base import registry as registry_module
from pfedul.base.registry import NoOptions, Registry, registered_entries, restore_entries
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.engine.processes import pickle_bench, unpickle_bench
from pfedul.errors import PfedulError
from pfedul.models import MODELS, build_model
from pfedul.models.base import ModelKind
from pfedul.personalization import PERSONALIZATIONS
from pfedul.run.assembly import assemble, load_data
from pfedul.unlearn.methods import METHODS


@dataclass(frozen=True)
class Toy:
    name: str
    summary: str = "a toy"
    options: type = NoOptions


BEAR = Toy("bear")

PLUGIN = """
from pfedul.models.mlp import MLP
from dataclasses import replace
WIDE = replace(MLP, name="wide")
CLASH = replace(MLP, name="cnn")
"""
POINTS = """
[pfedul.models]
wide = toy_plugin:WIDE
"""


@pytest.fixture(autouse=True)
def _forget_what_a_test_registers(monkeypatch):
    monkeypatch.setattr(registry_module, "_REGISTERED", {})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution `toy-plugin` with this module and these entry points on the path."""

    def installed(points: str, source: str = PLUGIN) -> None:
        info = tmp_path / "toy_plugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        (tmp_path / "toy_plugin.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "toy_plugin", raising=False)

    yield installed
    sys.modules.pop("toy_plugin", None)


def models() -> Registry[ModelKind]:
    """The registry as a new process has it."""
    return Registry(
        "model",
        {"cnn": "pfedul.models.cnn:CNN", "mlp": "pfedul.models.mlp:MLP"},
        group="pfedul.models",
    )


def test_an_entry_point_of_another_package_is_a_choice_like_any_other(install):
    install(POINTS)
    assert [kind.name for kind in models()] == ["cnn", "mlp", "wide"]
    assert models().canonical("wide:9") == "wide:hidden=9,depth=2,norm=none"


def test_plug_ins_are_not_imported_for_a_choice_of_our_own(install):
    install(POINTS, "raise RuntimeError('imported')")
    with warnings.catch_warnings(action="error"):
        assert models()["mlp"].name == "mlp"


@pytest.mark.parametrize(
    ("points", "source", "reason"),
    [
        ("wide = toy_plugin:WIDE", "import no_such_module", "ModuleNotFoundError: No module"),
        ("wide = toy_plugin:NONE", "", "AttributeError: module 'toy_plugin' has no"),
        ("wide = toy_plugin:WIDE", "WIDE = 3", "it is of type int, not ModelKind"),
        ("wide = toy_plugin:CLASH", PLUGIN, "there already is a model 'cnn'"),
    ],
)
def test_a_broken_plug_in_is_named_and_breaks_nothing_else(install, points, source, reason):
    install(f"[pfedul.models]\n{points}\nnarrow = json:NARROW", source)
    known = models()
    with pytest.warns(UserWarning, match="'toy-plugin' cannot add the model") as seen:
        assert [kind.name for kind in known] == ["cnn", "mlp"]
    assert next(str(one.message) for one in seen).startswith(
        f"The package 'toy-plugin' cannot add the model 'wide': {reason}"
    )
    with pytest.raises(PfedulError, match="'toy-plugin' cannot add the model 'wide'"):
        known.parse("wide")
    with pytest.raises(PfedulError, match="Unknown model 'other'; known are: cnn, mlp"):
        known.parse("other")


def test_the_command_line_lists_what_is_installed(install, tmp_path):
    install(POINTS)
    listing = run_script("-m", "pfedul", "models", first=[str(tmp_path)])
    assert "wide" in listing.stdout


@pytest.mark.parametrize(
    ("registry", "group"),
    [
        (MODELS, "pfedul.models"),
        (DATASETS, "pfedul.datasets"),
        (PARTITIONS, "pfedul.partitions"),
        (PERSONALIZATIONS, "pfedul.personalizations"),
        (METHODS, "pfedul.methods"),
    ],
)
def test_the_registries_are_open_under_these_names(registry, group):
    assert registry.group == group


def test_an_entry_can_be_registered_in_python_and_replaced():
    toys = Registry("toy", {"bear": f"{__name__}:BEAR"})
    toys.register(Toy("car"))
    assert [toy.name for toy in toys] == ["bear", "car"]
    toys.register(Toy("car", "a red one"), replace=True)
    assert toys["car"].summary == "a red one"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Toy("bear"), "there already is a toy 'bear'"),
        (Toy("car"), "there already is a toy 'car'"),
        ("boat", "it is of type str, not Toy"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_a_sentence(entry, reason):
    toys = Registry("toy", {"bear": f"{__name__}:BEAR"})
    toys.register(Toy("car"))
    with pytest.raises(PfedulError, match=f"cannot be registered: {reason}."):
        toys.register(entry)


def test_a_built_in_entry_cannot_be_replaced():
    with pytest.raises(PfedulError, match="there already is a model 'mlp'"):
        MODELS.register(replace(MODELS["mlp"], summary="Mine."), replace=True)


def test_what_was_registered_travels_to_another_process():
    toys = Registry("toy", {"bear": f"{__name__}:BEAR"})
    toys.register(Toy("car"))
    sent = registered_entries()
    registry_module._REGISTERED.clear()
    with pytest.raises(PfedulError, match="Unknown toy 'car'"):
        toys.parse("car")
    restore_entries(sent)
    assert toys.parse("car")[0] == Toy("car")


class Tiny(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(inputs, 3), nn.Linear(3, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.flatten(1)))


def register_tiny() -> None:
    """A model and a personalisation as a notebook has them, of functions without a module."""
    MODELS.register(ModelKind("tiny", "Tiny.", NoOptions, lambda s, c, _: Tiny(s[1] * s[2], c)))
    fedper = PERSONALIZATIONS["fedper"]
    fit = fedper.fit
    PERSONALIZATIONS.register(replace(fedper, name="mine", fit=lambda job: fit(job)))


TINY = {"model": "tiny", "personalization": "mine", "clients": 2, "samples": 60}


def test_a_bench_of_registered_entries_opens_where_they_are_not_known():
    register_tiny()
    settings = Settings(**TINY)
    bench = assemble(settings, load_data(settings, None), None)
    pickled = pickle_bench(bench)
    registry_module._REGISTERED.clear()
    again = unpickle_bench(pickled)
    assert again.personalization.name == "mine"
    weights = [one.build_model().state_dict()["body.weight"] for one in (bench, again)]
    assert torch.equal(*weights)
    assert isinstance(build_model("tiny", (1, 8, 8), 10), nn.Module)


def test_worker_processes_know_what_was_registered(tmp_path):
    register_tiny()
    training = {"rounds": 1, "local_epochs": 1, "workers": 2}
    results = []
    for engine in ("inline", "processes"):
        run = tmp_path / engine
        with Federation.create(run, **TINY, **training, engine=engine) as federation:
            federation.train()
            results.append(federation.shared)
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])

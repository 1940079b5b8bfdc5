"""Devices: nothing is made on torch's default device, and what is not there is said.

With `meta` as the default device a tensor that is made without a device has no numbers, and the
first thing that is computed with it fails. That stands in for a GPU, which tests do not have: what
works here makes no tensor on the wrong device by forgetting to say which.
"""

import pytest
import torch

from helpers.commands import refuse
from helpers.methods import RECORD, SETTINGS, SPECS, asked
from pfedul import Federation, PfedulError
from pfedul.base.device import device_of, device_of_model, in_precision
from pfedul.base.tensors import same_tensors
from pfedul.client import MovedData, scratch_of
from pfedul.personalization import PERSONALIZATIONS
from pfedul.protocol import Task

TINY = {
    "data": "digits:test=0.5",
    "samples": 240,
    "clients": 4,
    "model": "mlp:hidden=16,norm=batch",
    "rounds": 2,
    "local_epochs": 1,
    "engine": "inline",
    "device": "cpu",
    "record": RECORD,
}
TARGET = "client-00"


@pytest.fixture
def meta():
    """Torch's default device has no numbers."""
    with torch.device("meta"):
        assert torch.zeros(1).is_meta
        yield


def trained(path, **changes) -> Federation:
    federation = Federation.create(path, **{**TINY, **changes})
    federation.train()
    return federation


@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("name", [one.name for one in PERSONALIZATIONS])
def test_every_personalisation_and_record(tmp_path, name):
    run = trained(tmp_path / "run", personalization=name, augment="flip+crop", optimizer="adamw")
    run.forget(TARGET)
    assert run.measure().mean > 0
    run.close()


@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("name", SPECS)
def test_every_method(tmp_path, name):
    run = trained(tmp_path / "run", **SETTINGS.get(name, {}))
    outcome = run.forget(TARGET, **asked(name))
    assert outcome.targets == (TARGET,)
    run.close()


@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("personalization", ["fedrep", "ditto", "fedavg"])
def test_every_attack_and_surface(tmp_path, personalization):
    run = trained(tmp_path / "run", personalization=personalization)
    audit = run.rehearse(TARGET, level="strict", oracles=2)
    assert {row["attack"] for row in audit.evidence["measures"]} >= {"threshold", "rmia"}
    run.close()


@pytest.mark.usefixtures("meta")
def test_the_exact_fisher(tmp_path):
    run = trained(tmp_path / "run")
    assert sum(run.exact_scores(TARGET)) > 0
    run.close()


# What is not there, and what is said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cuda:7", "'cuda:7' is not there; give --device cpu"),
        ("tpu", "There is no device 'tpu'; give auto, cpu, cuda"),
        ("vulkan", "pfedul does not compute on 'vulkan'"),
        ("cpu:3", "'cpu:3' is not there"),
    ],
)
def test_a_device_that_is_not_there(tmp_path, name, words):
    with pytest.raises(PfedulError, match=words):
        device_of(name)
    refused = refuse("train", tmp_path / "run", "--device", name)
    assert words in refused
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_auto_takes_what_there_is():
    assert device_of("auto").type in {"cpu", "mps"}


# Data and models on the device


def test_data_is_moved_once_and_when_it_is_needed(tmp_path):
    bench = Federation.create(tmp_path / "run", **TINY).bench
    there = MovedData(bench.data, torch.device("meta"))
    assert list(there) == list(bench.data)
    assert len(there) == 4
    assert there[TARGET].train.x.is_meta
    assert there[TARGET] is there[TARGET]
    assert len(there._there) == 1


def test_on_the_cpu_nothing_is_copied(tmp_path):
    bench = Federation.create(tmp_path / "run", **TINY).bench
    scratch = scratch_of(bench)
    assert scratch.data is bench.data
    assert device_of_model(scratch.model).type == "cpu"
    assert device_of_model(torch.nn.ReLU()).type == "cpu"


# Precision


def test_half_the_bits_train_about_as_well(tmp_path):
    settings = {"rounds": 6, "local_epochs": 4, "record": "fisher+contributions"}
    full, half = (
        trained(tmp_path / name, precision=name, **settings) for name in ("float32", "bfloat16")
    )
    assert not same_tensors(full.shared, half.shared)
    assert {tensor.dtype for tensor in half.shared.values()} == {torch.float32, torch.int64}
    assert half.measure().mean == pytest.approx(full.measure().mean, abs=0.1)
    half.forget(TARGET)
    assert half.measure().mean > 0.5


def test_weights_of_a_step_before_are_not_used_again():
    """Autocast keeps converted weights for its whole block unless it is told not to."""
    weight, x = torch.nn.Parameter(torch.ones(1, 1)), torch.ones(1, 1)
    with in_precision(torch.device("cpu"), "bfloat16"):
        before = torch.nn.functional.linear(x, weight).item()
        with torch.no_grad():
            weight.fill_(3.0)
        assert (before, torch.nn.functional.linear(x, weight).item()) == (1.0, 3.0)


def test_the_precision_decides_a_run_and_the_device_does_not(tmp_path):
    trained(tmp_path / "run", rounds=1).close()
    assert "--precision" in refuse("train", tmp_path / "run", "--precision", "bfloat16")
    Federation.open(tmp_path / "run", device="cpu").close()
    assert Task("fit", 1).rate is None

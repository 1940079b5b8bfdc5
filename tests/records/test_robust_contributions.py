"""theta = base + sum of S_u whatever the aggregation, and what excluding a client then means."""

from __future__ import annotations

import pytest
import torch

from helpers.crafted import play_crafted
from helpers.forgetting_kill import TARGET, deep
from pfedul import PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.records.contributions import BASE_FILE, contribution, without

ROBUST = ("trimmed-mean:share=0.3", "median")
SETTINGS = [
    *({"aggregation": name} for name in ROBUST),
    {"max_weight": 0.27},
    {"max_weight": 0.27, "participation": 0.5, "rounds": 6},
    *({"aggregation": name, "participation": 0.75} for name in ROBUST),
]


def run(folder, **settings):
    usual = {"rounds": 4, "engine": "inline", "record": "contributions"}
    return deep(folder, **{**usual, **settings})


def rebuilt(federation):
    """base + the sum over all clients of S_u."""
    total = {n: t.double() for n, t in federation.store.read(BASE_FILE).items() if "(" not in n}
    for client in federation.clients:
        for name, tensor in (contribution(federation.store, client) or {}).items():
            total[name] += tensor
    return total


def check_identity(federation):
    for name, tensor in rebuilt(federation).items():
        torch.testing.assert_close(tensor.float(), federation.shared[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_shared_parameters_are_the_base_and_all_contributions(settings, tmp_path):
    with run(tmp_path / "run", **settings) as federation:
        federation.train()
        check_identity(federation)
        federation.forget(TARGET, repair_rounds=0)
        if federation.store.has(BASE_FILE):
            check_identity(federation)
        federation.train(federation.rounds + 2)
        check_identity(federation)


@pytest.mark.parametrize("aggregation", ROBUST)
def test_no_value_of_the_target_is_left_but_it_decided_whose_were_kept(aggregation, tmp_path):
    with run(tmp_path / "run", aggregation=aggregation) as federation:
        federation.train()
        expected = without(federation.store, federation.clients, [TARGET])
        outcome = federation.forget(TARGET, repair_rounds=0)
        for name in federation.bench.split.parameters:
            assert torch.equal(federation.shared[name], expected[name].float())
        assert not federation.store.names("records/")  # they would tell where it was kept
    assert "who was cut off where depended on the targets' values" in " ".join(outcome.notes)


def test_where_the_target_alone_was_cut_off_nothing_is_rescaled(tmp_path):
    """Everybody sends 0.1, the target 100: the others' mean is what the aggregate was."""

    def craft(client, _name, drawn):
        return torch.full_like(drawn, 100.0 if client == TARGET else 0.1)

    with run(tmp_path / "run", aggregation="trimmed-mean:share=0.25") as federation:
        play_crafted(federation, 3, craft)
        initial = read_file(tmp_path / "run" / "init.safetensors")
        result = without(federation.store, federation.clients, [TARGET])
        for name in federation.bench.split.parameters:
            moved = federation.shared[name] - initial[name]
            torch.testing.assert_close(moved, torch.full_like(moved, 0.3), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(result[name].float(), federation.shared[name])


@pytest.mark.parametrize("record", ["sums", "psi"])
def test_records_of_weighted_means_are_refused(record, tmp_path):
    with pytest.raises(PfedulError, match=f"no weighted mean, which the record {record} is about"):
        run(tmp_path / "run", aggregation="median", record=record)


def test_a_cap_on_weights_means_nothing_where_all_count_alike(tmp_path):
    with pytest.raises(PfedulError, match="--max-weight decides nothing"):
        run(tmp_path / "run", aggregation="median", max_weight=0.5)

"""Forgetting under every personalisation: what changes, what does not, what is said of it."""

import hashlib

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.toys import client_data, tensor_digests
from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import size_in_bytes
from pfedul.personalization import PERSONALIZATIONS

NAMES = [entry.name for entry in PERSONALIZATIONS]
WITH_PERSONAL_TENSORS = [name for name in NAMES if name != "fedavg"]
STRONG = {"correction": "trust-region:clip=0.3"}
STATISTICS = {"norm.running_mean", "norm.running_var"}
REMAINING = ["c0", "c2", "c3"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run of each personalisation."""
    folder = tmp_path_factory.mktemp("personalizations")
    return {name: trained(folder / name, personalization=name) for name in NAMES}


@pytest.fixture(scope="module")
def forgotten(runs, tmp_path_factory):
    """Gives a copy of a run in which the target was forgotten, and the outcome: to be read only."""
    known = {}

    def get(name, **options):
        key = name, *sorted(options.items())
        if key not in known:
            copy = copied(runs[name], tmp_path_factory.mktemp("forgotten") / name)
            with deep_again(copy) as federation:
                known[key] = copy, federation.forget(TARGET, **options)
        return known[key]

    return get


def personal_digests(run):
    return {k: v for k, v in tensor_digests(run).items() if k.startswith("clients/")}


def changed(before, after):
    """Names of the shared tensors that differ between two runs."""
    one, two = (read_file(run / "shared.safetensors") for run in (before, after))
    assert one.keys() == two.keys()
    return {name for name in one if not torch.equal(one[name], two[name])}


def test_the_list_of_personalisations_is_the_papers_fedavg_and_lora():
    assert sorted(NAMES) == ["ditto", "fedavg", "fedbn", "fedper", "fedrep", "lora"]


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_the_target_are_gone_and_no_others(name, runs, forgotten):
    copy, _ = forgotten(name)
    before, after = (set(tensor_digests(run)) for run in (runs[name], copy))
    records = {f"records/{kind}/{TARGET}.safetensors" for kind in ("fisher", "contributions")}
    theirs = {f"clients/{TARGET}/personal.safetensors", *records}
    assert before - after == before & theirs
    assert after <= before
    assert not (copy / "clients" / TARGET).exists()
    assert not (copy / "staging").exists()


@pytest.mark.parametrize("name", NAMES)
def test_only_chosen_layers_change(name, runs, forgotten):
    copy, outcome = forgotten(name, **STRONG)
    layers = outcome.plan["layers"]
    chosen = {tensor for layer in layers if layer["selected"] for tensor in layer["tensors"]}
    low = {tensor for layer in layers if not layer["selected"] for tensor in layer["tensors"]}
    assert set() < changed(runs[name], copy) <= chosen
    assert low
    assert all(layer["score"] > outcome.plan["threshold"] for layer in layers if layer["selected"])


@pytest.mark.parametrize("correction", ["paper", "trust-region:clip=0.3", "reset:fraction=0.5"])
@pytest.mark.parametrize("name", NAMES)
def test_without_recalibration_no_remaining_personal_tensor_changes(
    name, correction, runs, forgotten
):
    copy, outcome = forgotten(name, no_recalibration=True, correction=correction)
    before = personal_digests(runs[name])
    before.pop(f"clients/{TARGET}/personal.safetensors", None)
    assert personal_digests(copy) == before
    assert outcome.bytes_broadcast == 0
    assert "recalibration" not in outcome.stages


@pytest.mark.parametrize("name", WITH_PERSONAL_TENSORS)
def test_recalibration_changes_every_remaining_personal_part(name, runs, forgotten):
    copy, outcome = forgotten(name, **STRONG)
    before, after = personal_digests(runs[name]), personal_digests(copy)
    assert sorted(after) == [f"clients/{client}/personal.safetensors" for client in REMAINING]
    assert all(before[file] != digest for file, digest in after.items())
    assert outcome.stages["recalibration"].seconds > 0


@pytest.mark.parametrize("name", WITH_PERSONAL_TENSORS)
def test_more_epochs_recalibrate_further_except_statistics_which_need_one_pass(name, forgotten):
    one, two = (
        personal_digests(forgotten(name, recalibration_epochs=n, **STRONG)[0]) for n in (1, 2)
    )
    assert (one == two) == (name == "fedbn")


@pytest.mark.parametrize("correction", ["paper", "trust-region:clip=0.3"])
@pytest.mark.parametrize("name", NAMES)
def test_recalibration_changes_no_shared_bit(name, correction, runs, forgotten):
    """Two runs that differ in nothing but stage 3 end with the same shared tensors."""
    plain, _ = forgotten(name, correction=correction, no_recalibration=True)
    whole, _ = forgotten(name, correction=correction)
    assert (
        tensor_digests(plain)["shared.safetensors"] == tensor_digests(whole)["shared.safetensors"]
    )
    assert changed(runs[name], whole)


@pytest.mark.parametrize("name", NAMES)
def test_reset_estimates_shared_statistics_anew_and_nothing_else(name, forgotten):
    options = {"correction": "reset:fraction=0.5", "layers": "all"}
    plain, _ = forgotten(name, no_recalibration=True, **options)
    whole, _ = forgotten(name, **options)
    assert changed(plain, whole) == (set() if name == "fedbn" else STATISTICS)


def test_the_statistics_after_reset_are_the_mean_of_what_the_remaining_see(forgotten):
    copy, _ = forgotten("fedper", correction="reset", layers="all")
    shared = read_file(copy / "shared.safetensors")
    with deep_again(copy) as federation:
        seen = [
            federation.bench.data[client].train.batch(torch.arange(24))[0] @ shared["one.weight"].T
            + shared["one.bias"]
            for client in REMAINING
        ]
    mean = torch.stack([part.mean(0) for part in seen]).mean(0)
    torch.testing.assert_close(shared["norm.running_mean"], mean)
    variance = torch.stack([part.var(0) for part in seen]).mean(0)
    torch.testing.assert_close(shared["norm.running_var"], variance)


def test_reset_entries_have_their_initial_values(runs, forgotten):
    copy, outcome = forgotten("fedper", correction="reset:fraction=0.5", layers="all")
    before, after = (read_file(run / "shared.safetensors") for run in (runs["fedper"], copy))
    initial = read_file(copy / "init.safetensors")
    for layer in outcome.plan["layers"]:
        for name in layer["tensors"]:
            moved = after[name] != before[name]
            assert torch.equal(after[name][moved], initial[name][moved])


@pytest.mark.parametrize("name", NAMES)
def test_the_outcome_says_what_was_done(name, runs, tmp_path):
    run = runs[name]
    copy = copied(run, tmp_path / "run")
    with deep_again(copy) as federation:
        federation.evaluate()
        rows = sum(
            federation.store.ledger.value(f"SELECT COUNT(*) FROM {table} WHERE client = ?", TARGET)
            for table in ("clients", "replies", "refusals", "evaluations")
        )
        accuracies = {c: s.accuracy for c, s in federation.measure().clients.items()}
        outcome = federation.forget(TARGET, **STRONG)
    files = [f"clients/{TARGET}/personal.safetensors", f"records/fisher/{TARGET}.safetensors"]
    there = [run / file for file in files if (run / file).exists()]
    there += (run / "records").glob("contributions*/*")  # this correction ends that record
    there += (run / "records").glob("contributions*.safetensors")
    assert outcome.request == 1
    assert outcome.targets == (TARGET,)
    sizes = sum(file.stat().st_size for file in there)
    assert outcome.erased == {"files": len(there), "bytes": sizes, "rows": rows}
    for folder, digest in (
        (run, outcome.shared_sha256_before),
        (copy, outcome.shared_sha256_after),
    ):
        content = (folder / "shared.safetensors").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
    assert outcome.rounds == 0
    size = size_in_bytes(read_file(copy / "shared.safetensors"))
    assert outcome.bytes_broadcast == size * len(REMAINING)
    assert outcome.before == {client: accuracies[client] for client in REMAINING}
    assert sorted(outcome.after) == REMAINING
    assert outcome.not_recalibrated == ()
    assert {"audit", "plan", "recalibration", "evaluation", "erasure"} == set(outcome.stages)
    found = outcome.as_json()
    ratios = [outcome.after[client] / outcome.before[client] for client in REMAINING]
    assert found["pps"] == pytest.approx(sum(ratios) / 3)
    assert found["pps_interval"][0] <= found["pps"] <= found["pps_interval"][1]
    assert found["cfi"] <= 1


@pytest.mark.parametrize("name", NAMES)
def test_the_accuracies_after_are_those_of_the_run_as_it_is_then(name, forgotten):
    copy, outcome = forgotten(name, **STRONG)
    with deep_again(copy) as federation:
        found = federation.measure()
    assert outcome.after == {client: score.accuracy for client, score in found.clients.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_run_opens_without_the_data_of_the_target(name, forgotten, tmp_path):
    copy = copied(forgotten(name)[0], tmp_path / "run")
    data = client_data(4)
    del data[TARGET]
    with deep_again(copy, data=data) as federation:
        assert federation.clients == REMAINING
        federation.train(4)


def test_affine_recalibrates_the_weights_of_normalisation_too(runs, forgotten):
    plain, _ = forgotten("fedbn", **STRONG)
    affine, _ = forgotten("fedbn", affine=True, **STRONG)
    before, one, two = (
        read_file(run / "clients/c0/personal.safetensors")["norm.weight"]
        for run in (runs["fedbn"], plain, affine)
    )
    assert torch.equal(before, one)
    assert not torch.equal(before, two)

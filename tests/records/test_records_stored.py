"""The Fisher record that training leaves in the run folder."""

import math

import pytest
import torch

from helpers.forgetting_kill import CLIENTS, copied, deep, deep_again, trained
from helpers.toys import OneWeight, tensor_digests
from pfedul import Federation, PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.run.training import play_round
from pfedul.store.paths import FISHER_TOTAL_FILE, fisher_file

SHARED_PARAMETERS = {
    f"{layer}.{part}" for layer in ("one", "norm", "two", "three") for part in ("weight", "bias")
}

HALF = {"rounds": 5, "participation": 0.5, "record": "fisher"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Five rounds with half of the clients in each: three rounds, then two more."""
    folder = tmp_path_factory.mktemp("records") / "run"
    return trained(folder, **HALF, checkpoint_every=1)


def records(folder):
    """Digest of every file of the record."""
    return {k: v for k, v in tensor_digests(folder).items() if k.startswith("records/")}


def one_step(w, a, b, x, label, lr):
    """A step of gradient descent on the model of one weight, with paper and pencil."""
    p = math.exp(a * w * x) / (math.exp(a * w * x) + math.exp(b * w * x))
    da, db = (p - 1, 1 - p) if label == 0 else (p, -p)  # of the two logits
    return w - lr * (da * a + db * b) * x, a - lr * da * w * x, b - lr * db * w * x


def test_two_rounds_of_one_weight_by_hand(tmp_path):
    points = {"ann": (1.0, 0), "bob": (2.0, 1)}
    samples = {name: (torch.tensor([[x]]), torch.tensor([y])) for name, (x, y) in points.items()}
    with Federation.create(
        tmp_path / "run",
        data={name: (sample, sample) for name, sample in samples.items()},
        model=OneWeight,
        personalization="fedper",
        rounds=2,
        local_epochs=1,
        lr=0.1,
        momentum=0.0,
        min_samples=1,
        engine="inline",
        fisher_beta=0.75,
    ) as federation:
        federation.train()
    w, heads = 1.0, dict.fromkeys(points, (0.5, -0.25))
    fisher = dict.fromkeys(points, 0.0)
    for _ in range(2):
        local = {}
        for name, (x, label) in points.items():
            local[name], *heads[name] = one_step(w, *heads[name], x, label, 0.1)
            fisher[name] = 0.75 * fisher[name] + 0.25 * (w - local[name]) ** 2
        w = (local["ann"] + local["bob"]) / 2
    for name, value in fisher.items():
        stored = read_file(tmp_path / "run" / fisher_file(name))
        assert list(stored) == ["body.weight"]
        assert stored["body.weight"].item() == pytest.approx(value, rel=1e-4)
    total = read_file(tmp_path / "run" / FISHER_TOTAL_FILE)
    assert total["body.weight"].item() == pytest.approx(sum(fisher.values()), rel=1e-4)


def test_the_default_momentum_is_that_of_the_paper(tmp_path):
    with deep(tmp_path / "run") as federation:
        assert federation.settings.fisher_beta == 0.99
        assert federation.settings.record == "fisher+contributions"


def test_files_have_the_shared_parameters_in_single_precision_and_no_buffers(run):
    files = sorted((run / "records").rglob("*.safetensors"))
    assert files
    shared = read_file(run / "shared.safetensors")
    for file in files:
        tensors = read_file(file)
        assert set(tensors) == SHARED_PARAMETERS
        assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
        assert all(tensors[name].shape == shared[name].shape for name in tensors)
        assert all(bool((tensor >= 0).all()) for tensor in tensors.values())


def test_a_record_changes_only_in_rounds_that_its_client_took_part_in(tmp_path):
    with deep(tmp_path / "run", **{**HALF, "rounds": 4}) as federation:
        before = {}
        for number in range(1, 5):
            federation.train(number)
            sql = "SELECT client FROM replies WHERE round = ?"
            there = {row["client"] for row in federation.store.ledger.rows(sql, number)}
            assert len(there) == 2
            after = records(tmp_path / "run")
            changed = {name for name in after if after[name] != before.get(name)}
            assert changed == {FISHER_TOTAL_FILE, *map(fisher_file, there)}
            before = after


def test_the_total_is_the_sum_of_the_files_of_the_clients(run):
    files = list((run / "records/fisher").iterdir())
    assert len(files) == CLIENTS
    total = read_file(run / FISHER_TOTAL_FILE)
    for name, tensor in total.items():
        parts = [read_file(file)[name] for file in files]
        torch.testing.assert_close(tensor, sum(parts), rtol=1e-5, atol=0)
    assert bool(total["two.weight"].any())


@pytest.mark.parametrize("every", [2, 4])
def test_rounds_between_commits_change_no_bit_of_the_record(every, run, tmp_path):
    again = trained(tmp_path / "run", **HALF, checkpoint_every=every)
    assert records(again) == records(run)


def test_a_resumed_run_has_the_same_record(run, tmp_path):
    with deep(tmp_path / "run", **HALF) as federation:
        federation.train(2)
    with deep_again(tmp_path / "run") as federation:
        federation.train(5)
    assert records(tmp_path / "run") == records(run)


def test_rounds_that_were_not_committed_leave_nothing_in_the_record(run, tmp_path):
    with deep(tmp_path / "run", **HALF) as federation:
        federation.train(2)
    before = records(tmp_path / "run")
    federation = deep_again(tmp_path / "run")
    play_round(federation, federation.clients)
    federation.close()
    assert records(tmp_path / "run") == before
    with deep_again(tmp_path / "run") as federation:
        federation.train(5)
    assert records(tmp_path / "run") == records(run)


def test_no_record_if_none_is_asked_for(tmp_path):
    run = trained(tmp_path / "run", record="none")
    assert not (run / "records").exists()
    with deep_again(run) as federation:
        before = tensor_digests(run)
        with pytest.raises(PfedulError, match="keeps no contributions record"):
            federation.forget("c1")
        with pytest.raises(PfedulError, match="keeps no Fisher record"):
            federation.scores()
        assert federation.store.ledger.rows("SELECT * FROM requests") == []
        assert federation.clients == ["c0", "c1", "c2", "c3"]
    assert tensor_digests(run) == before


def test_the_record_does_not_change_what_is_learnt(run, tmp_path):
    without = trained(tmp_path / "run", rounds=5, participation=0.5, record="none")
    learnt = {k: v for k, v in tensor_digests(run).items() if not k.startswith("records/")}
    assert tensor_digests(without) == learnt


def test_noise_blurs_the_record_the_same_way_each_time(run, tmp_path):
    settings = {**HALF, "fisher_noise": 0.5}
    one, two = (trained(tmp_path / name, **settings) for name in "ab")
    assert records(one) == records(two)
    assert records(one).keys() == records(run).keys()
    assert not set(records(one).values()) & set(records(run).values())
    for file in (one / "records").rglob("*.safetensors"):
        assert all(bool((tensor >= 0).all()) for tensor in read_file(file).values())
    plain = {k: v for k, v in tensor_digests(run).items() if not k.startswith("records/")}
    assert plain.items() <= tensor_digests(one).items()


def test_scores_of_all_clients_add_up_to_one_on_every_layer(run):
    with deep_again(run) as federation:
        scores = federation.scores()
    assert sorted(scores) == ["c0", "c1", "c2", "c3"]
    for layer in zip(*scores.values(), strict=True):
        assert sum(layer) == pytest.approx(1, rel=1e-5)


def test_exact_scores_read_the_data_and_change_nothing(run, tmp_path):
    copy = copied(run, tmp_path / "run")
    before = tensor_digests(copy)
    with deep_again(copy) as federation:
        exact = [federation.exact_scores(client) for client in federation.clients]
        with pytest.raises(PfedulError, match="no client 'x'"):
            federation.exact_scores("x")
    assert [sum(layer) for layer in zip(*exact, strict=True)] == pytest.approx([1, 1, 1])
    assert tensor_digests(copy) == before

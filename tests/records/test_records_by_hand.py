"""Norms, sums and psi against paper and pencil, and the one residual behind them."""

import math

import pytest
import torch

from helpers.forgetting_kill import deep, deep_again, trained
from helpers.three_clients import POINTS, Pencil, federation
from helpers.toys import tensor_digests
from pfedul import PfedulError, Settings
from pfedul.base.tensorfile import read_file
from pfedul.records import RECORDS
from pfedul.records.base import Extent, kind_of, round_residual
from pfedul.records.norms import first_upload, read_lengths
from pfedul.records.psi import begun_after, model_after, psi_bound, read_psi
from pfedul.records.sums import read_sum, read_total
from pfedul.status import read_status
from pfedul.unlearn.methods import with_records_of_methods

BODY = "body.weight"


def test_after_one_round_the_model_minus_the_residual_is_the_round_without_the_client():
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(7, generator=generator, dtype=torch.float64)
    uploads = {n: torch.randn(7, generator=generator, dtype=torch.float64) for n in POINTS}
    copies = {name: point[2] for name, point in POINTS.items()}

    def mean_of(names):
        total = sum(copies[name] for name in names)
        return sum(uploads[name] * (copies[name] / total) for name in names)

    after = mean_of(POINTS)
    for target in POINTS:
        others = [name for name in POINTS if name != target]
        weight = copies[target] / sum(copies.values())
        residual = round_residual(weight, {"w": uploads[target] - before}, {"w": after - before})
        torch.testing.assert_close(after - residual["w"], mean_of(others), rtol=1e-13, atol=1e-14)
        same = round_residual(weight, {"w": uploads[target]}, {"w": after})
        torch.testing.assert_close(same["w"], residual["w"], rtol=1e-12, atol=1e-14)


def test_a_client_that_was_alone_is_the_whole_round():
    change = {"w": torch.tensor([0.5, -1.0])}
    assert round_residual(1.0, change, change)["w"].tolist() == [0.5, -1.0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hand") / "run"
    with federation(folder) as made:
        made.train()
    return folder


@pytest.fixture(scope="module")
def store(run):
    from pfedul.store.store import Store

    opened = Store.open(run)
    yield opened
    opened.close()


@pytest.mark.parametrize("client", POINTS)
def test_norms_are_the_lengths_of_updates_from_either_end_of_the_round(client, store):
    pencil, lengths = Pencil(3), read_lengths(store, client)
    assert lengths.rounds == (1, 2, 3)
    for number in (1, 2, 3):
        sent = pencil.uploads[number - 1][client]
        before, after = (abs(sent - pencil.weights[place]) for place in (number - 1, number))
        assert lengths.at(number, "before") == {BODY: pytest.approx(before, rel=1e-4)}
        assert lengths.at(number, "after") == {BODY: pytest.approx(after, rel=1e-4)}
    first = first_upload(store, client)
    assert first[BODY].item() == pytest.approx(pencil.uploads[0][client], rel=1e-6)


@pytest.mark.parametrize("client", POINTS)
def test_sums_weigh_residuals_with_the_squared_length_of_their_rounds(client, store):
    pencil, (rounds, total) = Pencil(3), read_sum(store, client)
    expected = sum(pencil.square(n) * pencil.residual(n, client) for n in (1, 2, 3))
    assert rounds == 3
    assert total[BODY].item() == pytest.approx(expected, rel=1e-3)
    assert read_total(store).squares == pytest.approx(
        sum(pencil.square(n) for n in (1, 2, 3)), rel=1e-4
    )
    assert read_total(store).rounds == 3


@pytest.mark.parametrize("client", POINTS)
def test_psi_adds_up_the_lengths_of_residuals(client, store):
    pencil, psi = Pencil(3), read_psi(store, client)
    steps = [abs(pencil.residual(n, client)) for n in (1, 2, 3)]
    assert psi.rounds == (1, 2, 3)
    assert psi.values == pytest.approx([sum(steps[:n]) for n in (1, 2, 3)], rel=1e-4)
    assert psi.back_to is None
    assert begun_after(store) == 0


def test_the_bound_of_the_published_defaults():
    assert psi_bound(Settings().recording) == pytest.approx(0.161, abs=5e-4)


def epsilon_for(bound: float, sigma: float = 0.05) -> float:
    return bound * math.sqrt(2 * math.log(1.25 / 0.01)) / sigma


def test_one_model_is_kept_for_each_round_in_which_somebody_passed_the_bound(tmp_path):
    pencil = Pencil(4)
    psi = {
        name: [sum(abs(pencil.residual(n, name)) for n in range(1, last + 1)) for last in range(5)]
        for name in POINTS
    }
    bound = (psi["ann"][1] + psi["ann"][2]) / 2  # ann passes in round 2
    places = {
        name: next((n - 1 for n in range(5) if values[n] > bound), None)
        for name, values in psi.items()
    }
    with federation(tmp_path / "run", rounds=4, psi_epsilon=epsilon_for(bound)) as made:
        made.train()
        assert {name: read_psi(made.store, name).back_to for name in POINTS} == places
        assert places["ann"] == 1
        models = sorted(int(file.stem) for file in (tmp_path / "run/records/psi-models").iterdir())
        assert models == sorted({place for place in places.values() if place})
        kept = model_after(made.store, 1)[BODY].item()
        assert kept == pytest.approx(pencil.weights[1], rel=1e-6)
        assert model_after(made.store, 0)[BODY].item() == 1.0


def test_weights_of_a_sampled_round_are_those_of_who_took_part(tmp_path):
    """Two of four clients, equally many samples: each weighs one half in the round."""
    with deep(tmp_path / "run", record="psi+uploads", participation=0.5, rounds=1) as made:
        before = {n: t.clone() for n, t in made.shared.items()}
        made.train()
        rows = made.store.ledger.rows("SELECT client FROM replies")
        for client in (row["client"] for row in rows):
            from pfedul.records.uploads import last_upload

            _, sent = last_upload(made.store, client)
            names = set(made.bench.split.parameter_names) & set(before)
            squares = sum(((sent[n] - made.shared[n]).double() ** 2).sum() for n in names)
            assert read_psi(made.store, client).values[0] == pytest.approx(
                float(squares) ** 0.5, rel=1e-4
            )
        absent = set(made.clients) - {row["client"] for row in rows}
        assert all(read_psi(made.store, client) is None for client in absent)


def test_records_do_not_depend_on_commits_resumption_or_engine(tmp_path):
    settings = {"record": "all", "rounds": 4, "participation": 0.5, "psi_epsilon": 0.5}
    one = trained(tmp_path / "one", checkpoint_every=4, engine="processes", **settings)
    with deep(tmp_path / "two", **settings) as made:
        made.train(2)
    with deep_again(tmp_path / "two") as made:
        made.train(4)
    assert tensor_digests(one) == tensor_digests(tmp_path / "two")
    kinds = {kind_of(name) for name in tensor_digests(one) if name.startswith("records/")}
    assert kinds == {record.name for record in RECORDS}
    assert list((one / "records/psi-models").iterdir())
    assert not (one / "staging").exists()


def test_statistics_are_in_uploads_and_in_no_norm_sum_or_psi(tmp_path):
    run = trained(tmp_path / "run", record="all", personalization="fedavg")
    statistic = "norm.running_mean"
    for kind, there in (("uploads", True), ("norms-first", True), ("sums", False)):
        assert (statistic in read_file(run / f"records/{kind}/c0.safetensors")) == there
    assert f"before/{statistic}" not in read_file(run / "records/norms/c0.safetensors")


def test_status_tells_the_bytes_of_each_record(tmp_path):
    run = trained(tmp_path / "run", record="norms+sums")
    found = read_status(run)
    assert list(found["records"]) == ["norms", "sums"]
    assert sum(of["bytes"] for of in found["records"].values()) == found["bytes"]["records"]
    headers = sum(1 for _ in (run / "records").rglob("*.safetensors")) * 3000
    for of in found["records"].values():
        assert of["expected"] <= of["bytes"] + 400 <= of["expected"] + headers


def test_memory_of_the_records_of_a_resnet_18():
    extent = Extent(clients=20, parameters=11_000_000, tensors=62, rounds=100)
    model = 44_000_000
    sizes = {record.name: record.size(extent) / model for record in RECORDS}
    assert sizes == {
        "fisher": 21,
        "contributions": 21,
        "norms": pytest.approx(20, rel=0.01),
        "uploads": 20,
        "sums": 20,
        "psi": pytest.approx(20, rel=0.01),
    }


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("fisher", "fisher"),
        ("none", "none"),
        ("all", "fisher+contributions+norms+uploads+sums+psi"),
        ("sums + fisher", "fisher+sums"),
        ("federaser+sifu", "norms+psi"),
        ("pfedul+fisher", "fisher+contributions"),
        ("exclusion+all", "fisher+contributions+norms+uploads+sums+psi"),
    ],
)
def test_records_and_methods_have_one_canonical_form(asked, kept):
    assert Settings(**with_records_of_methods({"record": asked})).record == kept
    assert Settings(record=kept).record == kept


@pytest.mark.parametrize("asked", ["fish", "own", "", "fisher+", "none+fisher"])
def test_what_is_no_record_gets_one_sentence(asked):
    with pytest.raises(PfedulError) as refusal:
        Settings(**with_records_of_methods({"record": asked}))
    text = str(refusal.value)
    assert "\n" not in text
    assert asked == "none+fisher" or "fisher, contributions, norms, uploads, sums, psi" in text


def test_a_run_that_keeps_one_record_keeps_no_other(tmp_path):
    run = trained(tmp_path / "run", record="sums")
    assert {kind_of(n) for n in tensor_digests(run) if n.startswith("records/")} == {"sums"}


def test_a_round_that_was_broken_off_leaves_nothing_of_its_uploads(tmp_path, monkeypatch):
    from pfedul.records.psi import PsiRecorder

    settings = {"record": "all", "psi_epsilon": 0.13}
    whole = trained(tmp_path / "whole", **settings)
    look_back, calls = PsiRecorder.look_back, []

    def interrupted(recorder, *arguments):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return look_back(recorder, *arguments)

    with deep(tmp_path / "run", **settings) as made:
        with monkeypatch.context() as patch:
            patch.setattr(PsiRecorder, "look_back", interrupted)
            with pytest.raises(KeyboardInterrupt):
                made.train()
        assert made.rounds == 1
        assert not list((tmp_path / "run").rglob("staging/*"))
    with deep_again(tmp_path / "run") as made:
        made.train()
    assert tensor_digests(tmp_path / "run") == tensor_digests(whole)


def test_one_upload_is_in_memory_at_a_time(tmp_path, monkeypatch):
    """Of those on disk: however many clients there are, they are read back one by one."""
    from pfedul.records import recording

    alive, read = [], recording.read_file

    def watched(file):
        import gc
        import weakref

        gc.collect()
        assert not [name for name, tensor in alive if tensor() is not None]
        found = read(file)
        alive.append((file.stem, weakref.ref(found["one.weight"])))
        return found

    monkeypatch.setattr(recording, "IN_MEMORY", 0)
    monkeypatch.setattr(recording, "read_file", watched)
    trained(tmp_path / "run", record="all", rounds=1)
    assert len(alive) == 4

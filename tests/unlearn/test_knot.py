"""Training in clusters, and KNOT: only the target's cluster is trained again."""

import pytest
import torch

from helpers.forgetting_kill import CLIENTS, TARGET, Deep, copied, deep, deep_again, trained
from helpers.toys import QUICK, OneWeight, client_data, create, tensor_digests
from pfedul import Federation
from pfedul.aggregation.mean import StreamingMean
from pfedul.audit.state import state_of
from pfedul.base.randomness import random_stream
from pfedul.base.tensorfile import read_file
from pfedul.base.threads import one_thread
from pfedul.clusters.layout import Clusters
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.protocol import Task
from pfedul.run import training
from pfedul.status import read_status
from pfedul.store.paths import INIT_FILE, checkpoint_file, cluster_file
from pfedul.unlearn.training import SharedTraining, train_shared

CLUSTERED = {"clusters": 2, "record": "none"}


def forced(monkeypatch, **assigned: int) -> None:
    """Clusters as the test wants them."""
    count = max(assigned.values())
    found = Clusters(count, assigned)
    monkeypatch.setattr("pfedul.run.training.form_clusters", lambda *_args, **_options: found)


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def floats(tensors):
    """Without counters, which unlearning leaves as they are."""
    return {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}


# Training


def test_each_cluster_trains_as_a_federation_of_its_own(tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=2, c3=1)
    with deep(tmp_path / "run", **CLUSTERED) as federation:
        federation.train()
        found = {number: federation.clusters.view(federation.shared, number) for number in (1, 2)}
        heads = {client: federation.personal(client) for client in federation.clients}
    for number, members in ((1, ["c0", "c3"]), (2, ["c1", "c2"])):
        data = {client: client_data(CLIENTS)[client] for client in members}
        alone = Federation.create(tmp_path / str(number), data=data, model=Deep, **QUICK)
        with alone:
            alone.train()
            assert same(alone.shared, found[number])
            assert all(same(alone.personal(client), heads[client]) for client in members)


def test_one_cluster_is_an_ordinary_run(tmp_path):
    one = trained(tmp_path / "one", clusters=1, record="none")
    none = trained(tmp_path / "none", record="none")
    assert tensor_digests(one) == tensor_digests(none)


def test_clusters_are_formed_once_from_the_initial_tensors_and_training_goes_on(tmp_path):
    whole = trained(tmp_path / "whole", rounds=4, **CLUSTERED)
    with deep(tmp_path / "parts", rounds=4, **CLUSTERED) as federation:
        federation.train(2)
    with deep_again(tmp_path / "parts") as federation:
        federation.train(4)
        sizes = [len(group) for group in federation.clusters.groups(federation.clients).values()]
    assert sizes == [2, 2]
    assert tensor_digests(whole) == tensor_digests(tmp_path / "parts")


def test_cosines_of_the_opening_rounds_are_those_of_the_first_updates(tmp_path, monkeypatch):
    seen = {}

    def note(traits, count):
        seen.update(traits)
        return dict.fromkeys(traits, 1) | {"c1": count}

    monkeypatch.setattr("pfedul.clusters.forming.assign", note)
    with create(tmp_path / "run", **CLUSTERED) as federation:
        initial = federation.store.read(INIT_FILE)
        federation.train(1)
        names = [n for n in initial if n in federation.bench.split.parameter_names]
    updates = {}
    with create(tmp_path / "fresh", record="none") as fresh:
        arguments = fresh.clients, initial, fresh.locate_personal
        for reply in fresh.engine.run(Task("fit", 0), *arguments):
            parts = [(reply.shared[n] - initial[n]).flatten().double() for n in names]
            updates[reply.client] = torch.cat(parts)
    mean = sum(updates.values()) / 3  # all have as many samples
    for client, update in updates.items():
        cosine = torch.nn.functional.cosine_similarity(mean, update, dim=0)
        assert seen[client].deviation == pytest.approx((1 - float(cosine)) / 2, abs=1e-6)
        assert seen[client].time == 24


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_everybody_is_evaluated_on_its_own_cluster(engine, tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=1, c3=2)
    with deep(tmp_path / "run", engine=engine, **CLUSTERED) as federation:
        federation.train()
        found = federation.evaluate().clients
        for client in federation.clients:
            own = federation.clusters.of(federation.shared, client)
            asked = Task("evaluate", 0), [client], own, federation.locate_personal
            (reply,) = federation.engine.run(*asked)
            assert reply.metrics["loss"] == found[client].loss


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusters": 5, "record": "none"}, "more than the 4 clients"),
        ({"clusters": 2, "record": "fisher"}, "or none with --clusters"),
    ],
)
def test_clusters_that_cannot_be_are_refused(settings, words, tmp_path):
    with pytest.raises(PfedulError, match=words):
        deep(tmp_path / "run", **settings)


# Forgetting


@pytest.mark.parametrize("personalization", ["fedavg", "fedper", "fedbn", "ditto"])
def test_other_clusters_stay_bit_for_bit(personalization, tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=2, c3=1)
    run = trained(tmp_path / "run", personalization=personalization, **CLUSTERED)
    clusters = Clusters(2)
    before = read_file(run / "shared.safetensors")
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method="knot")
    after = read_file(run / "shared.safetensors")
    assert same(clusters.view(before, 1), clusters.view(after, 1))
    assert not same(clusters.view(before, 2), clusters.view(after, 2))
    assert outcome.rounds == 3
    assert not (run / cluster_file(TARGET)).exists()
    assert (run / cluster_file("c2")).exists()


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_cluster_is_trained_again_from_the_start_with_personal_parts_as_they_are(
    epochs, tmp_path, monkeypatch
):
    forced(monkeypatch, c0=1, c1=2, c2=2, c3=2)
    run = trained(tmp_path / "run", local_epochs=epochs, **CLUSTERED)
    with deep_again(run) as federation:
        parts = {client: federation.personal(client) for client in ("c2", "c3")}
        bench, shared = federation.bench, federation.store.read(INIT_FILE)
        federation.forget(TARGET, method="knot")
        found = federation.clusters.view(federation.shared, 2)
    for number in (1, 2, 3):
        mean = StreamingMean(shared)
        for client, personal in parts.items():
            mean.add(by_hand(bench, client, shared, personal, number, epochs), 24)
        shared = mean.result()
    assert same(floats(found), floats(shared))


def by_hand(bench, client, shared, personal, number, epochs):
    job = Job(
        *(client, bench.build_model(), bench.split, bench.head, shared, personal),
        *(bench.data[client].train, bench.training, bench.options),
    )
    with one_thread(), random_stream(0, "work", number, client, "request 1 knot cluster-2"):
        return train_shared(job, vars(SharedTraining(epochs)), {}).tensors


def test_a_target_that_came_late_costs_only_the_rounds_since(tmp_path, monkeypatch):
    forced(monkeypatch, c0=2, c1=2, c2=2, c3=1)
    late = {1: ["c0", "c3"], 2: ["c0", "c3"], 3: ["c1", "c3"], 4: ["c2", "c3"]}
    monkeypatch.setattr(training, "participants", lambda _run, number: late[number])
    run = trained(tmp_path / "run", rounds=4, participation=0.5, **CLUSTERED)
    kept = read_file(run / checkpoint_file(2, 3))
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method="knot")
        found = federation.clusters.view(federation.shared, 2)
        assert federation.clusters.assigned == {"c0": 2, "c2": 2, "c3": 1}
    assert outcome.rounds == 1, "round 3 was the target's alone, and is repeated by nobody"
    assert "trained again from round 3 on" in outcome.notes[0]
    assert not same(found, kept)
    assert not (run / checkpoint_file(2, 4)).exists(), "it had the target in it"
    assert (run / checkpoint_file(2, 3)).exists()
    with deep_again(run) as federation:
        notes = federation.forget("c2", method="knot").notes
        assert "trained again from round 3 on" in notes[0]
        assert same(floats(federation.clusters.view(federation.shared, 2)), floats(kept))


def test_a_target_that_never_took_part_changes_no_tensor(tmp_path, monkeypatch):
    forced(monkeypatch, c0=2, c1=2, c2=1, c3=1)
    monkeypatch.setattr(training, "participants", lambda _run, _number: ["c0", "c3"])
    run = trained(tmp_path / "run", participation=0.5, **CLUSTERED)
    before = tensor_digests(run)["shared.safetensors"]
    with deep_again(run) as federation:
        assert federation.forget(TARGET, method="knot").rounds == 0
    assert tensor_digests(run)["shared.safetensors"] == before


def test_a_cluster_without_members_goes_back_to_the_initial_tensors(tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=1, c3=1)
    run = trained(tmp_path / "run", personalization="fedavg", **CLUSTERED)
    with deep_again(run) as federation:
        federation.forget(TARGET, method="knot")
        own = federation.clusters.view(federation.shared, 2)
        initial = federation.store.read(INIT_FILE)
        federation.train(4)
    assert same(floats(own), floats(initial))


def test_retraining_a_clustered_run_keeps_who_is_with_whom(tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=2, c3=1)
    run = trained(tmp_path / "run", **CLUSTERED)
    before = read_file(run / "shared.safetensors")
    with deep_again(run) as federation:
        federation.forget(TARGET, method="retrain")
        after = federation.shared
    assert same(Clusters(2).view(before, 1), Clusters(2).view(after, 1))
    assert not same(Clusters(2).view(before, 2), Clusters(2).view(after, 2))


@pytest.mark.parametrize("method", ["fine-tune", "ga-naive", "budgeted-retrain:rounds=1"])
def test_methods_for_one_shared_model_are_refused_in_one_sentence(method, tmp_path):
    run = trained(tmp_path / "run", **CLUSTERED)
    with deep_again(run) as federation, pytest.raises(PfedulError, match="this run has clusters"):
        federation.forget(TARGET, method=method)


def test_knot_on_an_ordinary_run_names_the_option(tmp_path):
    run = trained(tmp_path / "run", record="none")
    with deep_again(run) as federation, pytest.raises(PfedulError, match="--clusters"):
        federation.forget(TARGET, method="knot")


def test_nobody_joins_clusters_that_are_formed(tmp_path):
    run = trained(tmp_path / "run", **CLUSTERED)
    with deep_again(run) as federation:
        federation.forget(TARGET, method="knot")
    with deep_again(run) as federation, pytest.raises(PfedulError, match="formed once"):
        federation.admit(TARGET, again=True)


# Audits


def test_an_audit_sees_everybody_with_its_own_cluster(tmp_path, monkeypatch):
    forced(monkeypatch, c0=1, c1=2, c2=2, c3=1)
    run = trained(tmp_path / "run", **CLUSTERED)
    with deep_again(run) as federation:
        kept = federation.personal(TARGET)
        state = state_of(federation, ["c0", "c2"], {TARGET: kept})
        views = {n: federation.clusters.view(federation.shared, n) for n in (1, 2)}
        heads = {client: federation.personal(client) for client in ("c0", "c2")}
    assert same(state.shared, views[2])
    assert same(state.personal["c0"], {**views[1], **heads["c0"]})
    assert same(state.personal["c2"], {**views[2], **heads["c2"]})
    assert same(state.stale[TARGET], {**views[2], **kept})


@pytest.mark.parametrize("personalization", ["fedavg", "fedper"])
def test_knot_can_be_rehearsed_and_ends_with_the_same_hashes(personalization, tmp_path):
    run = tmp_path / "run"
    data = client_data(CLIENTS, train=40, test=40)
    made = {"data": data, "model": Deep, **QUICK, "personalization": personalization, **CLUSTERED}
    with Federation.create(run, **made) as federation:
        federation.train()
        copy = copied(run, tmp_path / "copy")
        audit = federation.rehearse(TARGET, level="quick", method="knot")
        outcome = federation.forget(TARGET, method="knot")
    assert audit.evidence["hashes"]["shared_after"] == outcome.shared_sha256_after
    assert audit.evidence["hashes"]["state_after"] == outcome.state_sha256_after
    with Federation.open(copy, data=data, model=Deep) as federation:
        assert federation.evaluate().mean > 0


def test_one_weight_by_hand(tmp_path, monkeypatch):
    """Three clients of one sample: x = 1, 3 and 2, all of class 0, one step of 0.1 a round."""
    forced(monkeypatch, a=1, b=1, c=2)

    def part(x):
        return torch.tensor([[float(x)]]), torch.tensor([0])

    data = {name: (part(x), part(x)) for name, x in (("a", 1), ("b", 3), ("c", 2))}
    chosen = {**QUICK, "personalization": "fedavg", "rounds": 1, "lr": 0.1, "momentum": 0.0}
    made = {"data": data, "model": OneWeight, **chosen, **CLUSTERED}
    with Federation.create(tmp_path / "run", **made) as federation:
        federation.train()
        trained_body = float(federation.shared["cluster-2/body.weight"])
        federation.forget("b", method="knot")
        again = float(federation.shared["cluster-1/body.weight"])
    # d loss / d body = x * (h1 - h0) * p1 with p1 = 1 / (1 + exp((h0 - h1) * x * body)).
    step = {x: 0.1 * x * 0.75 / (1 + torch.tensor(0.75 * x).exp().item()) for x in (1, 2)}
    assert trained_body == pytest.approx(1 + step[2], abs=1e-6)
    assert again == pytest.approx(1 + step[1], abs=1e-6)


def test_status_counts_checkpoints_of_clusters(tmp_path):
    run = trained(tmp_path / "run", **CLUSTERED, participation=0.5, rounds=6)
    files = list((run / "records/clusters").rglob("*.safetensors"))
    found = read_status(run)
    assert files
    assert found["records"]["clusters"]["bytes"] == sum(file.stat().st_size for file in files)
    assert found["records"]["clusters"]["bytes"] == found["bytes"]["records"]


def test_a_clustered_run_keeps_contributions_unless_told_otherwise(tmp_path):
    with deep(tmp_path / "run", clusters=2) as federation:
        assert federation.settings.record == "contributions"

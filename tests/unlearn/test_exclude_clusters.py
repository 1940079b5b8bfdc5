"""The correction `exclude` on a run with clusters: each is a federation of its own."""

import pytest
import torch

from helpers.forgetting_kill import CLIENTS, TARGET, copied, deep, deep_again
from helpers.toys import client_data
from pfedul import PfedulError
from pfedul.clusters.layout import Clusters
from pfedul.errors import TransientError
from pfedul.records.contributions import BASE_FILE, contribution
from pfedul.status import read_status
from pfedul.store.paths import INIT_FILE

KEPT = {"record": "contributions", "clip_updates": 0.0}
"""What a long update is, the lengths of both clusters' updates decide; here all are taken."""
MEMBERS = {1: ["c0", "c3"], 2: ["c1", "c2", "c4"]}
"""The target is in the second cluster."""
DATA = client_data(CLIENTS + 1)


@pytest.fixture(scope="module", params=["fedper", "ditto", "fedbn"])
def runs(request, tmp_path_factory):
    """A run with both clusters, and one for the target's alone."""
    folder = tmp_path_factory.mktemp("clusters")
    numbers = {client: n for n, members in MEMBERS.items() for client in members}
    settings = {**KEPT, "personalization": request.param}
    with pytest.MonkeyPatch.context() as patch:
        clusters = Clusters(2, numbers)
        patch.setattr("pfedul.run.training.form_clusters", lambda *_args, **_options: clusters)
        with deep(folder / "both", data=DATA, clusters=2, **settings) as both:
            both.train()
    data = {client: DATA[client] for client in MEMBERS[2]}
    with deep(folder / "alone", data=data, **settings) as alone:
        alone.train()
    return folder


@pytest.fixture
def both(runs, tmp_path):
    with deep_again(copied(runs / "both", tmp_path / "both"), data=DATA) as opened:
        yield opened


@pytest.fixture
def alone(runs, tmp_path):
    data = {client: DATA[client] for client in MEMBERS[2]}
    with deep_again(copied(runs / "alone", tmp_path / "alone"), data=data) as opened:
        yield opened


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def assert_whole(run) -> None:
    """In each cluster the shared parameters are its base and the sums of its members."""
    base = run.store.read(BASE_FILE)
    for number, members in run.clusters.groups(run.clients).items():
        own, now = run.clusters.view(base, number), run.clusters.view(run.shared, number)
        for name in run.bench.split.parameters:
            sums = (contribution(run.store, client) or {} for client in members)
            total = own[name].double() + sum(part.get(name, 0) for part in sums)
            torch.testing.assert_close(total.float(), now[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{"repair_rounds": 0}, {"repair": "ordinary", "repair_rounds": 1}, {}]
)
def test_a_cluster_forgets_as_a_federation_of_its_own(options, both, alone):
    outcome = both.forget(TARGET, **options)
    alone.forget(TARGET, **options)
    assert same(both.clusters.view(both.shared, 2), alone.shared)
    assert all(same(both.personal(one), alone.personal(one)) for one in alone.clients)
    assert any("given who is in which" in note for note in outcome.notes)
    assert {layer["name"].split("/")[0] for layer in outcome.plan["layers"]} == {"cluster-2"}


def test_the_other_cluster_stays_as_it_is_and_does_nothing(both):
    shared = both.clusters.view(both.shared, 1)
    own = {client: both.personal(client) for client in MEMBERS[1]}
    outcome = both.forget(TARGET, away=["c0"])
    assert same(both.clusters.view(both.shared, 1), shared)
    assert all(same(both.personal(client), own[client]) for client in MEMBERS[1])
    assert outcome.not_recalibrated == ()


def test_the_record_holds_before_and_after_and_the_next_removal_uses_it(both):
    assert_whole(both)
    both.forget(TARGET)
    assert_whole(both)
    both.train(both.rounds + 1)
    assert_whole(both)
    both.forget("c0")
    assert_whole(both)
    assert both.clients == ["c2", "c3", "c4"]


@pytest.mark.parametrize("options", [{"repair_rounds": 0}, {}])
def test_targets_in_both_clusters_leave_at_once(options, both):
    outcome = both.forget("c0", "c4", **options)
    assert {layer["name"].split("/")[0] for layer in outcome.plan["layers"]} == {
        "cluster-1",
        "cluster-2",
    }
    assert_whole(both)


@pytest.mark.parametrize("options", [{"repair_rounds": 0}, {}, {"repair_rounds": 2}])
def test_a_cluster_of_which_everybody_leaves_is_as_before_training(options, both):
    other = both.clusters.view(both.shared, 2)
    both.forget(*MEMBERS[1], **options)
    assert same(both.clusters.view(both.shared, 1), both.store.read(INIT_FILE))
    assert same(both.clusters.view(both.shared, 2), other)


def test_who_is_alone_in_a_cluster_must_be_there(both):
    with pytest.raises(TransientError, match="try again when one of them is there"):
        both.forget("c0", away=["c3"], repair_rounds=0)
    both.forget("c0", away=["c2"], repair_rounds=0)


def test_status_says_how_large_the_record_is(both):
    size = read_status(both.store.path)["records"]["contributions"]
    headers = size["bytes"] - size["expected"]
    assert 0 < headers < 800 * len([*both.clients, "base"])


@pytest.mark.parametrize("record", ["fisher", "fisher+contributions", "sums+contributions"])
def test_records_of_one_model_are_refused(record, tmp_path):
    words = f"The record {record.partition('+')[0]} is about one model .* --record contributions"
    with pytest.raises(PfedulError, match=words):
        deep(tmp_path / "run", clusters=2, record=record)


def test_a_correction_by_fisher_is_refused(both):
    with pytest.raises(PfedulError, match="has clusters; give --method knot, --correc"):
        both.forget(TARGET, correction="paper")

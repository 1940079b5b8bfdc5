"""Through which models an attacker looks: which there are, and what they answer."""

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from helpers.forgetting_kill import CLIENTS, Deep
from helpers.toys import QUICK, client_data
from pfedul import Federation
from pfedul.audit.ask.answers import ask, noisy, surfaces_of
from pfedul.audit.ask.samples import draw_samples
from pfedul.audit.ask.surfaces import SURFACES, newcomer_part
from pfedul.audit.attacks.rmia import RMIA
from pfedul.audit.evidence.document import untested_surfaces
from pfedul.audit.judge.scores import ScoreBook
from pfedul.audit.models import untouched_state
from pfedul.audit.state import State

AVAILABLE = {
    "fedavg": ["shared", "probe"],
    "fedper": ["remaining", "worst", "stale", "fitted", "probe"],
    "fedrep": ["remaining", "worst", "stale", "fitted", "probe"],
    "ditto": ["remaining", "worst", "shared", "probe"],
    "fedbn": ["remaining", "worst", "stale", "fitted", "probe"],
}
BY_NAME = {surface.name: surface for surface in SURFACES}


def federation_of(folder, name, data=None, model=Deep, **settings):
    chosen = {**QUICK, "personalization": name, "rounds": 1, **settings}
    federation = Federation.create(folder, data=data or client_data(CLIENTS), model=model, **chosen)
    federation.train()
    return federation


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A trained federation of each personalisation, two targets, and what was answered."""
    with ExitStack() as stack:
        yield {name: _asked(stack, tmp_path_factory, name) for name in AVAILABLE}


def _asked(stack, tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("surfaces")
    federation = stack.enter_context(federation_of(folder / "run", name))
    state = untouched_state(federation, ["c1", "c3"])
    return (federation, state, *answers_of(federation, state, ["c3", "c1"]))


def answers_of(federation, state, targets):
    data = federation.bench.data
    exam = draw_samples(
        {target: data[target] for target in targets},
        {client: held for client, held in data.items() if client not in targets},
        seed=0,
    )
    return exam, ask(federation.bench, exam, state, surfaces_of(federation.bench))


@pytest.mark.parametrize("name", AVAILABLE)
def test_each_personalisation_has_its_surfaces_and_says_why_not_the_others(name, asked):
    federation, _, _, answers = asked[name]
    assert list(answers.views) == [s for s in BY_NAME if s in AVAILABLE[name]]
    why = untested_surfaces(federation.bench, {})
    judged = {surface.name for surface in SURFACES if surface.judged}
    assert set(why) == judged - set(AVAILABLE[name])
    reasons = {
        "fedavg": {"remaining": "nothing is personal", "stale": "nothing is personal"},
        "ditto": {"stale": "a whole model, which no removal can reach"},
    }
    for surface, reason in reasons.get(name, {"shared": "not a whole model"}).items():
        assert reason in why[surface]
    gone = untested_surfaces(federation.bench, {"stale": "erased"})
    assert gone["stale"] == "erased"


def plain(federation, x, *parts):
    """The logits of a model that is built by hand."""
    model = Deep()
    merged = {name: tensor for part in parts for name, tensor in part.items()}
    model.load_state_dict({**federation.bench.build_model().state_dict(), **merged})
    model.eval()
    with torch.no_grad():
        return model(x).double().numpy()


def close(view, federation, exam, *parts):
    inside = torch.cat([exam.members[t].x for t in ("c3", "c1")])
    outside = torch.cat([exam.nonmembers[t].x for t in ("c3", "c1")])
    for found, x in (
        (view.members, inside),
        (view.nonmembers, outside),
        (view.population, exam.population.x),
    ):
        np.testing.assert_allclose(found, plain(federation, x, *parts), atol=1e-5)


@pytest.mark.parametrize("name", ["fedper", "fedrep", "ditto", "fedbn"])
def test_the_remaining_clients_answer_as_their_models_do(name, asked):
    federation, state, exam, answers = asked[name]
    assert [view.name for view in answers.views["remaining"]] == ["c0", "c2"]
    assert answers.views["worst"] is answers.views["remaining"]
    for view in answers.views["remaining"]:
        close(view, federation, exam, state.shared, federation.personal(view.name))


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_the_shared_model_answers_as_it_does(name, asked):
    federation, state, exam, answers = asked[name]
    (view,) = answers.views["shared"]
    close(view, federation, exam, state.shared)


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn"])
def test_every_target_is_asked_through_its_own_part(name, asked):
    federation, state, exam, answers = asked[name]
    (view,) = answers.views["stale"]
    cut = len(exam.members["c3"])
    both = {"c3": slice(None, cut), "c1": slice(cut, None)}
    for target, rows in both.items():
        parts = state.shared, federation.personal(target)
        x = exam.members[target].x
        np.testing.assert_allclose(view.members[rows], plain(federation, x, *parts), atol=1e-5)
    others = len(exam.population)
    assert len(view.population) == 2 * others
    own = state.shared, federation.personal("c1")
    expected = plain(federation, exam.population.x, *own)
    np.testing.assert_allclose(view.population[others:], expected, atol=1e-5)


def test_rmia_knows_the_population_of_two_targets(asked):
    _, _, _, answers = asked["fedper"]
    scores = ScoreBook().of(RMIA, "stale", answers, [noisy(answers, 0.5, 1)])
    assert scores.members.shape == (1, 1, 48)
    assert np.all((scores.members >= 0) & (scores.members <= 1))


def test_own_answers_are_of_each_clients_own_samples(asked):
    federation, state, exam, answers = asked["fedper"]
    assert list(answers.own_test) == ["c0", "c2"]
    for client, logits in answers.own_test.items():
        x = exam.own_test[client].x
        parts = state.shared, federation.personal(client)
        np.testing.assert_allclose(logits, plain(federation, x, *parts), atol=1e-5)


@pytest.mark.parametrize("name", AVAILABLE)
def test_the_probe_knows_no_label_of_the_targets(name, asked):
    """Other labels at the targets: the same answers."""
    federation, state, exam, answers = asked[name]
    data = dict(federation.bench.data)
    for target in ("c1", "c3"):
        held = data[target]
        turned = type(held.train)(held.train.x, held.train.y.flip(0))
        data[target] = type(held)(turned, held.test)
    other = draw_samples(
        {target: data[target] for target in ("c3", "c1")},
        {client: data[client] for client in ("c0", "c2")},
        seed=0,
    )
    assert not np.array_equal(other.labels.members, exam.labels.members)
    found = BY_NAME["probe"].views(federation.bench, other, state)[0]
    for kind in ("members", "nonmembers", "population"):
        assert np.array_equal(getattr(found, kind), getattr(answers.views["probe"][0], kind))


def test_the_probe_is_fitted_on_none_of_the_targets_samples(asked):
    _, _, exam, _ = asked["fedper"]
    fitted = {tuple(row) for row in exam.fitting.x.tolist()}
    for part in (*exam.members.values(), *exam.nonmembers.values()):
        assert not fitted & {tuple(row) for row in part.x.tolist()}
    population = {tuple(row) for row in exam.population.x.tolist()}
    assert not population & fitted


def relabelled(labels):
    """Data whose clients have these labels only; the target has all three."""
    data = client_data(CLIENTS)
    for client in data:
        if client != "c1":
            data[client] = tuple(
                (x, torch.tensor(labels).repeat(len(y))[: len(y)]) for x, y in data[client]
            )
    return data


@pytest.mark.parametrize("labels", [[0], [2], [0, 1], [1, 2]])
def test_classes_that_only_the_target_has_do_no_harm(labels, tmp_path):
    with federation_of(tmp_path / "run", "fedper", relabelled(labels)) as federation:
        state = untouched_state(federation, ["c1"])
        _, answers = answers_of(federation, state, ["c1"])
    (view,) = answers.views["probe"]
    assert view.members.shape == (24, 3)
    assert np.isfinite(view.members).all()
    unknown = [label for label in range(3) if label not in labels]
    assert (view.members[:, unknown] == -50).all()
    assert (view.members[:, labels] > -50).any()


class Headless(nn.Module):
    """All parameters are the model's own: no submodule is a head."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return x @ self.weight


class Beyond(Deep):
    """The model goes on after its head, so the head's inputs alone do not give its answers."""

    def forward(self, x):
        return super().forward(x) * 2


def test_a_model_without_a_head_has_no_probe(tmp_path):
    with federation_of(tmp_path / "run", "fedavg", model=Headless) as federation:
        assert [s.name for s in surfaces_of(federation.bench)] == ["shared"]
        assert "looks like a head" in untested_surfaces(federation.bench, {})["probe"]


def test_a_model_that_goes_on_after_its_head_is_probed_by_its_answers(tmp_path):
    with federation_of(tmp_path / "run", "fedper", model=Beyond) as federation:
        state = untouched_state(federation, ["c1"])
        exam, answers = answers_of(federation, state, ["c1"])
        (view,) = answers.views["probe"]
    assert np.isfinite(view.members).all()
    remaining = answers.views["remaining"][0]
    assert remaining.members.shape == view.members.shape
    assert len(exam.asked) == sum(map(len, (view.members, view.nonmembers, view.population)))


def test_dropout_is_off_when_models_are_asked(tmp_path):
    class Dropping(Deep):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.head(self.drop(self.three(self.two(self.norm(self.one(x))))))

    with federation_of(tmp_path / "run", "fedper", model=Dropping) as federation:
        state = untouched_state(federation, ["c1"])
        one, two = (answers_of(federation, state, ["c1"])[1] for _ in range(2))
    for name in one.views:
        assert np.array_equal(one.views[name][0].members, two.views[name][0].members)


def test_a_state_is_what_it_is_made_of(asked):
    federation, state, _, _ = asked["ditto"]
    assert isinstance(state, State)
    assert list(state.personal) == ["c0", "c2"]
    assert list(state.stale) == ["c1", "c3"]
    for client in state.personal:
        own = federation.personal(client)
        assert all(torch.equal(state.personal[client][name], own[name]) for name in own)


@pytest.mark.parametrize("name", AVAILABLE)
def test_surfaces_do_not_depend_on_the_name_of_the_personalisation(name, asked):
    bench = asked[name][0].bench
    renamed = replace(bench, personalization=replace(bench.personalization, name="mine"))
    assert [s.name for s in surfaces_of(renamed)] == AVAILABLE[name]


def test_the_probe_of_personal_norms_and_head_has_the_mean_of_the_norms_alone(asked):
    """A personalisation that keeps both: no newcomer has the head, and all need the norms."""
    federation, state, _, _ = asked["fedbn"]
    bench = replace(
        federation.bench,
        head="head",
        split=replace(
            federation.bench.split,
            personal=(*federation.bench.split.personal, "head.weight"),
        ),
    )
    parts = {
        client: {**part, "head.weight": torch.zeros(1)} for client, part in state.personal.items()
    }
    mean = newcomer_part(bench, replace(state, personal=parts))
    assert set(mean) == set(federation.bench.split.personal)

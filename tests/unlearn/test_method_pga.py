"""PGA against its equations in numpy, and where it starts from."""

import numpy as np
import pytest
from torch import nn

from helpers.at_request import context_on
from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.linear import (
    CLASSES,
    INPUTS,
    MEAN,
    NAME,
    RATE,
    SIZES,
    VARIANCE,
    assert_close,
    cross_entropy_gradient,
    fedavg_round,
    federation,
    matrix,
    normed,
)
from helpers.linear import TARGET as LINEAR_TARGET
from pfedul.base.randomness import derive_seed, random_stream
from pfedul.errors import PfedulError
from pfedul.records.uploads import last_upload
from pfedul.unlearn.methods.pga import reference_model
from pfedul.unlearn.methods.pga import square_radius as found_radius


def uploads(linear, name: str = NAME) -> dict[str, np.ndarray]:
    found = {client: last_upload(linear.store, client) for client in linear.clients}
    return {client: tensors[name].numpy().copy() for client, (_, tensors) in found.items()}


def others_than(targets: tuple[str, ...]) -> list[str]:
    return [client for client in SIZES if client not in targets]


def mean_of(sent: dict[str, np.ndarray], clients) -> np.ndarray:
    total = sum(SIZES[client] for client in clients)
    return sum(SIZES[client] / total * sent[client] for client in clients)


def square_radius(reference: np.ndarray, request: int = 1) -> float:
    """From ten random models, built here."""
    squares = []
    for number in range(10):
        with random_stream(derive_seed(0, "unlearn", request, "random model", number), "init"):
            random = matrix().state_dict()[NAME].numpy()
        squares.append(((reference - random) ** 2).sum())
    return float(np.mean(squares)) / 3


def ascent(target, reference, own, passes, rate, momentum, clip, stop):
    """Projected ascent in numpy: the result, and what is said of it."""
    w, speed, steps, bound = reference.copy(), np.zeros_like(reference), 0, 0
    ended = "when its passes were over"
    radius, limit = square_radius(reference), stop * ((reference - own) ** 2).sum()
    for _ in range(passes):
        steps += 1
        g = -cross_entropy_gradient(w, target)
        g = g * min(1.0, clip / (np.linalg.norm(g) + 1e-6))
        speed = momentum * speed + g
        w = w - rate * speed
        away = w - reference
        if (away**2).sum() > radius:
            bound += 1
            w = reference + away * np.sqrt(radius / (away**2).sum())
        if ((w - own) ** 2).sum() > limit:
            ended = "far enough from its last model"
            break
    ball = f"bound {bound} of them" if bound else "never bound"
    return w, f"PGA: {target} ascended {steps} steps and stopped {ended}; the ball {ball}"


@pytest.mark.parametrize("targets", [(LINEAR_TARGET,), (LINEAR_TARGET, "c2")])
@pytest.mark.parametrize(
    ("passes", "lr", "clip", "stop", "bound", "ended"),
    [
        (3, 1.0, 0.05, 1000.0, False, "when its passes were over"),
        (40, 1.0, 5.0, 5.0, False, "far enough from its last model"),
        (40, 4.0, 5.0, 1e6, True, "when its passes were over"),
    ],
)
def test_without_anything_personal_it_is_the_published_method(
    tmp_path, targets, passes, lr, clip, stop, bound, ended
):
    """Two targets: the ball is round the last round without both, each ascends from there."""
    with federation(tmp_path / "run", record="uploads") as linear:
        linear.train()
        sent = uploads(linear)
        spec = f"pga:rounds=2,ascent={passes},lr={lr},clip={clip},stop={stop}"
        outcome = linear.forget(*targets, method=spec)
        reference, numbers = mean_of(sent, others_than(targets)), (passes, lr * RATE, 0.5, clip)
        ends = {u: ascent(u, reference, sent[u], *numbers, stop) for u in targets}
        w = mean_of({u: end for u, (end, _) in ends.items()}, targets)
        for _ in range(2):
            w = fedavg_round(w, others_than(targets))
        assert_close(linear.shared[NAME], w)
    assert outcome.notes == tuple(said for _, said in ends.values())
    # The case is the one that was meant: of the first target at least.
    assert ended in outcome.notes[0]
    assert ("never bound" not in outcome.notes[0]) is bound
    assert outcome.rounds == 3


@pytest.mark.parametrize("targets", [(LINEAR_TARGET,), (LINEAR_TARGET, "c2")])
def test_the_reference_has_the_statistics_of_the_round_without_the_targets(tmp_path, targets):
    with federation(tmp_path / "run", model=normed, record="uploads") as with_norm:
        with_norm.train()
        sent = {name: uploads(with_norm, name) for name in (MEAN, VARIANCE)}
        kept = {u: last_upload(with_norm.store, u) for u in targets}
        reference, notes = reference_model(context_on(with_norm, *targets), kept)
    assert not notes
    for name, by_client in sent.items():
        assert_close(reference[name], mean_of(by_client, others_than(targets)))


def half_frozen() -> nn.Module:
    model = nn.Sequential(
        nn.Linear(INPUTS, CLASSES, bias=False), nn.Linear(CLASSES, CLASSES, bias=False)
    )
    model[1].requires_grad_(False)
    return model.double()


def test_the_ball_knows_only_of_ways_that_can_be_gone(tmp_path):
    """Random models have other values where the author froze them: that is no distance."""
    with federation(tmp_path / "run", model=half_frozen, record="uploads") as linear:
        linear.train()
        found = found_radius(context_on(linear, LINEAR_TARGET), linear.shared)
        trained = linear.shared[NAME].numpy()
        # The first layer of random models is that of `matrix`: it is drawn first.
        assert found == pytest.approx(square_radius(trained), rel=1e-9)


NOT_THE_MEAN = "starts from the tensors as they are: they are not the mean"


@pytest.fixture
def halves(tmp_path):
    """A federation in which half of the clients take part in a round; and who was in the last."""
    with deep(tmp_path / "run", record="uploads", participation=0.5, rounds=4) as federated:
        federated.train()
        sql = "SELECT client FROM replies WHERE round = 4"
        there = sorted(row["client"] for row in federated.store.ledger.rows(sql))
        yield federated, there


def seen(federated, client: str) -> bool:
    return last_upload(federated.store, client) is not None


def test_a_target_that_was_not_in_the_last_round_starts_from_the_tensors_as_they_are(halves):
    federated, there = halves
    gone = next(c for c in federated.clients if c not in there and seen(federated, c))
    outcome = federated.forget(gone, method="pga:rounds=1,ascent=1")
    assert NOT_THE_MEAN in outcome.notes[0]


def test_after_another_request_the_tensors_are_no_mean_of_the_last_round(halves, monkeypatch):
    federated, there = halves
    kept = last_upload(federated.store, there[1])
    federated.forget(there[0], method="one-more-round")
    with pytest.raises(PfedulError, match="train another round first"):
        federated.forget(there[1], method="pga:rounds=1,ascent=1")
    monkeypatch.setattr("pfedul.unlearn.methods.pga.last_upload", lambda _store, _client: kept)
    outcome = federated.forget(there[1], method="pga:rounds=1,ascent=1")
    assert NOT_THE_MEAN in outcome.notes[0]


def test_a_target_that_took_part_in_no_round_leaves_everything_as_it_is(tmp_path):
    with deep(tmp_path / "run", record="uploads", participation=0.25, rounds=1) as federated:
        federated.train()
        idle = next(client for client in federated.clients if not seen(federated, client))
        before = {name: t.clone() for name, t in federated.shared.items()}
        outcome = federated.forget(idle, method="pga:rounds=1")
        assert all((federated.shared[name] == t).all() for name, t in before.items())
    assert outcome.rounds == 0
    assert f"{idle} took part in no round" in outcome.notes[0]


def test_where_only_targets_took_part_there_is_no_round_without_them(tmp_path):
    with deep(tmp_path / "run", record="uploads", participation=0.25, rounds=1) as federated:
        federated.train()
        (alone,) = [client for client in federated.clients if seen(federated, client)]
        outcome = federated.forget(alone, method="pga:rounds=1,ascent=1")
    assert "nobody else took part" in outcome.notes[0]


@pytest.mark.parametrize("personalization", ["fedper", "fedbn", "ditto"])
def test_two_targets_at_once_are_one_round(tmp_path, personalization):
    run = trained(tmp_path / "run", personalization=personalization, record="uploads")
    with deep_again(copied(run, tmp_path / "copy")) as federated:
        outcome = federated.forget(TARGET, "c2", method="pga:rounds=1,ascent=2")
        assert federated.clients == ["c0", "c3"]
    assert outcome.rounds == 2
    assert [note.split()[1] for note in outcome.notes] == [TARGET, "c2"]

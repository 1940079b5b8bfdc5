"""FedOSD against its equations, and the projection that it rests on."""

import numpy as np
import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.linear import (
    CLASSES,
    INPUTS,
    MEAN,
    NAME,
    NORMED_NAME,
    RATE,
    SIZES,
    VARIANCE,
    assert_close,
    cross_entropy_gradient,
    federation,
    normed,
    standing,
    unlearning_gradient,
    weight,
)
from helpers.linear import TARGET as LINEAR_TARGET
from pfedul.base.vectors import PIECE, flat, orthogonal_part, unflat
from pfedul.unlearn.methods.fedosd import osd_direction, without


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def relative_overlap(rows: torch.Tensor, direction: torch.Tensor) -> float:
    exact = rows.double()
    return float((exact @ direction).norm() / (exact.norm() * direction.norm()))


def test_three_numbers_by_hand():
    rows = torch.tensor([[1.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
    direction, share = osd_direction(torch.tensor([3.0, 0.0, 4.0]), rows)
    assert direction.tolist() == pytest.approx([0.0, 0.0, 5.0])
    assert share == pytest.approx(0.8)


@pytest.mark.parametrize("columns", [50, PIECE + 7])
def test_no_row_sees_the_direction(columns):
    rows, target = matrix(9, columns), matrix(1, columns, seed=1)[0]
    direction, share = osd_direction(target, rows)
    assert relative_overlap(rows, direction) < 1e-8
    assert float(direction.norm()) == pytest.approx(float(target.double().norm()))
    assert 0 < share < 1


@pytest.mark.parametrize("nearness", [0.0, 1e-7, 1e-4])
def test_rows_that_are_alike_do_no_harm(nearness):
    rows = matrix(6, 40)
    rows[3] = rows[2] * 2 + nearness * matrix(1, 40, seed=5)[0]
    rows[4] = 0
    direction, _ = osd_direction(matrix(1, 40, seed=1)[0], rows)
    assert relative_overlap(rows, direction) < 1e-8


def test_rows_of_very_different_lengths_are_all_spared():
    rows = matrix(6, 40) * torch.tensor([[1e-3], [1e3], [1.0], [1.0], [1e-2], [10.0]])
    direction, _ = osd_direction(matrix(1, 40, seed=1)[0], rows)
    lengths = rows.double().norm(dim=1)
    assert float(((rows.double() @ direction).abs() / lengths).max()) < 1e-8


@pytest.mark.parametrize("length", [1e-9, 1e-15])
def test_a_row_is_spared_however_short_it_is(length):
    """A client at its optimum sends next to nothing, and that has a direction as well."""
    rows = matrix(6, 40)
    rows[2] *= length
    direction, _ = osd_direction(matrix(1, 40, seed=1)[0], rows)
    lengths = rows.double().norm(dim=1)
    seen = (rows.double() @ direction).abs() / (lengths * direction.norm())
    assert float(seen.max()) < 1e-8


def test_where_nothing_is_left_there_is_no_direction():
    rows = torch.eye(3)
    direction, share = osd_direction(torch.tensor([1.0, 2.0, 3.0]), rows)
    assert share == 0.0
    assert not direction.any()


def test_a_target_that_has_nothing_to_unlearn_moves_nothing():
    direction, share = osd_direction(torch.zeros(4), matrix(2, 4))
    assert share == 0.0
    assert not direction.any()


def test_the_projection_agrees_with_least_squares():
    rows, target = matrix(7, 30), matrix(1, 30, seed=1)[0]
    a, g = rows.double().numpy(), target.double().numpy()
    factors = np.linalg.lstsq(a.T, g, rcond=None)[0]
    np.testing.assert_allclose(orthogonal_part(target, rows).numpy(), g - a.T @ factors, atol=1e-12)


def test_the_way_gone_is_taken_out_of_either_sign_and_the_length_is_kept():
    way = torch.tensor([0.0, 2.0])
    for sign in (1.0, -1.0):
        assert without(torch.tensor([3.0, 4.0 * sign]), way).tolist() == pytest.approx([5.0, 0.0])
    assert without(torch.tensor([3.0, 4.0]), torch.zeros(2)).tolist() == [3.0, 4.0]
    assert without(torch.tensor([0.0, 4.0]), way).tolist() == [0.0, 0.0]


def test_a_vector_goes_back_into_its_tensors():
    tensors = {"w": torch.arange(6.0).view(2, 3), "b": torch.tensor([7.0]), "n": torch.tensor(3)}
    back = unflat(flat(tensors, ["b", "w"]), tensors, ["b", "w"])
    assert back.keys() == {"b", "w"}
    assert all(torch.equal(back[name], tensors[name]) for name in back)


def targets_update(w: np.ndarray, targets: tuple[str, ...], data) -> np.ndarray:
    """g_u: the mean over the targets by samples."""
    total = sum(SIZES[client] for client in targets)
    return sum(SIZES[u] / total * unlearning_gradient(w, u, data).ravel() for u in targets)


def by_the_equations(w, targets, rounds: int, rate: float, recovery: int, back: float, data=None):
    """FedOSD in numpy, by least squares in place of a pseudo-inverse."""
    others = [client for client in SIZES if client not in targets]
    origin, shares = w.copy(), []
    for _ in range(rounds):
        rows = np.stack([cross_entropy_gradient(w, client, data).ravel() for client in others])
        target = targets_update(w, targets, data)
        rest = target - rows.T @ np.linalg.lstsq(rows.T, target, rcond=None)[0]
        shares.append(np.linalg.norm(rest) / np.linalg.norm(target))
        w = w - rate * (rest / shares[-1]).reshape(CLASSES, INPUTS)
    total = sum(SIZES[client] for client in others)
    for _ in range(recovery):
        way, step = (w - origin).ravel(), np.zeros(w.size)
        for client in others:
            g = cross_entropy_gradient(w, client, data).ravel()
            rest = g - (g @ way) / (way @ way) * way
            length = np.linalg.norm(g) / np.linalg.norm(rest)
            step += SIZES[client] / total * rest * length
        w = w - back * step.reshape(CLASSES, INPUTS)
    return w, shares


@pytest.mark.parametrize("targets", [(LINEAR_TARGET,), (LINEAR_TARGET, "c2")])
@pytest.mark.parametrize("recovery", [0, 3])
def test_without_anything_personal_it_is_the_published_method(tmp_path, recovery, targets):
    with federation(tmp_path / "run") as linear:
        linear.train()
        before = weight(linear)
        spec = f"fedosd:rounds=3,lr=0.5,recovery={recovery},recovery_lr=0.25"
        outcome = linear.forget(*targets, method=spec)
        expected, shares = by_the_equations(before, targets, 3, 0.5 * RATE, recovery, 0.25 * RATE)
        assert_close(linear.shared[NAME], expected)
    assert f"{sum(shares) / 3:.1%} of the target's update" in outcome.notes[0]
    assert outcome.rounds == 3 + recovery


@pytest.mark.parametrize("recovery", [0, 3])
def test_statistics_stand_still_and_count_as_they_are(tmp_path, recovery):
    """All gradients are of the function that is deployed, in both stages."""
    with federation(tmp_path / "run", model=normed) as with_norm:
        with_norm.train()
        before = {name: tensor.clone() for name, tensor in with_norm.shared.items()}
        spec = f"fedosd:rounds=3,lr=0.5,recovery={recovery},recovery_lr=0.25"
        with_norm.forget(LINEAR_TARGET, method=spec)
        numbers = (LINEAR_TARGET,), 3, 0.5 * RATE, recovery, 0.25 * RATE
        start = before[NORMED_NAME].numpy()
        expected, _ = by_the_equations(start, *numbers, standing(before))
        assert_close(with_norm.shared[NORMED_NAME], expected)
        for name in (MEAN, VARIANCE):
            assert_close(with_norm.shared[name], before[name].numpy())


def test_it_stops_where_the_others_see_everything(tmp_path):
    rng = np.random.default_rng(0)
    many = {  # more than the matrix has entries
        f"c{index}": (rng.normal(size=(4, INPUTS)), rng.integers(0, CLASSES, 4))
        for index in range(CLASSES * INPUTS + 5)
    }
    with federation(tmp_path / "run", many, rounds=1) as linear:
        linear.train()
        before = weight(linear)
        options = {"method": "fedosd:rounds=3,recovery=0", "allow_unchanged": True}
        outcome = linear.forget("c7", **options)
        assert (weight(linear) == before).all()
    assert outcome.rounds == 1
    assert "stopped after 0 of 3" in outcome.notes[1]


@pytest.mark.parametrize("personalization", ["fedper", "fedbn", "ditto"])
def test_two_targets_at_once_on_a_personalised_federation(tmp_path, personalization):
    run = trained(tmp_path / "run", personalization=personalization)
    with deep_again(copied(run, tmp_path / "copy")) as deep:
        outcome = deep.forget(TARGET, "c2", method="fedosd:rounds=2,recovery=1")
        assert deep.clients == ["c0", "c3"]
    assert outcome.rounds == 3
    assert "of the target's update was orthogonal" in outcome.notes[0]

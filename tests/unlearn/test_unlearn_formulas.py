"""Corrections of larger layers against the plain formulas, and at the ends of single precision."""

import math

import pytest
import torch

from pfedul.base.tensors import norm, square_sum
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView

LONG = 20_123


def drawn(seed: int, power: float = 1.0) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    sizes = {"w": (LONG,), "b": (7,), "none": (0, 3), "v": (3, 5000)}
    return {name: torch.randn(size, generator=draw).abs() ** power for name, size in sizes.items()}


def long_view() -> LayerView:
    target, others = drawn(2, 2.0), drawn(3, 2.0)
    total = {name: target[name] + others[name] for name in target}
    return LayerView(drawn(0), drawn(1), target, total, score=0.3, largest=0.4, mean=0.3)


VIEW = long_view()


def corrected(spec: str, view: LayerView = VIEW) -> Corrected:
    correction, options = CORRECTIONS.parse(spec)
    return correction.correct(view, options)


def joined(part: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in part.values()]).double()


def check(
    found: Corrected, expected: torch.Tensor, at_bound: float, view: LayerView = VIEW
) -> None:
    """Values, how far each tensor went, and how many entries are at the bound."""
    torch.testing.assert_close(joined(found.tensors), expected, rtol=1e-6, atol=1e-6)
    assert found.at_bound == pytest.approx(at_bound, abs=3 / len(expected))
    for name, tensor in found.tensors.items():
        moved = float((tensor.double() - view.shared[name].double()).norm())
        assert found.changes[name] == pytest.approx(moved, rel=1e-5)


def test_paper_is_the_plain_formula():
    theta, start, fisher = joined(VIEW.shared), joined(VIEW.initial), joined(VIEW.target)
    bound = 0.2 * float(theta.norm()) / math.sqrt(len(theta))
    step = 0.5 * VIEW.score * fisher * (theta - start)
    reached = float((step.abs() >= bound).double().mean())
    assert 0.1 < reached < 0.9
    check(corrected("paper:step=0.5,clip=0.2"), theta + step.clamp(-bound, bound), reached)


@pytest.mark.parametrize(("toward", "sign"), [("away", 1), ("init", -1)])
def test_trust_region_is_the_plain_formula(toward, sign):
    theta, start, fisher = joined(VIEW.shared), joined(VIEW.initial), joined(VIEW.target)
    bound = 0.2 * float(theta.norm()) / math.sqrt(len(theta))
    step = fisher * (theta - start)
    step *= sign * bound * VIEW.score / VIEW.largest / (float(step.norm()) / math.sqrt(len(step)))
    reached = float((step.abs() >= bound).double().mean())
    assert 0.05 < reached < 0.9
    found = corrected(f"trust-region:clip=0.2,toward={toward}")
    check(found, theta + step.clamp(-bound, bound), reached)


@pytest.mark.parametrize("fraction", [0.001, 0.2, 0.9, 1.0])
def test_reset_is_the_plain_formula_to_the_bit(fraction):
    share = joined({n: VIEW.target[n] / VIEW.total[n] for n in VIEW.target})
    first = torch.sort(share, descending=True, stable=True).indices
    taken = first[: round(fraction * len(share))]
    expected = joined(VIEW.shared)
    expected[taken] = joined(VIEW.initial)[taken]
    found = corrected(f"reset:{fraction}")
    assert torch.equal(joined(found.tensors), expected)
    check(found, expected, len(taken) / len(share))


def test_reset_keeps_bits_that_arithmetic_would_lose():
    theta = torch.tensor([-0.0, -0.0, 1.0, 2.0])
    start = torch.tensor([5.0, 6.0, -0.0, math.inf])
    fisher = {"w": torch.tensor([0.0, 0.0, 1.0, 0.0])}
    view = LayerView({"w": theta}, {"w": start}, fisher, {"w": torch.ones(4)}, 1.0, 1.0, 1.0)
    after = corrected("reset:1", view).tensors["w"]
    assert (
        after.view(torch.int32).tolist()
        == torch.tensor([-0.0, -0.0, -0.0, 2.0]).view(torch.int32).tolist()
    )


@pytest.mark.parametrize("spec", ["paper:step=1,clip=0.5", "trust-region:clip=0.5", "reset"])
def test_tensors_in_another_memory_order_give_the_same(spec):
    def turned(part: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"v": part["v"].t().contiguous().t()}

    def plain(part: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"v": part["v"]}

    parts = (VIEW.shared, VIEW.initial, VIEW.target, VIEW.total)
    found, expected = (
        corrected(spec, LayerView(*map(how, parts), score=0.3, largest=0.4, mean=0.3))
        for how in (turned, plain)
    )
    torch.testing.assert_close(found.tensors["v"], expected.tensors["v"], rtol=1e-6, atol=1e-7)


def naive(values: torch.Tensor, count: int) -> list[int]:
    """The `count` highest values above 0, the first of equals first."""
    first = torch.sort(values, descending=True, stable=True).indices[:count]
    return sorted(int(i) for i in first[values[first] > 0])


def adversarial() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    some = torch.rand(LONG, generator=draw)
    few = torch.where(some > 0.999, some, torch.zeros(()))
    hidden = torch.full((LONG,), 0.5)
    hidden[1::977] = torch.rand(len(hidden[1::977]), generator=draw)
    return {
        "equal": torch.full((LONG,), 0.5),
        "ties": (some * 4).round() / 4,
        "rising": some.sort().values,
        "falling": some.sort(descending=True).values,
        "few above zero": few,
        "zero": torch.zeros(LONG),
        "ones": torch.ones(LONG),
        "clumped": torch.cat([some[: LONG // 2] / 100, some[LONG // 2 :]]),
        "hidden": hidden,
        "short": some[:100],
    }


def reset_places(values: torch.Tensor, fraction: float) -> list[int]:
    """Which entries a correction resets whose shares are these, in two tensors."""
    part = len(values) // 3
    own = {"a": values[:part].clone(), "b": values[part:].clone()}
    total, start = ({name: torch.ones_like(t) for name, t in own.items()} for _ in range(2))
    theta = {name: torch.zeros_like(tensor) for name, tensor in own.items()}
    view = LayerView(theta, start, own, total, 1.0, 1.0, 1.0)
    found = corrected(f"reset:{fraction}", view)
    places = torch.cat([found.tensors[name] for name in ("a", "b")]).nonzero().flatten().tolist()
    assert found.at_bound == pytest.approx(len(places) / len(values))
    assert math.hypot(*found.changes.values()) == pytest.approx(math.sqrt(len(places)))
    return places


@pytest.mark.parametrize("values", adversarial().values(), ids=list(adversarial()))
@pytest.mark.parametrize("fraction", [1e-9, 1e-4, 0.3, 1])
def test_exactly_the_highest_shares_are_reset(values, fraction):
    assert reset_places(values, fraction) == naive(values, round(fraction * len(values)))


def test_shares_of_entries_with_a_sum_of_zero():
    own, total = (
        {"w": torch.tensor([0.0, 1.0, 3.0, 0.0])},
        {"w": torch.tensor([0.0, 0.0, 4.0, 1.0])},
    )
    start, theta = {"w": torch.full((4,), 9.0)}, {"w": torch.zeros(4)}
    view = LayerView(theta, start, own, total, 1.0, 1.0, 1.0)
    assert corrected("reset:0.25", view).tensors["w"].tolist() == [0, 9, 0, 0]
    assert corrected("reset:1", view).tensors["w"].tolist() == [0, 9, 9, 0]


@pytest.mark.parametrize("size", [0, 1, 15, 257, LONG])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
def test_the_norm_is_that_of_double_precision(size, scale):
    x = scale * torch.randn(size, generator=torch.Generator().manual_seed(0))
    exact = float(x.double().norm())
    assert norm({"w": x, "b": torch.zeros(3, dtype=torch.bfloat16)}) == pytest.approx(
        exact, rel=1e-9
    )
    assert square_sum(x.double()) == pytest.approx(exact**2, rel=1e-9)


def test_a_square_sum_has_the_same_bits_wherever_its_numbers_lie():
    numbers, room = drawn(1)["w"], torch.empty(LONG + 16)
    sums = {square_sum(room[at : at + LONG].copy_(numbers)) for at in range(16)}
    assert len(sums) == 1


def test_the_change_is_exact_where_every_entry_is_at_the_bound():
    """A sum of equal squares rounds the same way every time."""
    theta = {"w": torch.full((LONG,), 0.1)}
    start, fisher = {"w": torch.zeros(LONG)}, {"w": torch.ones(LONG)}
    view = LayerView(theta, start, fisher, fisher, 1.0, 1.0, 1.0, unit=1e4)
    found = corrected("paper:clip=0.3", view)
    moved = (found.tensors["w"].double() - theta["w"].double()).norm()
    assert found.at_bound == 1.0
    assert found.changes["w"] == pytest.approx(float(moved), rel=1e-6)


def test_a_step_beyond_single_precision_stops_at_the_bound():
    view = LayerView(*({"w": torch.tensor([x])} for x in (2.0, 1.0, 1.0, 1.0)), 1.0, 1.0, 1.0, 1e50)
    found = corrected("paper:clip=0.5", view)
    assert found.tensors["w"].item() == pytest.approx(3.0, rel=1e-2)


def small_fisher(scale: float) -> LayerView:
    """As the large layer, with a Fisher of this scale that is zero in places."""
    target = {name: tensor * scale for name, tensor in drawn(2, 2.0).items()}
    target["w"][::5] = 0.0
    total = {name: target[name] + scale * tensor for name, tensor in drawn(3, 2.0).items()}
    return LayerView(drawn(0), drawn(1), target, total, score=0.3, largest=0.4, mean=0.3)


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-12, 1e30])
@pytest.mark.parametrize("spec", ["paper:step=0.5,clip=0.2", "trust-region:clip=0.2"])
def test_steps_are_the_plain_formula_at_every_scale_of_the_fisher(spec, scale):
    view = small_fisher(scale)
    theta, start, fisher = joined(view.shared), joined(view.initial), joined(view.target)
    bound = 0.2 * float(theta.norm()) / math.sqrt(len(theta))
    step = fisher * (theta - start)
    size = bound * 0.3 / 0.4 * math.sqrt(len(step)) / float(step.norm())
    step *= 0.5 * 0.3 if spec.startswith("paper") else size
    reached = float((step.abs() >= bound).double().mean())
    check(corrected(spec, view), theta + step.clamp(-bound, bound), reached, view)


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e30])
def test_reset_takes_the_highest_shares_at_every_scale_of_the_fisher(scale):
    view = small_fisher(scale)
    own, total = (torch.cat([t.flatten() for t in p.values()]) for p in (view.target, view.total))
    places = naive((own / total).nan_to_num(nan=0.0), round(0.3 * len(own)))
    expected = joined(view.shared)
    expected[places] = joined(view.initial)[places]
    check(corrected("reset:0.3", view), expected, len(places) / len(own), view)


@pytest.mark.parametrize("spec", ["paper", "trust-region", "reset"])
def test_weights_that_are_not_finite_are_seen(spec):
    view = long_view()
    view.shared["w"][7] = math.nan
    found = corrected(spec, view)
    assert not math.isfinite(found.norm + found.changes["w"])


def test_changes_too_small_to_be_squared_in_single_precision_are_seen():
    theta, start = torch.full((300,), 3e-30), torch.full((300,), 2e-30)
    fisher = {"w": torch.ones(300)}
    view = LayerView({"w": theta}, {"w": start}, fisher, fisher, 1.0, 1.0, 1.0)
    found = corrected("reset:1", view)
    assert found.changes["w"] == pytest.approx(1e-30 * math.sqrt(300), rel=1e-5)
    assert found.norm == pytest.approx(3e-30 * math.sqrt(300), rel=1e-5)

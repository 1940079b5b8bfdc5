"""Each correction on a layer of two tensors, with the answer worked out by hand."""

import math
from dataclasses import replace

import pytest
import torch

from pfedul.errors import PfedulError
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView


def tensors(w: list[float], b: list[float]) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor(w), "b": torch.tensor(b)}


# theta = (3, 0, 4, 0), ||theta|| = 5, d = 4, so delta = clip * 2.5.
# theta - init = (2, -1, 4, 0), F = (1, 2, 0.5, 8), direction (2, -2, 2, 0).
VIEW = LayerView(
    shared=tensors([3.0, 0.0], [4.0, 0.0]),
    initial=tensors([1.0, 1.0], [0.0, 0.0]),
    target=tensors([1.0, 2.0], [0.5, 8.0]),
    total=tensors([4.0, 4.0], [4.0, 10.0]),
    score=0.5,
    largest=0.8,
    mean=0.25,
)


def corrected(spec: str, view: LayerView = VIEW) -> Corrected:
    correction, options = CORRECTIONS.parse(spec)
    return correction.correct(view, options)


def change(spec: str, view: LayerView = VIEW) -> list[float]:
    after = corrected(spec, view).tensors
    return torch.cat([after[name] - view.shared[name] for name in view.shared]).tolist()


def large_view(seed: int = 0) -> LayerView:
    draw = torch.Generator().manual_seed(seed)
    parts = {
        part: {
            "w": torch.randn(30, 20, generator=draw),
            "b": torch.randn(30, generator=draw),
        }
        for part in ("shared", "initial", "target", "others", "without")
    }
    target = {name: tensor**2 for name, tensor in parts["target"].items()}
    total = {name: target[name] + tensor**2 for name, tensor in parts["others"].items()}
    known = parts["shared"], parts["initial"], target, total
    return LayerView(*known, 0.3, 0.6, 0.3, without=parts["without"])


def scaled(view: LayerView, factor: float) -> LayerView:
    return replace(
        view,
        target={name: tensor * factor for name, tensor in view.target.items()},
        total={name: tensor * factor for name, tensor in view.total.items()},
    )


@pytest.mark.parametrize("correction", list(CORRECTIONS), ids=lambda correction: correction.name)
def test_every_correction_leaves_its_view_alone_and_keeps_names_shapes_and_types(correction):
    view = large_view()
    before = {name: tensor.clone() for name, tensor in view.shared.items()}
    fisher = {name: tensor.clone() for name, tensor in view.target.items()}
    found = correction.correct(view, correction.options())
    assert all(torch.equal(before[name], view.shared[name]) for name in before)
    assert all(torch.equal(fisher[name], view.target[name]) for name in before)
    assert {n: (t.shape, t.dtype) for n, t in found.tensors.items()} == {
        n: (t.shape, t.dtype) for n, t in before.items()
    }
    assert 0 <= found.at_bound <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("spec", ["paper:clip=0.5", "trust-region:clip=0.5", "reset"])
def test_other_precisions_agree_with_single_precision(spec, dtype):
    view = large_view()
    shared = {name: tensor.to(dtype) for name, tensor in view.shared.items()}
    initial = {name: tensor.to(dtype) for name, tensor in view.initial.items()}
    found = corrected(spec, replace(view, shared=shared, initial=initial)).tensors
    expected = corrected(
        spec,
        replace(
            view,
            shared={name: tensor.float() for name, tensor in shared.items()},
            initial={name: tensor.float() for name, tensor in initial.items()},
        ),
    ).tensors
    for name, tensor in found.items():
        assert tensor.dtype == dtype
        torch.testing.assert_close(tensor.float(), expected[name], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("spec", ["paper", "trust-region", "reset"])
def test_a_target_without_any_fisher_changes_nothing(spec):
    nothing = tensors([0.0, 0.0], [0.0, 0.0])
    view = replace(VIEW, target=nothing, total=nothing, score=0.0, largest=0.0, mean=0.0)
    assert change(spec, view) == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("spec", ["paper", "trust-region", "reset"])
def test_a_layer_without_tensors_stays_one(spec):
    found = corrected(spec, LayerView({}, {}, {}, {}, score=0.5, largest=0.5, mean=0.5))
    assert (found.tensors, found.changes, found.at_bound, found.norm) == ({}, {}, 0.0, 0.0)


def test_paper_unclipped_is_the_printed_product():
    """0.25 * 0.5 * (2, -2, 2, 0), all below the bound of 2.5."""
    assert change("paper:step=0.25,clip=1") == [0.25, -0.25, 0.25, 0.0]
    assert corrected("paper:step=0.25,clip=1").at_bound == 0.0


def test_paper_clipped_stops_at_the_bound_of_the_whole_layer():
    """Steps (1, -1, 1, 0) against 0.05 * 5 / sqrt(4) = 0.125."""
    found = corrected("paper:step=1,clip=0.05")
    assert found.tensors["w"].tolist() == [3.125, -0.125]
    assert found.tensors["b"].tolist() == [4.125, 0.0]
    assert found.at_bound == 0.75


@pytest.mark.parametrize("step", [1, 1e3, 1e9])
def test_the_printed_bound_keeps_a_layer_within_one_percent_of_its_length(step):
    """clip * ||layer|| / sqrt(entries) for each entry is clip * ||layer|| for all: Eq. 11."""
    view = large_view()
    found = corrected(f"paper:step={step},clip=0.01", view).tensors
    moved = math.sqrt(sum(float((found[n] - t).square().sum()) for n, t in view.shared.items()))
    length = math.sqrt(sum(float(t.square().sum()) for t in view.shared.values()))
    assert 0 < moved <= 0.01 * length * (1 + 1e-4)
    if step == 1e9:  # all entries with a direction are at the bound
        assert moved > 0.009 * length


def test_an_entry_that_just_reaches_the_bound_is_at_it():
    """Steps (1, -1, 1, 0) against 0.4 * 2.5 = 1."""
    assert corrected("paper:step=1,clip=0.4").at_bound == 0.75


def test_paper_defaults_are_the_printed_ones():
    assert CORRECTIONS.canonical("paper") == "paper:step=0.1,clip=0.01"
    assert change("paper") == pytest.approx([0.025, -0.025, 0.025, 0.0], abs=1e-6)


def test_paper_wants_gradients_and_large_changes_spoil_statistics():
    assert {c.name: (c.g, c.resets_statistics) for c in CORRECTIONS} == {
        "paper": ("gradient", False),
        "trust-region": ("update", False),
        "reset": ("update", True),
        "exclude": ("update", True),
    }


def test_trust_region_has_the_size_that_it_is_given():
    """RMS of (2, -2, 2, 0) is sqrt(3); wanted is 0.5 / 0.8 of the bound 0.1 * 2.5."""
    size = 0.5 / 0.8 * 0.25
    step = size * 2 / math.sqrt(3)
    assert change("trust-region:clip=0.1") == pytest.approx([step, -step, step, 0.0], rel=1e-5)
    assert corrected("trust-region:clip=0.1").at_bound == 0.0


def test_trust_region_toward_init_is_the_opposite_step():
    away, toward = (change(f"trust-region:clip=0.1,toward={word}") for word in ("away", "init"))
    assert toward == pytest.approx([-x for x in away], rel=1e-5)


def test_trust_region_is_clipped_where_an_entry_stands_out():
    """All of the direction in one entry: a step of sqrt(4) * bound, cut to the bound."""
    view = replace(VIEW, target=tensors([1.0, 0.0], [0.0, 0.0]), score=0.8)
    assert change("trust-region:clip=0.1", view) == [0.25, 0.0, 0.0, 0.0]
    assert corrected("trust-region:clip=0.1", view).at_bound == 0.25


@pytest.mark.parametrize("exponent", [-120, -30, 30, 100])
def test_trust_region_does_not_depend_on_the_scale_of_the_fisher(exponent):
    view = large_view()
    moved = corrected("trust-region:clip=0.3", scaled(view, 2.0**exponent))
    kept = corrected("trust-region:clip=0.3", view)
    assert moved.at_bound == kept.at_bound
    for name, tensor in kept.tensors.items():
        torch.testing.assert_close(moved.tensors[name], tensor, rtol=1e-5, atol=1e-6)


def test_trust_region_has_its_size_at_the_very_end_of_single_precision():
    """Where the scale itself would overflow, and turn entries without a step into NaN."""
    view = replace(VIEW, target=tensors([2.0**-140, 2.0**-139], [2.0**-141, 0.0]))
    step = 0.5 / 0.8 * 0.25 * 2 / math.sqrt(3)
    assert change("trust-region:clip=0.1", view) == pytest.approx([step, -step, step, 0], rel=1e-5)


@pytest.mark.parametrize("spec", ["paper:step=1,clip=0.05", "trust-region:clip=0.05"])
def test_no_entry_moves_further_than_the_bound(spec):
    view = large_view()
    entries = torch.cat([tensor.flatten() for tensor in view.shared.values()])
    bound = 0.05 * float(entries.double().norm()) / math.sqrt(len(entries))
    after = corrected(spec, view).tensors
    moved = torch.cat([(after[n] - t).flatten() for n, t in view.shared.items()]).abs()
    assert float(moved.max()) == pytest.approx(bound, rel=1e-4)


def test_trust_region_without_a_direction_changes_nothing():
    view = replace(VIEW, initial=VIEW.shared)
    assert change("trust-region", view) == [0.0] * 4


def test_reset_takes_the_highest_shares_of_the_whole_layer():
    """Shares (0.25, 0.5, 0.125, 0.8); q = 0.25 * 0.5 / 0.25 = 0.5: two of four entries."""
    found = corrected("reset:0.25")
    assert found.tensors["w"].tolist() == [3.0, 1.0]
    assert found.tensors["b"].tolist() == [4.0, 0.0]
    assert found.at_bound == 0.5


@pytest.mark.parametrize(("fraction", "count"), [(0.01, 6), (0.1, 63), (0.5, 315), (1.0, 630)])
def test_reset_entries_have_the_bits_of_the_initial_ones_and_the_others_their_own(fraction, count):
    view = large_view()
    found = corrected(f"reset:{fraction}", view)
    shares = torch.cat([(view.target[n] / view.total[n]).flatten() for n in view.shared])
    chosen = set(torch.sort(shares, descending=True, stable=True).indices[:count].tolist())
    after, before, initial = (
        torch.cat([tensor.flatten() for tensor in part.values()]).view(torch.int32).tolist()
        for part in (found.tensors, view.shared, view.initial)
    )
    assert after == [initial[i] if i in chosen else before[i] for i in range(len(after))]
    assert found.at_bound == count / 630


def test_reset_never_takes_more_than_everything():
    assert corrected("reset:0.9").at_bound == 1.0


def test_reset_never_takes_what_is_not_the_targets():
    """Two entries of four without a share, one of them of nobody's at all."""
    view = replace(
        VIEW, target=tensors([0.0, 1.0], [0.0, 1.0]), total=tensors([0.0, 2.0], [3.0, 2.0])
    )
    found = corrected("reset:1", view)
    assert found.tensors["w"].tolist() == [3.0, 1.0]
    assert found.tensors["b"].tolist() == [4.0, 0.0]
    assert found.at_bound == 0.5


def test_reset_is_the_same_in_every_unit():
    view = large_view()
    first, second = corrected("reset", view), corrected("reset", scaled(view, 2.0**20))
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


@pytest.mark.parametrize(
    "spec",
    [
        *("paper:step=0", "paper:clip=-1", "paper:step=nan", "trust-region:clip=0"),
        *("trust-region:toward=up", "reset:0", "reset:1.5", "reset:nan", "magic"),
    ],
)
def test_impossible_options_are_refused(spec):
    with pytest.raises(PfedulError):
        CORRECTIONS.parse(spec)

"""Adapters on plain dictionaries: what they add, and that nothing is lost."""

import pytest
import torch

from pfedul.adapters import (
    Adapter,
    AdapterKind,
    apply_adapter,
    drop_adapter,
    fixed_factor,
    mask_positions,
    no_values,
    with_values,
)
from pfedul.models import build_model

KINDS = [AdapterKind("sparse", density=0.1, seed=3), AdapterKind("lora", rank=2, seed=3)]


@pytest.fixture
def state():
    model = build_model("cnn:width=4", (1, 8, 8), 3)
    model(torch.randn(16, 1, 8, 8))  # so that running statistics are not those of a new model
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def matrices(state):
    return [name for name, tensor in state.items() if tensor.ndim >= 2]


def random_values(kind, state):
    stream = torch.Generator().manual_seed(1)
    first = {name: no_values(kind, name, state[name]) for name in matrices(state)}
    return {name: torch.randn(v.shape, generator=stream) for name, v in first.items()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adapter)
def test_an_adapter_of_zeros_leaves_outputs_bit_for_bit(kind, state):
    zeros = {name: no_values(kind, name, state[name]) for name in matrices(state)}
    merged = apply_adapter(state, Adapter(kind, zeros)).merged
    x, outputs = torch.randn(5, 1, 8, 8), []
    for tensors in (state, merged):
        model = build_model("cnn:width=4", (1, 8, 8), 3).eval()
        model.load_state_dict(tensors)
        outputs.append(model(x))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adapter)
def test_dropping_an_adapter_restores_every_bit_statistics_included(kind, state):
    before = {name: tensor.clone() for name, tensor in state.items()}
    values = random_values(kind, state)
    adapted = apply_adapter(state, Adapter(kind, values))
    for name in values:
        assert not torch.equal(adapted.merged[name], before[name])
    back = drop_adapter(adapted)
    assert back.keys() == before.keys()
    assert all(torch.equal(back[name], before[name]) for name in before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adapter)
def test_taking_off_what_was_added_would_not_restore_them(kind, state):
    """Why the frozen tensors are kept and nothing is subtracted."""
    values = random_values(kind, state)
    added = with_values(state, Adapter(kind, values))
    off = with_values(added, Adapter(kind, {name: -value for name, value in values.items()}))
    assert any(not torch.equal(off[name], state[name]) for name in off)


def test_a_mask_has_its_density_and_is_the_same_wherever_its_seed_is(state):
    for name in matrices(state):
        places = mask_positions(KINDS[0], name, state[name])
        assert len(places) == max(1, round(0.1 * state[name].numel()))
        assert len(places.unique()) == len(places)
        assert torch.equal(places, mask_positions(KINDS[0], name, state[name]))
    name = "hidden.0.weight"
    other = mask_positions(AdapterKind("sparse", density=0.1, seed=4), name, state[name])
    assert not torch.equal(mask_positions(KINDS[0], name, state[name]), other)


def test_sparse_changes_its_places_and_no_others(state):
    name, values = "hidden.0.weight", random_values(KINDS[0], state)
    after = with_values(state, Adapter(KINDS[0], {name: values[name]}))[name]
    places = mask_positions(KINDS[0], name, state[name])
    changed = (after != state[name]).flatten().nonzero().flatten()
    assert torch.equal(changed, places)
    assert torch.equal(after.flatten()[places], state[name].flatten()[places] + values[name])


def test_lora_adds_a_product_of_the_rank_also_to_a_convolution(state):
    kind, name = KINDS[1], "block2.0.weight"
    values = random_values(kind, state)[name]
    after = with_values(state, Adapter(kind, {name: values}))[name]
    change = (after - state[name]).double().flatten(1)
    product = values.double() @ fixed_factor(kind, name, state[name]).double()
    assert torch.allclose(change, 2 * product, atol=1e-5)
    assert torch.linalg.matrix_rank(product) == 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adapter)
def test_the_mean_of_values_is_the_mean_of_changes(kind):
    """What fails where both factors of LoRA are trained and averaged one by one."""
    frozen = {"w": torch.zeros(6, 8, dtype=torch.float64)}
    shape = no_values(kind, "w", frozen["w"]).shape
    one, two = (torch.randn(shape, dtype=torch.float64) for _ in range(2))
    changes = [with_values(frozen, Adapter(kind, {"w": v}))["w"] for v in (one, two)]
    of_mean = with_values(frozen, Adapter(kind, {"w": 0.25 * one + 0.75 * two}))["w"]
    assert torch.allclose(of_mean, 0.25 * changes[0] + 0.75 * changes[1], atol=1e-12)

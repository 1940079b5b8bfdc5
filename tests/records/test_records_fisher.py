"""The running Fisher: three numbers by hand, and what a record refuses."""

import pytest
import torch

from pfedul.errors import PfedulError
from pfedul.records.fisher import FisherRecord, fisher_noise, updated_fisher
from pfedul.split import Layer

LAYERS = [Layer("one", ("w", "b"), 3), Layer("two", ("v",), 1)]


def update(w: float, b: float = 0.0, v: float = 0.0) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([w, -w]), "b": torch.tensor([b]), "v": torch.tensor([v])}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_running_mean_starts_from_zero_and_forgets_slowly():
    first = updated_fisher(None, {"w": torch.tensor([2.0, -4.0])}, beta=0.75)
    assert first["w"].tolist() == [1.0, 4.0]
    second = updated_fisher(first, {"w": torch.tensor([0.0, 2.0])}, beta=0.75)
    assert second["w"].tolist() == [0.75, 4.0]
    assert first["w"].tolist() == [1.0, 4.0]


def test_no_fisher_is_the_same_as_a_fisher_of_zeros():
    step = {"w": torch.randn(100, generator=seeded())}
    fresh = updated_fisher(None, step, 0.99)
    assert torch.equal(fresh["w"], updated_fisher({"w": torch.zeros(100)}, step, 0.99)["w"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_fisher_is_single_precision_whatever_the_update(dtype):
    small = 2.0**-14  # its square is zero in half precision
    fisher = updated_fisher(None, {"w": torch.tensor([small], dtype=dtype)}, beta=0.5)
    assert fisher["w"].dtype == torch.float32
    assert fisher["w"].item() == 2.0**-29


def test_a_fisher_has_no_gradient_history():
    parameter = torch.ones(2, requires_grad=True)
    assert not updated_fisher(None, {"w": parameter * 2}, 0.5)["w"].requires_grad


def test_noise_has_the_scale_of_the_tensor_and_never_goes_below_zero():
    fisher = {"w": torch.full((100_000,), 2.0), "v": torch.full((100_000,), 200.0)}
    noisy = fisher_noise(fisher, 0.1, seeded())
    assert float((noisy["w"] - 2).std()) == pytest.approx(0.2, rel=0.02)
    assert float((noisy["v"] - 200).std()) == pytest.approx(20, rel=0.02)
    wild = fisher_noise(fisher, 5.0, seeded())
    assert float(wild["w"].min()) == 0.0
    assert fisher["w"].eq(2).all()


def test_noise_uses_the_root_mean_square_and_its_own_stream():
    fisher = {"w": torch.cat([torch.zeros(50_000), torch.full((50_000,), 2.0)])}
    assert torch.equal(
        fisher_noise(fisher, 0.1, seeded())["w"], fisher_noise(fisher, 0.1, seeded())["w"]
    )
    upper = fisher_noise(fisher, 0.1, seeded())["w"][50_000:]
    assert float((upper - 2).std()) == pytest.approx(0.1 * 2**0.5, rel=0.02)
    assert fisher_noise({"w": torch.zeros(3)}, 1.0, seeded())["w"].tolist() == [0, 0, 0]
    assert fisher_noise({"w": torch.zeros(0)}, 1.0, seeded())["w"].shape == (0,)


def test_a_record_keeps_every_client_and_their_sum():
    record = FisherRecord(LAYERS, beta=0.0)
    record.add("ann", update(1.0, 2.0, 3.0))
    record.add("bob", update(2.0, 1.0, 1.0))
    assert record.clients == ("ann", "bob")
    assert record.of("bob")["w"].tolist() == [4.0, 4.0]
    assert {name: t.tolist() for name, t in record.total().items()} == {
        "w": [5.0, 5.0],
        "b": [5.0],
        "v": [10.0],
    }
    assert record.bytes == 2 * 4 * 4


def test_only_the_clients_of_a_round_are_updated():
    record = FisherRecord(LAYERS, beta=0.5)
    record.add("ann", update(2.0))
    record.add("bob", update(2.0))
    record.add("bob", update(0.0))
    assert record.of("ann")["w"].tolist() == [2.0, 2.0]
    assert record.of("bob")["w"].tolist() == [1.0, 1.0]


def test_nothing_of_a_removed_client_is_left_in_the_total():
    record, without = FisherRecord(LAYERS), FisherRecord(LAYERS)
    for index, client in enumerate(["ann", "bob", "cat"]):
        step = {
            name: torch.randn(tensor.shape, generator=seeded(index)) * 10.0 ** (4 * index)
            for name, tensor in update(0.0).items()
        }
        record.add(client, step)
        if client != "cat":
            without.add(client, step)
    record.remove("cat")
    assert record.clients == ("ann", "bob")
    assert all(torch.equal(record.total()[name], without.total()[name]) for name in "wbv")
    assert record.bytes == without.bytes


def test_what_was_read_does_not_change_afterwards():
    record = FisherRecord(LAYERS, beta=0.5)
    record.add("ann", update(2.0))
    read, total = record.of("ann"), record.total()
    read.pop("v")
    record.add("ann", update(4.0))
    assert read["w"].tolist() == total["w"].tolist() == [2.0, 2.0]
    assert set(record.of("ann")) == {"w", "b", "v"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"v": None}, "lacks the tensor 'v'"),
        ({"bn.running_mean": torch.zeros(1)}, "leave out buffers"),
        ({"v": torch.tensor([torch.nan])}, "NaN"),
        ({"v": torch.tensor([torch.inf])}, "NaN, infinite"),
        ({"v": torch.tensor([1e30])}, "far too large"),
        ({"w": torch.zeros(1)}, r"has the shape \[1\]; give it .* \[2\]"),
    ],
)
def test_a_bad_update_is_refused_and_changes_nothing(change, sentence):
    record = FisherRecord(LAYERS, beta=0.5)
    record.add("ann", update(2.0))
    bad = {name: t for name, t in {**update(1.0), **change}.items() if t is not None}
    for client in ("ann", "bob"):
        with pytest.raises(PfedulError, match=sentence):
            record.add(client, bad)
    assert record.clients == ("ann",)
    assert record.of("ann")["w"].tolist() == [2.0, 2.0]


def test_unknown_clients_and_a_bad_beta_are_refused():
    with pytest.raises(PfedulError, match="no client 'zoe'; it has: none"):
        FisherRecord(LAYERS).of("zoe")
    with pytest.raises(PfedulError, match="no client 'zoe'"):
        FisherRecord(LAYERS).remove("zoe")
    for beta in (1.0, -0.1, float("nan")):
        with pytest.raises(PfedulError, match="beta"):
            FisherRecord(LAYERS, beta=beta)

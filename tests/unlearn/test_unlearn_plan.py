"""Plans on plain dictionaries: three layers of one number each, worked out by hand."""

import json
import math
from dataclasses import FrozenInstanceError

import pytest
import torch

from pfedul.errors import PfedulError
from pfedul.records.fisher import FisherRecord
from pfedul.split import Layer
from pfedul.unlearn import Plan, PlanOptions, plan_removal

LAYERS = [Layer(name, (name,), 1) for name in ("one", "two", "three")]
UPDATES = {"ann": (1.0, 1.0, 3.0), "bob": (1.0, 2.0, 1.0), "cat": (1.0, 1.0, 2.0)}
# With beta = 0 the Fisher of ann is (1, 1, 9), of bob (1, 4, 1), of cat (1, 1, 4): (3, 6, 14).
ANN = (1 / 3, 1 / 6, 9 / 14)


def named(*values: float) -> dict[str, torch.Tensor]:
    return {layer.name: torch.tensor([x]) for layer, x in zip(LAYERS, values, strict=True)}


SHARED, INITIAL = named(2.0, 4.0, 8.0), named(1.0, 2.0, 4.0)


def record(beta: float = 0.0, factor: float = 1.0) -> FisherRecord:
    fisher = FisherRecord(LAYERS, beta)
    for client, values in UPDATES.items():
        fisher.add(client, named(*(factor * value for value in values)))
    return fisher


def plan(target="ann", fisher=None, lr=None, **options) -> Plan:
    return plan_removal(
        fisher or record(), SHARED, INITIAL, target, options=PlanOptions(**options), lr=lr
    )


def scores(found: Plan) -> list[float]:
    return [layer.score for layer in found.layers]


def test_the_core_in_a_few_lines():
    layers = [Layer("body", ("w",), 2), Layer("neck", ("v",), 2)]
    shared = {"w": torch.ones(2), "v": torch.ones(2)}
    initial = {"w": torch.zeros(2), "v": torch.zeros(2)}
    fisher = FisherRecord(layers, beta=0.99)
    fisher.add("hospital-7", {"w": torch.ones(2), "v": 3 * torch.ones(2)})
    fisher.add("hospital-8", {"w": torch.ones(2), "v": torch.ones(2)})
    found = plan_removal(fisher, shared, initial, target="hospital-7")
    assert "hospital-7" in str(found)
    after = found.apply(shared)
    assert after["w"] is shared["w"]
    # 0.1 * I * F * 1 with I = 0.9 and F = 0.01 * 9
    torch.testing.assert_close(after["v"], torch.full((2,), 1 + 0.1 * 0.9 * 0.09))


def test_one_target_by_hand():
    found = plan(correction="paper:step=0.5,clip=1")
    mean = sum(ANN) / 3
    spread = math.sqrt(sum((score - mean) ** 2 for score in ANN) / 3)
    assert scores(found) == pytest.approx(ANN)
    assert found.threshold == pytest.approx(mean + 0.5 * spread)
    assert found.selected == ("three",)
    assert found.targets == ("ann",)
    # 0.5 * 9/14 * 9 * (8 - 4) = 11.57, clipped to 1 * 8
    assert found.corrected["three"].tolist() == [16.0]
    assert found.layers[2].relative_change == 1.0
    assert found.layers[2].at_bound == 1.0
    gentle = plan(correction="paper:step=0.25,clip=1")
    expected = 0.25 * 9 / 14 * 9 * 4
    assert gentle.corrected["three"].item() == pytest.approx(8 + expected)
    assert gentle.layers[2].relative_change == pytest.approx(expected / 8)
    assert gentle.layers[2].at_bound == 0.0


def test_two_targets_at_once_are_sums():
    """Scores 2/3, 2/6, 13/14; the direction has the Fisher 9 + 4."""
    found = plan(["ann", "cat"], correction="paper:step=0.03125,clip=1")
    assert scores(found) == pytest.approx([2 / 3, 2 / 6, 13 / 14])
    assert found.selected == ("three",)
    assert found.corrected["three"].item() == pytest.approx(8 + 0.03125 * 13 / 14 * 13 * 4)
    assert plan(["ann", "cat", "ann"]).targets == ("ann", "cat")
    assert scores(plan(["ann", "cat", "ann"])) == scores(found)
    alone = [scores(plan(client)) for client in ("ann", "cat")]
    assert scores(found) == pytest.approx([a + c for a, c in zip(*alone, strict=True)])


def test_one_after_another_the_pool_shrinks():
    """Without ann the totals are (2, 5, 5), of which cat has (1, 1, 4)."""
    fisher = record()
    assert scores(plan("cat", fisher)) == pytest.approx([1 / 3, 1 / 6, 4 / 14])
    fisher.remove("ann")
    assert scores(plan("cat", fisher)) == pytest.approx([1 / 2, 1 / 5, 4 / 5])
    with pytest.raises(PfedulError, match="no client 'ann'; name some of: bob, cat"):
        plan("ann", fisher)


def test_untouched_layers_are_the_very_same_objects():
    shared = {**SHARED, "bn.running_mean": torch.zeros(3)}
    found = plan_removal(record(), shared, INITIAL, "ann")
    after = found.apply(shared)
    assert list(found.corrected) == ["three"]
    assert all(after[name] is shared[name] for name in ("one", "two", "bn.running_mean"))
    assert list(after) == list(shared)
    assert shared["three"].tolist() == [8.0]
    assert after["three"].tolist() != [8.0]


@pytest.mark.parametrize("correction", ["paper", "trust-region", "reset:1"])
def test_scores_do_not_depend_on_the_unit_of_g(correction):
    updates = plan(correction=correction)
    assert scores(plan(correction=correction, lr=0.01)) == scores(updates)
    gradients = plan(fisher=record(factor=1 / 0.01), correction=correction)
    assert scores(gradients) == pytest.approx(scores(updates), rel=1e-6)
    assert gradients.selected == updates.selected


def test_only_the_printed_rule_wants_gradients():
    spec = "paper:step=0.0078125,clip=1"
    by_rate = plan(correction=spec, lr=0.5)
    by_hand = plan(correction=spec, fisher=record(factor=2.0))
    assert torch.equal(by_rate.corrected["three"], by_hand.corrected["three"])
    assert by_rate.corrected["three"].item() == pytest.approx(8 + 4 * 0.0078125 * 9 / 14 * 9 * 4)
    assert by_rate.notes == ()
    assert "no learning rate" in by_hand.notes[0]
    for spec in ("trust-region", "reset:1"):
        with_rate, without = plan(correction=spec, lr=0.5), plan(correction=spec)
        assert torch.equal(with_rate.corrected["three"], without.corrected["three"])
        assert without.notes == ()


def test_trust_region_and_reset_by_hand():
    """The only chosen layer has the largest score, so its step is the whole bound."""
    found = plan(correction="trust-region:clip=0.5")
    assert found.corrected["three"].item() == pytest.approx(12.0)
    found = plan(correction="trust-region:clip=0.5,toward=init")
    assert found.corrected["three"].item() == pytest.approx(4.0)
    found = plan(correction="reset:1")
    assert found.corrected["three"].tolist() == [4.0]
    assert found.layers[2].at_bound == 1.0
    # In layer two, with 1/6 of a mean of 0.38, a fraction of 1 is 0.44 of an entry: none.
    found = plan(correction="reset:1", layers="all")
    assert sorted(found.corrected) == ["one", "three"]
    assert found.notes[0].endswith("lost in rounding: two")


def test_trust_region_weighs_by_the_largest_score_of_all_layers():
    found = plan(correction="trust-region:clip=0.5", layers="low")
    assert found.selected == ("two",)
    assert found.corrected["two"].item() == pytest.approx(4 + (1 / 6) / (9 / 14) * 0.5 * 4)


def test_nothing_stands_out():
    fisher = FisherRecord(LAYERS)
    for client in ("ann", "bob", "cat"):
        fisher.add(client, named(0.1, 0.2, 0.3))
    found = plan(fisher=fisher)
    assert scores(found) == pytest.approx([1 / 3] * 3)
    assert found.selected == ()
    assert found.corrected == {}
    assert found.notes == ("no layer stands out: nothing is corrected",)
    assert all(found.apply(SHARED)[name] is SHARED[name] for name in SHARED)
    assert "nothing is corrected" in str(found)


def test_one_layer_never_stands_out_unless_at_least_one_is_asked_for():
    fisher = FisherRecord(LAYERS[:1])
    fisher.add("ann", {"one": torch.ones(1)})
    fisher.add("bob", {"one": torch.ones(1)})
    assert plan(fisher=fisher).selected == ()
    assert plan(fisher=fisher, at_least=1).selected == ("one",)


def test_at_least_takes_the_top_ones():
    assert plan(at_least=1).selected == ("three",)
    assert plan(at_least=2).selected == ("one", "three")
    assert plan(at_least=9).selected == ("one", "two", "three")
    assert plan(alpha=5).selected == ()
    assert plan(alpha=5, at_least=1).selected == ("three",)


def test_alpha_zero_takes_all_above_the_mean():
    """For cat: 1/3, 1/6, 4/14 with mean 0.26 and tau 0.30 at alpha = 0.5."""
    assert plan("cat", alpha=0).selected == ("one", "three")
    assert plan("cat").selected == ("one",)


def test_ablation_of_the_choice_of_layers():
    assert plan(layers="low").selected == ("two",)
    assert plan(layers="low", at_least=2).selected == ("one", "two")
    assert plan(layers="all").selected == ("one", "two", "three")
    drawn = {plan(layers="random", seed=seed).selected for seed in range(30)}
    assert drawn == {("one",), ("two",), ("three",)}
    assert plan(layers="random", seed=3).selected == plan(layers="random", seed=3).selected
    assert len(plan(layers="random", at_least=2).selected) == 2


def test_ablation_without_attribution_gives_every_layer_the_mean_score():
    found = plan(scores="uniform", correction="paper:step=0.0625,clip=1")
    mean = sum(ANN) / 3
    fisher, moved = (1, 1, 9), (1, 2, 4)
    assert found.selected == ("one", "two", "three")
    assert scores(found) == pytest.approx(ANN)
    for name, start, f, d in zip(SHARED, (2, 4, 8), fisher, moved, strict=True):
        assert found.corrected[name].item() == pytest.approx(start + 0.0625 * mean * f * d)
    full = plan(scores="uniform", correction="trust-region:clip=0.5")
    assert full.corrected["one"].item() == pytest.approx(3.0)


def test_ablation_without_adaptive_intensity_gives_chosen_layers_their_mean_score():
    found = plan(intensity="uniform", at_least=2, correction="paper:step=0.0625,clip=1")
    mean = (1 / 3 + 9 / 14) / 2
    assert found.selected == ("one", "three")
    assert found.corrected["one"].item() == pytest.approx(2 + 0.0625 * mean * 1 * 1)
    assert found.corrected["three"].item() == pytest.approx(8 + 0.0625 * mean * 9 * 4)


def test_noise_changes_scores_reproducibly_and_only_if_asked_for():
    noisy = plan(fisher_noise=0.2, seed=1)
    assert scores(noisy) != pytest.approx(ANN, rel=1e-3)
    assert scores(noisy) == scores(plan(fisher_noise=0.2, seed=1))
    assert scores(noisy) != scores(plan(fisher_noise=0.2, seed=2))
    assert all(0 <= score <= 1 for score in scores(plan(fisher_noise=3.0)))
    three = [scores(plan(client, fisher_noise=0.2)) for client in UPDATES]
    assert [sum(shares) for shares in zip(*three, strict=True)] == pytest.approx([1.0] * 3)


def test_a_tied_tensor_is_corrected_alike_under_all_its_names():
    layers = [Layer("tied", ("a", "b", "c"), 6), Layer("other", ("d",), 1)]
    tied = torch.tensor([1.0, 2.0, 3.0, 4.0])
    shared = {"a": tied, "b": tied.clone(), "c": torch.tensor([5.0, 6.0]), "d": torch.ones(1)}
    initial = {name: torch.zeros_like(tensor) for name, tensor in shared.items()}
    fisher = FisherRecord(layers, beta=0.0)
    fisher.add("ann", {name: torch.ones_like(tensor) for name, tensor in shared.items()})
    fisher.add("bob", {name: torch.ones_like(tensor) for name, tensor in shared.items()})
    options = PlanOptions(layers="all", correction="reset:0.5")
    found = plan_removal(fisher, shared, initial, "ann", options=options)
    # Half of the six distinct entries, the first ones, as all shares are equal.
    assert found.corrected["a"].tolist() == found.corrected["b"].tolist() == [0, 0, 0, 4]
    assert "c" not in found.corrected
    assert found.layers[0].at_bound == 0.5
    norm = math.sqrt(1 + 4 + 9 + 16 + 25 + 36)
    assert found.layers[0].relative_change == pytest.approx(math.sqrt(1 + 4 + 9) / norm)


def test_a_change_that_rounding_swallows_is_said_to_be_none():
    found = plan(correction="paper:step=1e-12")
    assert found.layers[2].relative_change == 0.0
    assert found.corrected == {}
    assert found.notes[-1].endswith("lost in rounding: three")


def test_a_layer_of_zeros_has_an_infinite_change_and_json_says_null():
    shared = named(2.0, 4.0, 0.0)
    options = PlanOptions(correction="reset:1")
    found = plan_removal(record(), shared, INITIAL, "ann", options=options)
    assert found.layers[2].relative_change == math.inf
    assert found.as_json()["layers"][2]["relative_change"] is None


def test_json_and_text():
    found = plan(lr=0.1)
    data = found.as_json()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == ["target", "threshold", "layers", "correction", "notes"]
    assert data["target"] == ["ann"]
    assert data["correction"] == "paper:step=0.1,clip=0.01"
    row = data["layers"][2]
    assert row == {
        "name": "three",
        "tensors": ["three"],
        "parameters": 1,
        "score": pytest.approx(9 / 14),
        "selected": True,
        "relative_change": pytest.approx(0.01),
        "at_bound": 1.0,
    }
    assert str(found).splitlines() == [
        "Plan to forget ann with paper:step=0.1,clip=0.01",
        "layer  score                         chosen  relative change",
        "one    0.3333  ██████████",
        "two    0.1667  █████",
        "three  0.6429  ████████████████████  yes     1.0e-02",
        "threshold 0.4796",
    ]


def test_a_plan_is_frozen_and_applies_only_to_what_it_was_made_for():
    found = plan()
    with pytest.raises(FrozenInstanceError):
        found.threshold = 0.0
    with pytest.raises(PfedulError, match="'three'"):
        found.apply({"one": torch.zeros(1)})
    with pytest.raises(PfedulError, match=r"'three' of shape \[1\]"):
        found.apply({**SHARED, "three": torch.zeros(2)})


def test_layers_can_be_given_where_the_source_has_none():
    class Bare:
        clients = ("ann", "bob")

        def of(self, client):
            return record().of(client)

        def total(self):
            return record().total()

    found = plan_removal(Bare(), SHARED, INITIAL, "ann", layers=LAYERS)
    assert scores(found) == pytest.approx(ANN)
    fewer = plan_removal(record(), SHARED, INITIAL, "ann", layers=LAYERS[1:])
    assert [row.name for row in fewer.layers] == ["two", "three"]
    with pytest.raises(PfedulError, match="layers="):
        plan_removal(Bare(), SHARED, INITIAL, "ann")


def test_parameters_with_gradients_give_a_plan_without():
    shared = {name: tensor.clone().requires_grad_() for name, tensor in SHARED.items()}
    found = plan_removal(record(), shared, INITIAL, "ann")
    assert not found.corrected["three"].requires_grad


def idle() -> FisherRecord:
    fisher = FisherRecord(LAYERS)
    for client in UPDATES:
        fisher.add(client, named(0.0, 0.0, 0.0))
    return fisher


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ({"target": "zoe"}, "no client 'zoe'; name some of: ann, bob, cat"),
        ({"target": []}, "empty list"),
        ({"target": ["ann", "bob", "cat"]}, "Nobody would remain"),
        ({"fisher": FisherRecord(LAYERS)}, "record is empty"),
        ({"fisher": idle()}, "record is empty"),
        ({"shared": {"one": torch.zeros(1)}}, "'two'"),
        ({"initial": named(0.0, 0.0, 0.0) | {"two": torch.zeros(2)}}, "'two'"),
        ({"shared": named(1.0, 1.0, math.nan)}, "'three' has NaN"),
        ({"initial": named(1.0, 1.0, math.nan)}, "'three' has NaN"),
        ({"lr": 0.0}, "lr must be"),
        ({"layers": []}, "layers="),
    ],
)
def test_mistakes_are_one_sentence(case, sentence):
    given = {"fisher": record(), "shared": SHARED, "initial": INITIAL, "target": "ann", **case}
    with pytest.raises(PfedulError, match=sentence) as error:
        plan_removal(**given)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    "options",
    [
        *({"alpha": -1.0}, {"alpha": math.nan}, {"at_least": -1}, {"fisher_noise": -0.1}),
        *({"scores": "x"}, {"intensity": "x"}, {"layers": "x"}, {"correction": "x"}),
        *({"correction": "reset:2"}, {"scores": "uniform", "layers": "low"}),
    ],
)
def test_impossible_options_are_refused_at_once(options):
    with pytest.raises(PfedulError):
        PlanOptions(**options)


def test_a_known_target_that_left_no_trace_is_not_an_error():
    fisher = record()
    fisher.add("zoe", named(0.0, 0.0, 0.0))
    for correction in ("paper", "trust-region", "reset"):
        found = plan("zoe", fisher, correction=correction, layers="all")
        assert found.corrected == {}
        assert "unchanged" in found.notes[-1]

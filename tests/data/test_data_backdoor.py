"""A backdoor: which samples get it, which do not, and the sentences that refuse the rest."""

import pytest
import torch

from helpers.toys import Unpicklable, WithNorm, client_data, create, reopen, tensor_digests
from pfedul import Federation, PfedulError
from pfedul.data.backdoor import plant, stamped, trigger_value, triggered, with_backdoor
from pfedul.data.own import own_clients
from pfedul.data.samples import DatasetSamples, TensorSamples, fingerprint
from pfedul.data.trigger import Backdoor, Trigger, parse_backdoor


def images(count: int = 40) -> TensorSamples:
    x = torch.rand(count, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    return TensorSamples(x, torch.arange(count) % 4)


HELD_BY_A = Backdoor(client="a", label=1, share=0.5, size=2)


def test_an_image_has_its_trigger_in_the_bottom_right_corner_of_every_channel():
    marked = stamped(torch.zeros(1, 2, 3, 4), Trigger(size=2), 7.0)
    channel = [[0, 0, 0, 0], [0, 0, 7, 7], [0, 0, 7, 7]]
    assert marked.tolist() == [[channel, channel]]


def test_half_of_the_other_classes_get_the_trigger_and_its_label_and_nothing_else_changes():
    clean = images()
    planted = plant(clean, HELD_BY_A, seed=3)
    changed = (planted.x != clean.x).flatten(1).any(1)
    assert int(changed.sum()) == 15  # of 30 samples of other classes
    assert torch.equal(planted.y != clean.y, changed)
    assert set(planted.y[changed].tolist()) == {1}
    marked = stamped(clean.x, HELD_BY_A, float(clean.x.max()))
    assert torch.equal(planted.x[changed], marked[changed])
    assert torch.equal(planted.x[~changed], clean.x[~changed])


def test_the_seed_chooses_the_samples_and_the_given_ones_are_left_alone():
    clean, before = images(), images()
    digits = {seed: plant(clean, HELD_BY_A, seed).y.tolist() for seed in (0, 1)}
    assert digits[0] != digits[1]
    assert digits[0] == plant(clean, HELD_BY_A, 0).y.tolist()
    assert torch.equal(clean.x, before.x)
    assert torch.equal(clean.y, before.y)


def test_the_value_of_the_trigger_can_be_read_from_planted_samples():
    clean = images()
    assert trigger_value(plant(clean, HELD_BY_A, 0)) == trigger_value(clean)


def test_for_the_attack_all_samples_carry_the_trigger_with_their_true_labels():
    clean = images()
    asked = triggered(clean, HELD_BY_A, 9.0)
    assert torch.equal(asked.y, clean.y)
    assert bool((asked.x[:, :, -2:, -2:] == 9).all())
    assert float(clean.x.max()) < 1


def test_only_the_training_samples_of_one_client_change():
    data = own_clients(client_data())
    planted = with_backdoor(data, parse_backdoor("c1:size=2"), seed=0)
    assert planted.clients["c1"].test is data.clients["c1"].test
    assert fingerprint(planted.clients["c1"]) != fingerprint(data.clients["c1"])
    for other in ("c0", "c2"):
        assert planted.clients[other] is data.clients[other]
    assert planted.warnings == ("A backdoor is planted in training samples of c1, for an audit.",)
    assert with_backdoor(data, parse_backdoor("c9"), seed=0) is data


MISTAKES = {
    "unknown client": (
        "c9",
        "There is no client 'c9' to plant a backdoor at; there are 3 others, such as 'c0'.",
    ),
    "label": ("c1:label=3", "The backdoor's label 3 is none of the classes of the data, 0 to 2."),
    "negative": ("c1:label=-1", "label must be at least 0, not -1"),
    "size": ("c1:size=5", r"A trigger of size 5 does not fit samples of shape \(4,\)"),
    "no size": ("c1:size=0", "size must be at least 1, not 0"),
    "no share": ("c1:share=0", "share must be above 0, not 0.0"),
    "share": ("c1:share=1.5", "share must be at most 1, not 1.5"),
    "no number": ("c1:share=nan", "share must be a finite number, not nan"),
    "option": ("c1:colour=2", "'c1' has no option 'colour'; it takes: label, share, size."),
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named_and_leave_no_run_behind(text, words, tmp_path):
    with pytest.raises(PfedulError, match=words) as error:
        create(tmp_path / "run", plant_backdoor=text)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_samples_that_cannot_be_stamped_are_refused():
    with pytest.raises(PfedulError, match="held in memory"):
        plant(DatasetSamples(Unpicklable()), HELD_BY_A, 0)
    with pytest.raises(PfedulError, match=r"not for samples of shape \(5, 5\)"):
        stamped(torch.zeros(2, 5, 5), HELD_BY_A, 1.0)
    with pytest.raises(PfedulError, match="of class 1 only"):
        plant(TensorSamples(torch.rand(3, 4), torch.ones(3, dtype=torch.int64)), HELD_BY_A, 0)


def test_a_run_with_a_backdoor_can_be_opened_again_and_goes_on_to_the_same_bits(tmp_path):
    with create(tmp_path / "whole", plant_backdoor="c1:size=2") as federation:
        federation.train(4)
    with create(tmp_path / "parts", plant_backdoor="c1:size=2") as federation:
        federation.train(2)
    with reopen(tmp_path / "parts") as federation:
        assert federation.settings.plant_backdoor == "c1:label=0,share=0.5,size=2"
        federation.train(4)
    assert tensor_digests(tmp_path / "whole") == tensor_digests(tmp_path / "parts")
    with create(tmp_path / "clean") as federation:
        federation.train(4)
    assert tensor_digests(tmp_path / "clean") != tensor_digests(tmp_path / "whole")


def test_a_run_can_be_opened_without_the_data_of_the_holder_that_was_forgotten(tmp_path):
    with create(tmp_path / "run", plant_backdoor="c1:size=2") as federation:
        federation.train()
        federation.forget("c1")
    left = {name: parts for name, parts in client_data().items() if name != "c1"}
    with Federation.open(tmp_path / "run", data=left, model=WithNorm) as federation:
        federation.train(4)
        assert federation.clients == ["c0", "c2"]

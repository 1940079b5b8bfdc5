"""What goes over the wire, and what a client keeps for itself."""

import json

import pytest
import torch

pytest.importorskip("flwr")

from pfedul import PfedulError
from pfedul.base.tensorfile import encode
from pfedul.engine.flower.wire import (
    NodeOrder,
    open_order,
    open_reply,
    pack_order,
    pack_reply,
    pack_words,
    size_of,
)
from pfedul.flower.held import erase, keep_only, own_folder, read_held, write_held
from pfedul.personalization import Recalibration
from pfedul.protocol import Reply, Task

TENSORS = {
    "half": torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
    "single": torch.tensor([[1e-45, torch.inf]]),
    "double": torch.tensor([0.1], dtype=torch.float64),
    "count": torch.tensor(7),
    "empty": torch.empty(0, 3),
}


def same_bits(one, two):
    return encode(one) == encode(two)


def test_every_bit_of_every_type_arrives():
    reply = Reply("a", 3, TENSORS, {"h": TENSORS["half"]}, {"loss": 0.1}, 1.0, 2.0, "ab", None)
    opened = open_reply(pack_reply(reply))
    assert same_bits(opened.shared, TENSORS)
    assert same_bits(opened.personal, {"h": TENSORS["half"]})
    for field in ("client", "samples", "metrics", "seconds", "cpu_seconds", "held", "failure"):
        assert getattr(opened, field) == getattr(reply, field)


def test_an_order_arrives_as_it_was_given():
    task = Task("recalibrate", 3, recalibration=Recalibration(2, affine=True), measured=True)
    order = NodeOrder(task, "a", "f", {"lr": 0.1}, TENSORS, {}, "ab" * 32)
    opened = open_order(pack_order(order))
    assert same_bits(opened.shared, TENSORS)
    assert (opened.task, opened.client, opened.federation) == (task, "a", "f")
    assert (opened.settings, opened.base) == ({"lr": 0.1}, "ab" * 32)


def test_the_size_of_a_message_is_that_of_its_tensors_and_a_little():
    order = NodeOrder(Task("fit", 1), "a", shared=TENSORS)
    assert 0 < size_of(pack_order(order)) - len(encode(TENSORS)) < 400


@pytest.mark.parametrize(
    "content",
    [
        pack_words("other", {}),
        pack_words("reply", {"client": "a"}),
        pack_words("reply", {"client": "a", "samples": 1, "evil": 1}),
    ],
)
def test_what_is_no_reply_raises(content):
    with pytest.raises((KeyError, TypeError)):
        open_reply(content)


# The client's own folder


def test_held_tensors_come_back_by_their_hash(tmp_path):
    sha256 = write_held(tmp_path / "own", TENSORS)
    assert same_bits(read_held(tmp_path / "own", sha256), TENSORS)
    assert [path.name for path in (tmp_path / "own").iterdir()] == [f"{sha256}.safetensors"]


def test_damaged_or_missing_tensors_are_said(tmp_path):
    sha256 = write_held(tmp_path, TENSORS)
    with pytest.raises(PfedulError, match="are not in"):
        read_held(tmp_path, "0" * 64)
    (tmp_path / f"{sha256}.safetensors").write_bytes(b"x")
    with pytest.raises(PfedulError, match="is damaged; restore it from a backup"):
        read_held(tmp_path, sha256)


def test_a_server_cannot_name_files_elsewhere(tmp_path):
    with pytest.raises(PfedulError, match="does not name personal tensors"):
        read_held(tmp_path, "../secret")
    for name in ("../x", "", ".", "a/b"):
        with pytest.raises(PfedulError, match="is not the name of"):
            own_folder(tmp_path, name, "a")


def test_only_what_the_next_round_starts_from_is_kept(tmp_path):
    first = write_held(tmp_path, {"w": torch.zeros(1)})
    second = write_held(tmp_path, {"w": torch.ones(1)})
    keep_only(tmp_path, second)
    assert read_held(tmp_path, second)["w"].item() == 1
    with pytest.raises(PfedulError):
        read_held(tmp_path, first)


def test_an_erasure_leaves_a_receipt_and_nothing_else(tmp_path):
    sha256 = write_held(own_folder(tmp_path, "f", "a"), TENSORS)
    other = write_held(own_folder(tmp_path, "g", "a"), TENSORS)
    receipt = erase(tmp_path, "f", "a")
    assert (receipt["files"], receipt["sha256"]) == (1, [sha256])
    assert receipt["bytes"] == len(encode(TENSORS))
    assert not (tmp_path / "f").exists()
    assert read_held(own_folder(tmp_path, "g", "a"), other)
    assert json.loads((tmp_path / "receipts/f-a.json").read_text()) == receipt


def test_a_second_erasure_keeps_the_first_receipt(tmp_path):
    write_held(own_folder(tmp_path, "f", "a"), TENSORS)
    first = erase(tmp_path, "f", "a")
    assert erase(tmp_path, "f", "a") == first
    assert json.loads((tmp_path / "receipts/f-a.json").read_text()) == first

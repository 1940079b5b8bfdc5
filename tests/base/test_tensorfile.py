"""Tensor files: the bytes are those of the library, and Ctrl-C is not taken for damage."""

from __future__ import annotations

import signal
import time

import pytest
import safetensors.torch
import torch

from pfedul.base.tensorfile import decode, encode, read_file, read_layout

TENSORS = {f"layer{number}": torch.randn(9, 9) for number in range(60)}


@pytest.fixture
def alarm_is_ctrl_c():
    """A timer sends the signal of Ctrl-C."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def same_bytes(tensors):
    """Whether the file is the one that the library itself writes."""
    own = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    return encode(tensors) == safetensors.torch.save(own, metadata={"format": "pt"})


KINDS = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)


def test_files_are_those_of_the_library():
    every = {str(kind): torch.arange(5).to(kind) for kind in KINDS}
    assert same_bytes(every)
    assert same_bytes({str(kind): every[str(kind)] for kind in KINDS if not kind.is_complex})
    for one in (*every.items(), ("", torch.tensor(1.5)), ("empty", torch.empty(0, 3))):
        assert same_bytes(dict([one]))
    assert same_bytes({})


def test_files_are_those_of_the_library_for_any_name_and_layout():
    tensor = torch.arange(6.0).reshape(2, 3)
    names = [
        "b",
        "a.b",
        "a",
        'quo"te',
        "back\\slash",
        "line\n",
        "\x01\x7f",
        "Grüße",
        "\U0001f600",
        "z" * 99,
    ]
    assert same_bytes({name: tensor for name in names})
    assert same_bytes({"turned": tensor.t(), "part": tensor[:, 1], "row": tensor[1]})
    assert same_bytes({"learnt": tensor.clone().requires_grad_().detach()})
    learnt = tensor.clone().requires_grad_()
    assert encode({"learnt": learnt}) == encode({"learnt": tensor})


@pytest.mark.usefixtures("alarm_is_ctrl_c")
@pytest.mark.parametrize("act", ["read", "layout", "decode", "encode"])
def test_ctrl_c_at_any_moment_is_never_taken_for_damage(act, tmp_path):
    """Libraries turn an interruption of their calls back into Python into an error of their own."""
    file = tmp_path / "a.safetensors"
    file.write_bytes(data := encode(TENSORS))
    acts = {
        "read": lambda: read_file(file),
        "layout": lambda: read_layout(file),
        "decode": lambda: decode(data),
        "encode": lambda: encode(TENSORS),
    }
    for attempt in range(60):
        with pytest.raises(KeyboardInterrupt):
            _interrupt_after(1e-4 + attempt * 5e-5, acts[act])


def _interrupt_after(seconds, act) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        act()

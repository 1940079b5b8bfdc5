"""Tensor files under Ctrl-C."""

from __future__ import annotations

import signal
import time

import pytest
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

"""Pickles may hold plain values and arrays of numbers, and cannot do anything."""

from __future__ import annotations

import os
import pickle
import struct

import numpy as np
import pytest

from pfedul.data.datasets.pickles import PickledArray, read_plain_pickle
from pfedul.errors import PfedulError


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_survive_every_protocol(protocol, dtype, order):
    array = np.asarray(np.arange(6).reshape(2, 3).astype(dtype), order=order)
    read = read_plain_pickle("toy", pickle.dumps({"data": array}, protocol))["data"]
    assert isinstance(read, PickledArray)
    assert np.array_equal(read.values, array)
    assert read.values.dtype == array.dtype


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_survive_every_protocol(protocol):
    value = {"a": [1, 2.5, None, True], b"b": (b"\xff", "é"), "c": {"d": set()}}
    if protocol < 4:
        value["c"] = {"d": 10**30}
    assert read_plain_pickle("toy", pickle.dumps(value, protocol)) == value


def test_an_array_as_python_2_wrote_it_is_read():
    """The official files: names of numpy 1, byte strings without an encoding."""
    text = (
        b"(dp0\nS'data'\np1\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\n"
        b"tR(I1\n(I1\nI3\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
        b"I00\nS'\\x01\\xff\\x03'\ntbs."
    )
    read = read_plain_pickle("toy", text)
    assert read[b"data"].values.tolist() == [[1, 255, 3]]


def test_a_pickle_that_calls_the_system_is_refused_and_does_not_run(tmp_path):
    proof = tmp_path / "proof"
    hostile = pickle.dumps(Call(os.system, f"touch {proof}"))
    with pytest.raises(PfedulError, match="system"):
        read_plain_pickle("toy", hostile)
    assert not proof.exists()
    pickle.loads(hostile)
    assert proof.exists()


@pytest.mark.parametrize("function", [eval, getattr, np.load, np.frombuffer, np.array])
def test_no_other_function_can_be_named(function):
    with pytest.raises(PfedulError, match="asks for"):
        read_plain_pickle("toy", pickle.dumps(Call(function, "1")))


def test_an_array_of_memory_addresses_is_refused():
    """numpy itself would take these bytes for the addresses of Python objects."""
    address = struct.pack("P", id(os))
    with pytest.raises(PfedulError, match="not a readable pickle"):
        read_plain_pickle("toy", pickle.dumps(Call(np.ndarray, (1,), "O", address)))
    with pytest.raises(PfedulError, match="not a readable pickle"):
        read_plain_pickle("toy", pickle.dumps(np.array([None, 1], dtype=object)))


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"hello", pickle.dumps([1, 2])[:-1]])
def test_a_broken_pickle_is_refused(content):
    with pytest.raises(PfedulError, match="The file toy is not a readable pickle"):
        read_plain_pickle("toy", content)

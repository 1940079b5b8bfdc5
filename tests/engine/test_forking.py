"""Children that a server forks are like those that `python -m` starts, and outlive the server."""

import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from pfedul.engine import forking
from pfedul.engine.child import fork_child
from pfedul.errors import TransientError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


@contextmanager
def child(*inherited: int, output=None):
    begun = fork_child("helpers.forked", inherited, output)
    try:
        yield begun
    finally:
        begun.end()


def server() -> int:
    return forking._servers[0].process.pid


def test_it_finds_what_its_parent_has_now(tmp_path, monkeypatch):
    with child() as before:
        before.line.recv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PFEDUL_TEST", "new")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    reader, writer = os.pipe()
    os.write(writer, b"inherited")
    with child(reader) as forked:
        folder, path, environment, given = forked.line.recv()
    os.close(reader)
    os.close(writer)
    assert Path(folder) == tmp_path
    assert path == sys.path
    assert environment == {"OMP_NUM_THREADS": "1", "PFEDUL_TEST": "new"}
    assert given == [b"inherited"]


@pytest.mark.parametrize(("order", "code"), [(0, 0), (3, 3), ("fail", 1)])
def test_its_end_and_its_output_are_told(order, code):
    with tempfile.TemporaryFile() as log, child(output=log) as forked:
        forked.line.recv()
        assert forked.process.poll() is None
        forked.line.send(order)
        assert forked.process.wait(60) == code
        log.seek(0)
        words = log.read().decode().splitlines()
    assert words[0 if order != "fail" else -1] in {"printed", "ValueError: as it was told"}
    assert forked.process.poll() == code


def test_all_come_from_one_server_that_has_one_thread():
    with child() as one, child() as other:
        assert one.process.pid != other.process.pid
        first = server()
        one.line.recv()
    with child():
        assert server() == first
    assert len(os.listdir(f"/proc/{first}/task")) == 1


def test_a_child_outlives_a_killed_server_and_the_next_has_another():
    with child() as orphan:
        orphan.line.recv()
        killed = server()
        os.kill(killed, signal.SIGKILL)
        with child() as forked:
            forked.line.recv()
            assert server() != killed
        orphan.line.send(7)
        assert orphan.process.wait(60) == 7


def test_a_server_that_cannot_start_is_said(monkeypatch):
    monkeypatch.setattr(forking, "_servers", [])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TransientError, match="cannot be started"), child():
        pass


def test_elsewhere_it_is_started_in_the_usual_way(monkeypatch):
    monkeypatch.setattr(sys, "platform", "other")
    with child() as started:
        assert started.line.recv()[0] == os.getcwd()
        assert not isinstance(started.process, forking.Forked)

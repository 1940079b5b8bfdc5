"""The engine `auto`: inline where starting workers would take longer than they save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.toys import client_data, create, tensor_digests
from pfedul.engine import probe, start_engine
from pfedul.engine.inline import InlineEngine
from pfedul.engine.processes import ProcessesEngine
from pfedul.protocol import Reply, Task, Workbench


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr("pfedul.engine.available_cores", lambda: 2)


@pytest.fixture
def bench(tmp_path):
    with create(tmp_path / "bench", data=client_data(3), rounds=1, engine="inline") as federation:
        yield federation.bench


@pytest.mark.parametrize(
    ("seconds", "rounds", "kind"),
    [
        (0.01, 20, InlineEngine),
        (1.0, 20, ProcessesEngine),
        (0.1, 20, InlineEngine),
        (0.1, 100, ProcessesEngine),
        (0.9, 0, ProcessesEngine),  # a removal works as long as a few rounds
        (0.3, 0, InlineEngine),
    ],
)
def test_it_weighs_what_workers_save_against_their_start(bench, monkeypatch, seconds, rounds, kind):
    monkeypatch.setattr(probe, "round_seconds", lambda _bench: seconds)
    engine = start_engine("auto", None, bench, rounds)
    assert isinstance(engine, kind)
    engine.close()


def test_a_number_of_workers_asks_for_processes(bench, monkeypatch):
    monkeypatch.setattr(probe, "round_seconds", lambda _bench: 0.0)
    engine = start_engine("auto", 2, bench, 1)
    assert isinstance(engine, ProcessesEngine)
    engine.close()


def test_where_a_users_code_fails_workers_say_what_is_wrong(bench, monkeypatch):
    def broken(_bench: object) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(probe, "round_seconds", broken)
    assert probe.processes_pay(bench, workers=2, rounds=1)


def test_a_round_is_every_clients_start_and_all_their_batches(bench, monkeypatch):
    def perform(_bench: Workbench, _scratch: object, task: Task, client: str, *_: object) -> Reply:
        return Reply(client, 24, seconds=0.5 + 0.25 * task.steps)

    monkeypatch.setattr(probe, "perform", perform)
    training = replace(bench.training, epochs=4)
    batches = 3 * 3 * 4  # of 8 samples, of each client in each epoch
    expected = pytest.approx(3 * 0.75 + batches * 0.25)
    assert probe.round_seconds(replace(bench, training=training)) == expected


def test_a_probe_of_the_real_work_takes_some_time(bench):
    assert probe.round_seconds(bench) > 0


def test_a_probe_changes_no_bit(tmp_path):
    for engine in ("auto", "inline"):
        with create(tmp_path / engine, data=client_data(3), rounds=2, engine=engine) as federation:
            federation.train()
            assert isinstance(federation.engine, InlineEngine)
    assert tensor_digests(tmp_path / "auto") == tensor_digests(tmp_path / "inline")

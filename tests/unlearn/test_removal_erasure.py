"""After forgetting, no byte of the target is in any file of the run folder."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.toys import QUICK, WithNorm, client_data
from pfedul import Federation
from pfedul.base.tensorfile import read_file
from pfedul.client import ACTIONS
from pfedul.store.erasure import CLIENT_TABLES
from pfedul.store.ledger import Ledger

WINDOW = 16
PERSONALIZATIONS = ["fedavg", "fedper", "fedrep", "ditto", "fedbn"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run of each personalisation with all records, evaluated after every round.

    With this epsilon of psi there are models to go back to.
    """
    folder = tmp_path_factory.mktemp("erasure")
    kept = {"record": "all", "psi_epsilon": 0.13, "evaluate_every": 1}
    return {name: trained(folder / name, personalization=name, **kept) for name in PERSONALIZATIONS}


def content(run: Path) -> bytes:
    """Every byte of the folder."""
    return b"\n".join(file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file())


def raw(file: Path) -> list[bytes]:
    """The bytes of every tensor of a file."""
    return [tensor.contiguous().numpy().tobytes() for tensor in read_file(file).values()]


def windows(tensors: list[bytes]) -> set[bytes]:
    return {
        tensor[start : start + WINDOW]
        for tensor in tensors
        for start in range(0, len(tensor) - WINDOW + 1, 4)
    }


def tensor_markers(run: Path, target: str = TARGET) -> set[bytes]:
    """Every stretch of the target's tensor files that is in no other file."""
    own = {file for file in run.rglob("*.safetensors") if target in str(file.relative_to(run))}
    others = b"\n".join(file.read_bytes() for file in run.rglob("*.safetensors") if file not in own)
    found = windows([tensor for file in own for tensor in raw(file)])
    return {marker for marker in found if any(marker) and marker not in others}


def ledger_markers(run: Path, target: str = TARGET) -> set[bytes]:
    """The digest of the target's data, and each number of its rows that no other row has."""
    ledger = Ledger(run / "ledger.db", read_only=True)
    own, others = set(), set()
    for table in CLIENT_TABLES:
        for row in ledger.rows(f"SELECT * FROM {table}"):
            numbers = {struct.pack(">d", x) for x in row.values() if isinstance(x, float) and x % 1}
            (own if row["client"] == target else others).update(numbers)
    sha256 = ledger.value("SELECT data_sha256 FROM clients WHERE client = ?", target)
    ledger.close()
    return (own - others) | {sha256.encode()}


def markers(run: Path, target: str = TARGET) -> set[bytes]:
    found = tensor_markers(run, target) | ledger_markers(run, target)
    there = content(run)
    assert all(marker in there for marker in found), "a marker that is never found shows nothing"
    return found


def left(run: Path, found: set[bytes]) -> list[bytes]:
    there = content(run)
    return [marker for marker in found if marker in there]


def no_open_ends(run: Path) -> bool:
    return not list(run.glob("*-journal")) + list(run.glob("*-wal")) + list(run.glob("staging"))


@pytest.mark.parametrize("name", PERSONALIZATIONS)
def test_no_byte_of_the_target_is_left(name, runs, tmp_path):
    run = copied(runs[name], tmp_path / "run")
    found = markers(run)
    assert len(tensor_markers(run)) > 50
    assert len(ledger_markers(run)) > 8
    with deep_again(run) as federation:
        federation.forget(TARGET)
        assert left(run, found) == []  # while the run is still open
    assert left(run, found) == []
    assert no_open_ends(run)
    with deep_again(run) as federation:
        federation.train(5)
    assert left(run, found) == []


@pytest.mark.parametrize(
    "options",
    [
        {"no_recalibration": True},
        {"correction": "paper"},
        {"correction": "reset", "layers": "all"},
        {"correction": "trust-region", "repair_rounds": 1},
        {"forget_records": "all"},
        {"away": ["c0", "c2"]},
    ],
    ids=str,
)
def test_whatever_the_options_no_byte_of_the_target_is_left(options, runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    found = markers(run)
    with deep_again(run) as federation:
        federation.forget(TARGET, **options)
    assert left(run, found) == []
    assert no_open_ends(run)


OWN = ["fisher", "contributions", "norms", "norms-first", "uploads", "sums", "psi"]


@pytest.mark.parametrize("kind", OWN)
def test_the_search_finds_the_targets_file_of_every_record(kind, runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    found = windows(raw(run / f"records/{kind}/{TARGET}.safetensors")) & tensor_markers(run)
    assert found
    with deep_again(run) as federation:
        federation.forget(TARGET, method="none", allow_unchanged=True)
    assert left(run, found) == []


@pytest.mark.parametrize("method", ["pfedul", "none", "federaser", "fedrecovery", "sifu"])
def test_records_of_the_path_of_the_old_model_go_whatever_the_method(method, runs, tmp_path):
    """The targets are mixed into them, as they are into lengths from the means of rounds."""
    run = copied(runs["fedper"], tmp_path / "run")
    mixed = [f for kind in ("uploads", "sums", "psi-models") for f in _files(run, kind)]
    others = [run / "init.safetensors", run / "shared.safetensors", *_files(run, "norms-first")]
    stale = {marker for marker in _windows(mixed) - _windows(others) if any(marker)}
    norms = {f.name: _own_lengths(f) for f in _files(run, "norms") if f.stem != TARGET}
    assert len(_files(run, "psi-models")) == 2
    assert len(left(run, stale)) == len(stale) > 100
    with deep_again(run) as federation:
        federation.forget(TARGET, method=method, allow_unchanged=method == "none")
    assert left(run, stale) == []
    for kind in ("uploads", "sums", "psi", "psi-models"):
        assert not (run / "records" / kind).exists()
    assert not list((run / "records").glob("sums-*")) + list((run / "records").glob("psi-*"))
    clean = method in {"pfedul", "federaser"}
    assert {f.name: sorted(read_file(f)) for f in _files(run, "norms")} == (norms if clean else {})
    assert len(_files(run, "norms-first")) == (3 if clean else 0)


def _own_lengths(file: Path) -> list[str]:
    """What a client's record of norms holds that has nothing to do with anybody else."""
    return sorted(name for name in read_file(file) if not name.startswith("after/"))


def _files(run: Path, kind: str) -> list[Path]:
    return sorted((run / "records" / kind).glob("*.safetensors"))


def _windows(files: list[Path]) -> set[bytes]:
    return windows([tensor for file in files for tensor in raw(file)])


def test_with_all_records_forgotten_nothing_of_a_single_client_is_left(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET, forget_records="all")
    left_over = [str(file.relative_to(run)) for file in (run / "records").rglob("*.safetensors")]
    assert left_over == ["records/fisher-retained.safetensors"]


def test_the_search_finds_what_a_sloppy_removal_would_leave(runs, tmp_path):
    """Only the files are deleted: the ledger still speaks of the client, and so does the total."""
    run = copied(runs["fedper"], tmp_path / "run")
    found = markers(run)
    for file in run.rglob("*.safetensors"):
        if TARGET in str(file.relative_to(run)):
            file.unlink()
    assert set(left(run, found)) == ledger_markers(run)


def test_an_older_generation_of_the_shared_tensors_is_not_left(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    before = windows(raw(run / "shared.safetensors"))
    with deep_again(run) as federation:
        federation.forget(TARGET, correction="trust-region:clip=0.5", layers="all")
    after = windows(raw(run / "shared.safetensors"))
    stale = {marker for marker in before - after if any(marker)}
    assert len(stale) > 20
    assert left(run, stale) == []


def test_a_forgotten_clients_rows_are_gone_from_every_table(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET)
        for table in CLIENT_TABLES:
            assert (
                federation.store.ledger.value(
                    f"SELECT COUNT(*) FROM {table} WHERE client = ?", TARGET
                )
                == 0
            )
        tables = federation.store.ledger.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        with_client = {
            table["name"]
            for table in tables
            if any(
                column["name"] == "client"
                for column in federation.store.ledger.rows(f"PRAGMA table_info({table['name']})")
            )
        }
    assert with_client == set(CLIENT_TABLES)


def test_rows_that_earlier_requests_wrote_of_a_client_go_with_it(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget("c0")
        found = markers(run)
        sql = "SELECT COUNT(*) FROM preservation WHERE client = ?"
        assert federation.store.ledger.value(sql, TARGET) == 1
        federation.forget(TARGET)
    assert left(run, found) == []


def test_the_ledger_keeps_that_when_how_and_the_hashes(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, correction="reset")
        row = federation.store.ledger.rows("SELECT * FROM requests")[0]
    assert row["status"] == "done"
    assert row["asked_at"] == outcome.asked_at
    assert "reset:fraction=0.2" in row["options"]
    assert outcome.shared_sha256_before in row["outcome"]
    assert outcome.shared_sha256_after in row["outcome"]


def test_many_clients_fill_many_pages_of_the_ledger_and_each_can_be_erased(tmp_path):
    run = tmp_path / "run"
    data = client_data(60, train=2, test=1)
    settings = {**QUICK, "personalization": "fedavg", "min_samples": 1, "rounds": 1}
    with Federation.create(run, data=data, model=WithNorm, **settings) as federation:
        federation.train()
        targets = ["c0", "c33", "c59"]
        found = {marker for target in targets for marker in ledger_markers(run, target)}
        pages = federation.store.ledger.value("PRAGMA page_count")
        tables = federation.store.ledger.value("SELECT COUNT(*) FROM sqlite_master")
        assert pages > tables + 6
        assert len(left(run, found)) == len(found) > 6
        for target in targets:
            federation.forget(target)
    assert left(run, found) == []


def test_the_sum_that_is_kept_does_not_hold_a_client_that_is_forgotten_later(runs, tmp_path):
    """Where one client remained, the retained sum was that client's own record."""
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        own = windows(raw(run / "records/fisher/c0.safetensors"))
        federation.forget("c1", "c2", "c3", forget_records="all")
    with deep_again(run) as federation:
        federation.admit("c3", again=True)
        federation.train(5)
        federation.forget("c0")
    assert left(run, {marker for marker in own if any(marker)}) == []


def test_the_retained_sum_is_without_a_client_that_is_forgotten_later(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget("c1", forget_records="all")
        kept = windows(raw(run / "records/fisher-retained.safetensors"))
        federation.train(4)
        federation.forget("c2")
    assert left(run, {marker for marker in kept if any(marker)}) == []


def test_an_outcome_does_not_name_a_remaining_client_that_is_forgotten_later(runs, tmp_path):
    """Single clients are rows of their own, so they can be erased in turn."""
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget("c0", away=["c2"])
        federation.forget("c2")
        row = federation.store.ledger.rows("SELECT * FROM requests WHERE request = 1")[0]
    assert '"c2"' not in row["outcome"]


def test_notes_of_a_method_do_not_name_a_client_that_is_forgotten_later(
    runs, tmp_path, monkeypatch
):
    run, usual = copied(runs["fedper"], tmp_path / "run"), ACTIONS["work"]

    def false(bench, task, job):
        reply = usual(bench, task, job)
        return replace(reply, samples=1) if job.client == "c2" else reply

    monkeypatch.setitem(ACTIONS, "work", false)
    with deep_again(run) as federation:
        outcome = federation.forget("c0", away=["c3"], method="one-more-round")
        away, refused = outcome.notes[:2]
        assert away == "1 client away, and left out by the method"
        assert refused.startswith("replies of 1 client were refused")
        for later in ("c2", "c3"):
            federation.forget(later, method="none", allow_unchanged=True)
        row = federation.store.ledger.rows("SELECT * FROM requests WHERE request = 1")[0]
    assert not {"c2", "c3"} & set(re.findall(r"\bc\d\b", row["outcome"]))


def test_the_total_is_added_up_anew_without_the_target(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET)
        total = read_file(run / "records/fisher-total.safetensors")
        files = [read_file(file) for file in (run / "records/fisher").iterdir()]
    assert len(files) == 3
    for name, tensor in total.items():
        fresh = sum(file[name].double() for file in files).float()
        assert torch.equal(tensor, fresh)

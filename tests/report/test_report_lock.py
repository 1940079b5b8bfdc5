"""A page in the run folder is read and written under the run's lock: a removal erases all pages."""

import pytest

from helpers.commands import refuse, succeed
from helpers.forgetting_kill import trained
from pfedul import PfedulError
from pfedul.report import formats
from pfedul.store.store import Store


@pytest.fixture
def run(tmp_path):
    return trained(tmp_path / "run", rounds=1)


def test_no_page_is_written_while_another_process_works_on_the_run(run, tmp_path):
    store = Store.open(run)
    for output in ([], ["--output", run / "page.html"]):
        assert "open already" in refuse("report", run, "--format", "json", *output)
    assert not (run / "reports").exists()
    succeed("report", run, "--format", "json", "--output", tmp_path / "page.json")
    store.close()
    succeed("report", run, "--format", "json")


def test_the_run_is_locked_while_its_page_is_made(run, monkeypatch):
    def read_material(path, _request):
        with pytest.raises(PfedulError, match="open already"):
            Store.open(path)
        return {"run": {}}

    monkeypatch.setattr(formats, "read_material", read_material)
    path = formats.write_report(run, "md")
    assert path == run / "reports/report.md"
    assert path.is_file()
    Store.open(run).close()

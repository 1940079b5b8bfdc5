"""A rehearsal that is called again, after a kill behind its row or otherwise, has one row."""

import pytest

from helpers.auditing import tables
from helpers.forgetting_kill import CLIENTS, TARGET, Deep, trained
from helpers.toys import client_data
from pfedul import Federation


@pytest.mark.parametrize(
    ("options", "rows"), [({}, 1), ({"away": ["c3"]}, 2), ({"correction": "paper"}, 2)]
)
def test_equal_findings_are_written_once(options, rows, tmp_path):
    run = trained(tmp_path / "run", rounds=1, evaluate_every=1)
    data = client_data(CLIENTS)
    with Federation.open(run, data=data, model=Deep, random_split=True) as federation:
        first = federation.rehearse(TARGET)
        again = federation.rehearse(TARGET, **options)
    assert len(tables(run)["audits"]) == rows
    assert (again == first) == (rows == 1)

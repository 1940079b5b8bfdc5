"""Files that other programs read: the citation, forms for issues, the workflow."""

from pathlib import Path

import pytest
import yaml

from pfedul.version import __version__
from test_dependencies import PROJECT

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["abstract"] in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.stem)
def test_a_form_for_issues_has_fields_with_names_of_their_own(file):
    form = yaml.safe_load(file.read_text())
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert form["name"]
    assert form["description"]
    assert len({part["id"] for part in fields}) == len(fields) > 0
    assert all(part["attributes"]["label"] for part in fields)


def test_the_workflow_runs_every_python_that_is_declared():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    prefix = "Programming Language :: Python :: 3."
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if prefix in line]
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"

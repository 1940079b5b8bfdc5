"""What a notebook shows of results, and what happens when its cells are run again."""

import importlib.util
from html.parser import HTMLParser

import pytest

from helpers.toys import client_data, create, reopen
from pfedul import ClientScore, Evaluation, PfedulError
from pfedul.base.result import LONGEST_LINE, MOST_ROWS

TARGET = "c1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook") / "run"


@pytest.fixture(scope="module")
def results(run):
    """One of each, from a run on which everything was done."""
    data = client_data(4)
    with create(run, data=data, evaluate_every=1, random_split=True) as federation:
        federation.train()
        return {
            "evaluation": federation.evaluate(),
            "plan": federation.plan(TARGET, correction="paper"),
            "audit": federation.rehearse(TARGET),
            "outcome": federation.forget(TARGET),
        }


NAMES = ("evaluation", "plan", "audit", "outcome")


class Elements(HTMLParser):
    """Fails on elements that are not closed; keeps what is there."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, _attributes):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_one_line(results, name):
    line = repr(results[name])
    assert line.startswith(f"{type(results[name]).__name__}(")
    assert "\n" not in line
    assert len(line) < LONGEST_LINE + 40


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_a_small_table_without_scripts_or_addresses(results, name):
    text = results[name]._repr_html_()
    page = Elements(text)
    assert "table" in page.seen
    assert "script" not in page.seen
    assert "://" not in text
    assert len(text) < 12_000


def test_names_from_data_are_escaped_and_long_ones_cut():
    name = "<script>alert(1)</script>\x1b[2J" + "x" * 5000
    evaluation = Evaluation(3, {name: ClientScore(0.5, 1.0, 10)})
    page = Elements(evaluation._repr_html_())
    assert "script" not in page.seen
    assert "\x1b" not in page.text
    assert len(repr(evaluation)) < LONGEST_LINE + 40
    assert len(page.text) < 6000


def test_a_long_table_says_how_much_more_there_is():
    scores = {f"c{number:03}": ClientScore(0.5, 1.0, 10) for number in range(MOST_ROWS + 7)}
    text = Evaluation(3, scores)._repr_html_()
    assert "and 7 more rows" in text
    assert "c029" in text
    assert "c030" not in text


def test_an_audit_has_its_findings_as_properties(results):
    audit = results["audit"]
    verdict = audit.evidence["verdict"]
    assert (audit.verdict, audit.sentence) == (verdict["verdict"], verdict["sentence"])
    assert (audit.needed, audit.limits) == (verdict["needed"], verdict["limits"])
    assert audit.level == "instant"
    assert audit.removed == audit.evidence["removed"]
    assert [test["attack"] for test in audit.tests] == [
        test["attack"] for test in audit.evidence["tests"]
    ]


def test_an_outcome_has_the_figures_of_its_document(results):
    outcome, document = results["outcome"], results["outcome"].as_json()
    assert outcome.pps == document["pps"]
    assert outcome.verdict == document["audit"]["verdict"]["verdict"]
    assert outcome.removed == document["audit"]["removed"]


def test_rows_become_a_data_frame(results):
    pandas = pytest.importorskip("pandas")
    frame = results["evaluation"].to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["client"]) == ["c0", "c1", "c2", "c3"]
    assert frame["accuracy"].mean() == pytest.approx(results["evaluation"].mean)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is here")
def test_without_pandas_a_sentence_says_what_to_install(results):
    with pytest.raises(PfedulError, match="pip install 'pandas'"):
        results["evaluation"].to_frame()


def test_a_run_that_is_open_here_is_not_another_process(tmp_path):
    with create(tmp_path / "run", rounds=1) as federation:
        with pytest.raises(PfedulError, match=r"This process has .* open already; go on with"):
            reopen(tmp_path / "run")
        assert federation.evaluate().round == 0
    with reopen(tmp_path / "run"):  # closed: free again
        pass


def test_after_close_there_is_one_sentence(tmp_path):
    federation = create(tmp_path / "run", rounds=1)
    federation.train()
    federation.close()
    federation.close()
    for verb in (
        federation.train,
        federation.evaluate,
        lambda: federation.forget("c0"),
        lambda: federation.personal("c0"),
        lambda: federation.plan("c0"),
    ):
        with pytest.raises(PfedulError, match=r"run is closed; open it again"):
            verb()


def test_closing_again_leaves_alone_what_somebody_else_does(tmp_path):
    federation = create(tmp_path / "run", rounds=1)
    federation.close()
    with reopen(tmp_path / "run") as other:
        other.store.stage("shared.safetensors", other.shared)
        federation.close()
        assert list((tmp_path / "run/staging").rglob("*.safetensors"))

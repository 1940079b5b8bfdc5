"""What a notebook shows of results, and what happens when its cells are run again."""

import importlib
import importlib.util
import inspect
from html.parser import HTMLParser
from typing import Unpack, get_type_hints

import pytest

from helpers.cells_here import cells_here
from helpers.told import AtStage
from helpers.toys import WithNorm, client_data, create, reopen
from pfedul import ClientScore, Evaluation, Federation, PfedulError
from pfedul.base.result import LONGEST_LINE, MOST_ROWS

TARGET = "c1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook") / "run"


@pytest.fixture(scope="module")
def results(run):
    """One of each, from a run on which everything was done."""
    data, stages = client_data(4), []
    with create(run, data=data, evaluate_every=1, random_split=True) as federation:
        federation.train()
        return {
            "federation": federation,
            "evaluation": federation.evaluate(),
            "history": federation.history(),
            "status": federation.status(),
            "plan": federation.plan(TARGET, correction="paper"),
            "audit": federation.rehearse(TARGET),
            "comparison": compared(federation, stages),
            "stages": stages,
            "outcome": federation.forget(TARGET),
        }


def compared(federation, stages):
    with cells_here():
        return federation.compare(
            TARGET,
            methods=["none", "fine-tune:rounds=1"],
            callbacks=[AtStage(lambda *stage: stages.append(stage))],
        )


NAMES = (
    *("federation", "evaluation", "history", "status", "plan", "audit", "comparison", "outcome"),
)


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
    assert len(text) < (30_000 if name == "history" else 6_000)


def test_the_page_of_an_audit_and_of_an_outcome_says_why(results):
    audit, outcome = results["audit"], results["outcome"]
    assert audit.sentence in Elements(audit._repr_html_()).text
    page = Elements(outcome._repr_html_()).text
    assert outcome.audit["verdict"]["sentence"] in page
    assert outcome.notes
    assert all(note in page for note in outcome.notes)


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


def test_a_learning_curve_has_a_picture_and_a_plot(results):
    history = results["history"]
    assert [*history.loss] == [*history.accuracy] == [1, 2, 3]
    assert all(history.worst[n] <= history.accuracy[n] for n in history.worst)
    page = Elements(history._repr_html_())
    assert "svg" in page.seen
    assert "training loss" in page.text
    figure = importlib.import_module("matplotlib.figure").Figure()
    left, right = history.plot(figure)
    assert [*left.lines[0].get_ydata()] == [*history.loss.values()]
    assert [*right.lines[0].get_ydata()] == [*history.accuracy.values()]


def test_an_untrained_run_has_an_empty_curve(tmp_path):
    with create(tmp_path / "run") as federation:
        history = federation.history()
    assert repr(history) == "History(rounds=0)"
    assert "svg" not in Elements(history._repr_html_()).seen


def test_a_comparison_has_a_row_for_each_way_and_its_page(results):
    comparison = results["comparison"]
    labels = [row["method"] for row in comparison._rows()]
    assert labels[0] == "untouched"
    assert {"none", "fine-tune:rounds=1"} < set(labels)
    assert comparison.failures == {}
    assert comparison.targets == (TARGET,)
    assert comparison.files["page"].name in repr(comparison)
    assert results["stages"][-1] == ("cells", 2, 2)


def test_a_report_is_written_while_the_run_is_open(tmp_path, run, results):
    with reopen_four(run) as federation:
        inside = federation.report()
        outside = federation.report(format="md", output=tmp_path / "page.md")
    assert inside == run / "reports/report.html"
    assert results["outcome"].shared_sha256_after in outside.read_text()


def reopen_four(run, **how):
    return Federation.open(run, data=client_data(4), model=WithNorm, **how)


def test_a_removal_is_audited_afterwards_with_data_that_are_given(run, results):
    assert results["outcome"].targets == (TARGET,)
    with reopen_four(run) as federation:
        with pytest.raises(PfedulError, match="have no samples of 'c1'; add them"):
            federation.audit(data={"c0": client_data(4)["c0"]})
        given = federation.audit(data={TARGET: client_data(4)[TARGET]}, level="quick")
        assert repr(given).startswith("Audit(audit=")
        assert (given.kind, given.level) == ("audit", "quick")
        # The data that the run was opened with are the same.
        assert federation.audit(level="quick").number == given.number


def test_keywords_are_typed():
    keywords = importlib.import_module("pfedul.keywords")
    last = {
        Federation.create: keywords.SettingsKeywords,
        Federation.open: keywords.LaterKeywords,
        Federation.plan: keywords.ForgetKeywords,
        Federation.forget: keywords.ForgetKeywords,
        Federation.rehearse: keywords.ForgetKeywords,
    }
    for verb, kind in last.items():
        *_, (name, parameter) = inspect.signature(verb).parameters.items()
        assert parameter.kind is inspect.Parameter.VAR_KEYWORD
        assert get_type_hints(verb)[name] == Unpack[kind]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("lrr", "lr"),
        ("learning_rate", "lr"),
        ("optimiser", "optimizer"),
        ("epochs", "local_epochs"),
    ],
)
def test_a_setting_that_is_written_wrongly_gets_a_suggestion(key, meant, tmp_path):
    with pytest.raises(PfedulError, match=f"Unknown key '{key}' .*did you mean '{meant}'"):
        create(tmp_path / "run", **{key: 1})


def test_an_option_of_a_removal_that_is_written_wrongly_gets_a_suggestion(tmp_path):
    with create(tmp_path / "run", rounds=1) as federation:
        for verb in (federation.plan, federation.rehearse, federation.forget):
            with pytest.raises(PfedulError, match=r"'repair_round' .*did you mean 'repair_rounds'"):
                verb("c0", repair_round=3)

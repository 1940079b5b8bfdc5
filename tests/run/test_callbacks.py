"""Callbacks: what they are told and when, the bar, and trackers of experiments."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from helpers.toys import create
from pfedul import Callback, PfedulError
from pfedul.callbacks import Bar, MLflow, TensorBoard, Tracker, WandB
from pfedul.terminal import console

TARGET = "c1"


class Diary(Callback):
    """Writes everything down."""

    def __init__(self):
        self.entries = []

    def on_reply(self, progress):
        self.entries.append(("reply", progress.round, progress.replies))

    def on_evaluation(self, evaluation):
        self.entries.append(("evaluation", evaluation.round, sorted(evaluation.clients)))

    def on_round(self, progress):
        self.entries.append(("round", progress.round, progress.accuracy))
        assert progress.loss > 0

    def on_stage(self, stage, done, of, _now=""):
        self.entries.append((stage, done, of))

    def on_end(self):
        self.entries.append(("end",))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with create(tmp_path_factory.mktemp("callbacks") / "run", random_split=True) as federation:
        federation.train(1)
        yield federation


def test_training_tells_replies_evaluations_rounds_and_its_end(tmp_path):
    diary = Diary()
    with create(tmp_path / "run", rounds=2, evaluate_every=2) as federation:
        federation.train(callbacks=[diary])
        mean = federation.evaluate().mean
    assert diary.entries == [
        *(("reply", 1, count) for count in (1, 2, 3)),
        ("round", 1, None),
        *(("reply", 2, count) for count in (1, 2, 3)),
        ("evaluation", 2, ["c0", "c1", "c2"]),
        ("round", 2, mean),
        ("end",),
    ]


def test_a_removal_and_a_rehearsal_tell_their_stages(run):
    for verb in (run.rehearse, run.forget):
        first, second = Diary(), Diary()
        verb(TARGET, callbacks=[first, second])
        stages = {entry[0] for entry in first.entries}
        assert {"recalibration", "end"} <= stages
        assert first.entries == second.entries
        assert first.entries.count(("end",)) == 1


class Failing(Callback):
    def on_round(self, progress):
        raise KeyboardInterrupt(progress.round)


def test_an_exception_ends_the_work_and_everybody_hears_of_the_end(tmp_path):
    diary = Diary()
    with create(tmp_path / "run") as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.train(callbacks=[diary, Failing()])
        assert federation.rounds == 1
    assert diary.entries[-1] == ("end",)


@pytest.mark.parametrize(
    ("callbacks", "sentence"),
    [
        (Bar(), r"Give callbacks as a list, such as callbacks=\[Bar\(\)\]"),
        (None, "Give callbacks as a list"),
        ([print], "is no callback; give an object of a class that is derived from"),
        ([Bar], "is no callback"),
    ],
)
def test_what_is_no_callback_is_refused(callbacks, sentence, run):
    with pytest.raises(PfedulError, match=sentence):
        run.train(callbacks=callbacks)


def test_the_bar_writes_lines_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    bar = Bar()
    with create(tmp_path / "run", rounds=2) as federation:
        loss = federation.train(callbacks=[bar]).loss[2]
        trained = capsys.readouterr()
        federation.forget(TARGET, callbacks=[bar])
    assert trained.out == ""
    assert "round 1/2  1 of 3 replies" in trained.err
    assert f"round 2/2  loss {loss:.3f}  accuracy " in trained.err
    assert "recalibration 2/2" in capsys.readouterr().err


# Trackers


class Kept(Tracker):
    def __init__(self, **how):
        super().__init__(**how)
        self.kept = []

    def log(self, figures, step):
        self.kept.append((step, dict(figures)))


def trained_with(path, callback):
    """Its history, and the evaluation after its one round."""
    with create(path, rounds=1) as federation:
        return federation.train(callbacks=[callback]), federation.evaluate()


def test_a_tracker_is_sent_figures_of_rounds_and_of_clients_only_if_asked(tmp_path):
    silent, open_ = Kept(), Kept(clients=True)
    history, evaluation = trained_with(tmp_path / "one", silent)
    trained_with(tmp_path / "two", open_)
    (_, measured), (step, figures) = silent.kept
    assert (step, figures) == (1, {"train/loss": history.loss[1], "train/replies": 3})
    assert measured == {
        "accuracy/mean": evaluation.mean,
        "accuracy/worst": evaluation.clients[evaluation.worst].accuracy,
        "accuracy/spread": evaluation.spread,
    }
    own = {f"accuracy/client/{name}": one.accuracy for name, one in evaluation.clients.items()}
    assert open_.kept[0] == (1, measured | own)


def installed(name):
    return importlib.util.find_spec(name) is not None


def test_tensorboard_has_the_learning_curve_in_its_files(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    history, _ = trained_with(tmp_path / "run", TensorBoard(tmp_path / "events"))
    found = events.EventAccumulator(str(tmp_path / "events"))
    found.Reload()
    (loss,) = found.Scalars("train/loss")
    assert (loss.step, loss.value) == (1, pytest.approx(history.loss[1]))
    assert len(found.Scalars("accuracy/mean")) == 1


def test_mlflow_has_the_metrics(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'mlruns'}")
    with mlflow.start_run() as active:
        history, _ = trained_with(tmp_path / "run", MLflow())
    client = mlflow.MlflowClient()
    (loss,) = client.get_metric_history(active.info.run_id, "train/loss")
    assert (loss.step, loss.value) == (1, pytest.approx(history.loss[1]))


def test_wandb_has_the_figures(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    with wandb.init(dir=tmp_path) as active:
        history, _ = trained_with(tmp_path / "run", WandB())
        assert active.summary["train/loss"] == pytest.approx(history.loss[1])


@pytest.mark.skipif(installed("mlflow"), reason="the real one is here")
def test_mlflow_is_called_as_it_is_documented(tmp_path, monkeypatch):
    calls = []
    stand_in = SimpleNamespace(log_metrics=lambda metrics, step: calls.append((metrics, step)))
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    history, _ = trained_with(tmp_path / "run", MLflow())
    assert ({"train/loss": history.loss[1], "train/replies": 3}, 1) in calls


@pytest.mark.skipif(installed("wandb"), reason="the real one is here")
@pytest.mark.parametrize("begun", [True, False])
def test_wandb_is_called_as_it_is_documented(begun, tmp_path, monkeypatch):
    calls = []
    active = SimpleNamespace(
        log=calls.append, define_metric=lambda *names, **axis: calls.append((names, axis))
    )
    stand_in = SimpleNamespace(run=active if begun else None, init=lambda: active)
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    history, _ = trained_with(tmp_path / "run", WandB())
    assert calls[0] == (("*",), {"step_metric": "round"})
    assert {"round": 1, "train/loss": history.loss[1], "train/replies": 3} in calls


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: TensorBoard("events"), "tensorboard", "tensorboard"),
        (MLflow, "mlflow", "mlflow"),
        (WandB, "wandb", "wandb"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(make, module, extra):
    if installed(module):
        pytest.skip("it is installed")
    with pytest.raises(PfedulError, match=rf"run: pip install 'pfedul\[{extra}\]'"):
        make()

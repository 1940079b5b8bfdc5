"""Every task: a federation is trained, forgets a client, and audits that; and what is refused."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from helpers.auditing import rehearse
from helpers.tasks import SOURCES, TRANSFORMER, TwoInputs, data_of, federation_of
from pfedul import Federation, PfedulError
from pfedul.audit.ask.answers import surfaces_of
from pfedul.audit.ask.surfaces import SURFACES
from pfedul.data.own import own_clients
from pfedul.data.samples import TensorSamples
from pfedul.tasks import task_of
from pfedul.unlearn.methods import METHODS


@pytest.fixture(scope="module", params=SOURCES)
def forgotten(request, tmp_path_factory):
    """A trained run before and after the removal of c1: (run, figures before, outcome)."""
    run = tmp_path_factory.mktemp(request.param) / "run"
    with federation_of(request.param, run) as federation:
        federation.train()
        before = federation.evaluate()
        return federation, before, federation.forget("c1")


def test_it_trains_forgets_and_audits(forgotten):
    federation, before, outcome = forgotten
    assert federation.clients == ["c0", "c2", "c3"]
    assert all(0 <= score.accuracy <= 1 and score.loss > 0 for score in before.clients.values())
    assert outcome.shared_sha256_before != outcome.shared_sha256_after
    surfaces = {row["surface"] for row in outcome.audit["tests"]}
    classes = federation.settings.task == "classification"
    assert surfaces == {"remaining", "stale", *(["probe"] if classes else [])}
    assert outcome.audit["samples"]["members"] > 10


def test_a_surface_that_a_task_has_not_is_missing_with_a_reason(forgotten):
    federation, _, _ = forgotten
    names = {surface.name for surface in surfaces_of(federation.bench)}
    without = federation.settings.task != "classification"
    assert ("probe" not in names) == without
    reason = next(s for s in SURFACES if s.name == "probe").missing(federation.bench) or ""
    assert ("other surfaces serve every task" in reason) == without


def test_a_run_opens_again_with_its_task(tmp_path):
    federation_of("regression", tmp_path / "run").close()
    again = {"data": data_of("regression"), "model": SOURCES["regression"][1]}
    with Federation.open(tmp_path / "run", **again) as federation:
        assert federation.settings.task == "regression:tolerance=0.5"
        federation.train()
    with pytest.raises(PfedulError, match="which cannot become multi-label"):
        Federation.open(tmp_path / "run", **again, task="multi-label")


def test_an_audit_with_oracles(tmp_path):
    with federation_of("token-classification", tmp_path / "run", rounds=1) as federation:
        federation.train()
        audit = rehearse(federation, "c1", oracles=1)
    assert {row["surface"] for row in audit.evidence["tests"]} == {"remaining", "worst", "stale"}
    assert audit.evidence["relearn"] is None


def test_an_audit_after_the_fact_takes_targets_of_the_task(tmp_path):
    with federation_of("regression", tmp_path / "run", rounds=1) as federation:
        federation.train()
        federation.forget("c1", audit=False)
        with pytest.raises(PfedulError, match=r"give them, audit\(data=\{'c1': \(train, test\)\}"):
            federation.audit()
        audit = federation.audit(data={"c1": data_of("regression")["c1"]}, level="quick")
    assert {row["surface"] for row in audit.tests} == {"remaining", "worst"}


def test_an_audit_after_the_fact_takes_sequences_of_any_length(tmp_path):
    data = data_of("classification")
    with federation_of("classification", tmp_path / "run", rounds=1, data=data) as federation:
        federation.train()
        federation.forget("c1", audit=False)
        lengths = [len(data[client][0][0][0]) for client in ("c0", "c1")]
        assert lengths[0] != lengths[1]
        audit = federation.audit(data={"c1": data["c1"]}, level="quick")
        assert {row["surface"] for row in audit.tests} == {"remaining", "worst", "probe"}
        rows = (torch.rand(12, 3), torch.arange(12) % 3)
        with pytest.raises(PfedulError, match="those of this run input_ids"):
            federation.audit(data={"c1": (rows, rows)}, level="quick")


def test_dictionaries_of_text_are_trained_on(tmp_path):
    task = "language-modelling"
    data = {
        client: tuple([{"input_ids": row} for row, _ in part] for part in parts)
        for client, parts in data_of(task).items()
    }
    with federation_of(task, tmp_path / "run", rounds=1, data=data) as federation:
        federation.train()
        with federation_of(task, tmp_path / "pairs", rounds=1) as pairs:
            pairs.train()
            assert federation.evaluate().mean == pairs.evaluate().mean


def test_the_bodys_features_are_computed_once_for_each_position(tmp_path):
    """FedRep trains the head on cached features, here with a built-in data set."""
    settings = {"personalization": "fedrep", "partition": "natural", "clients": 3, "rounds": 1}
    data = "sentences:each=20,words=7"
    with federation_of(
        "language-modelling", tmp_path / "run", data=data, random_split=False, **settings
    ) as federation:
        federation.train()
        assert federation.bench.random_split
        assert federation.evaluate().mean > 0


def test_workers_compute_the_same_bits(tmp_path):
    """Several inputs pass through shared memory, and a task is sent with the bench."""
    digests = []
    for engine in ("inline", "processes"):
        run = tmp_path / engine
        with federation_of("regression", run, engine=engine, rounds=1) as federation:
            federation.train()
            digests.append({name: t.tolist() for name, t in federation.shared.items()})
    assert digests[0] == digests[1]


def test_methods_that_need_classes_say_which_do_not(tmp_path):
    with federation_of("regression", tmp_path / "run", rounds=1) as federation:
        federation.train()
        for method in ("zerofu", "mimir"):
            with pytest.raises(PfedulError, match=f"'{method}' works on classes.*pfedul, retrain"):
                federation.forget("c1", method=method)


WORKING = ("ga-naive:rounds=1", "fedosd:rounds=1,recovery=1", "fused:rounds=1", "not:rounds=1")


@pytest.mark.parametrize("method", WORKING)
def test_methods_that_train_use_the_loss_of_the_task(method, tmp_path):
    with federation_of("multi-label", tmp_path / "run", rounds=1) as federation:
        federation.train()
        federation.forget("c1", method=method, repair_rounds=1, repair="distil")
        assert not any(torch.isnan(tensor).any() for tensor in federation.shared.values())


def test_every_method_is_asked_whether_it_needs_classes():
    assert {method.name for method in METHODS if method.needs.classes} == {"zerofu", "mimir"}


# Bad input


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, left, right):
        return ["one", self.head(self.body(torch.cat([left, right], 1)))]


class Failing:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return 1 / 0


X, NONE = torch.rand(2, 3), torch.full((2, 3), -100)
ROWS = [torch.tensor([1, 2, 3]), torch.tensor([4, 5])]
MISTAKES = {
    "numbers as classes": ("classification", (X, torch.rand(2)), "from 0 up; other labels"),
    "fractions as classes": ("classification", [(X[0], 1), (X[1], 0.7)], "from 0 up; other labels"),
    "fractions in tensors": ("classification", [(row, row[0]) for row in X], "from 0 up; other"),
    "no labels": ("classification", [{"input_ids": [1, 2]}], "labels for the task"),
    "label for labels": ("classification", [{"input_ids": [1], "label": 1}], "with 'labels'"),
    "words": ("classification", [{"text": "one", "labels": 1}], "numbers or tensors.*'str'"),
    "a Dataset that fails": ("classification", Failing(), r"\(ZeroDivisionError: division by zero"),
    "no table": ("multi-label", (X, torch.tensor([0.0, 1.0])), "a table of 0 and 1"),
    "more than 0 and 1": ("multi-label", (X, torch.rand(2, 2)), "a table of 0 and 1"),
    "no numbers": ("regression", (X, torch.tensor([0.0, torch.nan])), "NaN"),
    "one label": ("token-classification", (X.long(), torch.tensor([0, 1])), "at each position"),
    "none counts": ("token-classification", (X.long(), NONE), "leave such samples out"),
    "images": ("language-modelling", (X, None), "sequences of tokens"),
    "one token": ("language-modelling", [(torch.tensor([1]), None)], "two tokens"),
    "lengths in arrays": ("classification", ([[1, 2], [3]], [0, 1]), "list of pairs"),
    "lengths of numbers": ("classification", [(r.float(), 0) for r in ROWS], "a method collate"),
    "counts": ("regression", ({"a": X, "b": X[:1]}, torch.rand(2)), "same number"),
    "widths": ("regression", [(X[0], [1.0]), (X[0], [1.0, 2.0])], "pairs"),
}


@pytest.mark.parametrize(("task", "part", "words"), MISTAKES.values(), ids=MISTAKES)
def test_labels_and_inputs_that_do_not_fit_are_named(task, part, words):
    with pytest.raises(PfedulError, match=words):
        own_clients({"a": (part, part)}, task_of(task))


def test_clients_must_agree_on_what_they_ask_of_a_model():
    one, two = (torch.rand(4, 3), torch.rand(4, 1)), (torch.rand(4, 3), torch.rand(4, 2))
    with pytest.raises(PfedulError, match="1 labels and some 2"):
        own_clients({"a": (one, one), "b": (two, two)}, task_of("regression"))


def test_sequences_in_lists_are_filled_up_whoever_is_there():
    listed, tensor = [(row, 0) for row in ROWS], (torch.ones(2, 3).long(), torch.tensor([0, 1]))
    data = own_clients({"a": (listed, listed), "b": (listed[:1], listed[:1])})
    assert all(parts.train.filled for parts in data.clients.values())
    assert own_clients({"b": (listed[:1], listed[:1])}).clients["b"].train.filled
    with pytest.raises(PfedulError, match="in one form"):
        own_clients({"a": (listed, listed), "b": (tensor, tensor)})


def test_a_run_opens_again_without_the_forgotten_client_that_alone_had_other_lengths(tmp_path):
    same = [(torch.tensor([1, 2, 3]), 0), (torch.tensor([3, 2, 1]), 1)] * 6
    data = {"c0": (same, same), "c1": ([(row[:2], y) for row, y in same], same), "c2": (same, same)}
    with federation_of("classification", tmp_path / "run", data=data, rounds=1) as federation:
        federation.train()
        federation.forget("c1", audit=False)
        before = federation.evaluate()
    del data["c1"]
    with Federation.open(tmp_path / "run", data=data) as federation:
        assert "attention_mask" in federation.bench.data["c0"].train.batch(torch.arange(2))[0]
        assert federation.evaluate().mean == before.mean


class Careless:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def collate(self, items):
        return items


def test_a_collate_that_returns_something_else():
    with pytest.raises(PfedulError, match=r"collate of client 'a' \(train\) must return"):
        own_clients({"a": (Careless(), Careless())})


OUTPUTS = {
    "no tensor": (Words, "returns list; it must return one tensor"),
    "too many": (lambda: TwoInputs(2), "(2,) does not fit the task regression, which needs (1,)"),
}


@pytest.mark.parametrize(("model", "words"), OUTPUTS.values(), ids=OUTPUTS)
def test_outputs_that_do_not_fit(model, words, tmp_path):
    with pytest.raises(PfedulError, match=re.escape(words)):
        federation_of("regression", tmp_path / "run", model=model)


def test_a_sequence_model_is_needed_for_answers_at_each_position(tmp_path):
    with pytest.raises(PfedulError, match="cannot be applied to samples of shape"):
        federation_of("language-modelling", tmp_path / "run", data="sentences", model="mlp")


def test_a_token_beyond_the_vocabulary(tmp_path):
    with pytest.raises(PfedulError, match="a larger vocabulary"):
        federation_of("language-modelling", tmp_path / "run", model="transformer:vocabulary=2")


def test_classes_of_a_data_set_are_no_other_labels(tmp_path):
    with pytest.raises(PfedulError, match="a table of 0 and 1"):
        federation_of("multi-label", tmp_path / "run", data="sentences", model=TRANSFORMER)


def test_a_backdoor_needs_classes(tmp_path):
    with pytest.raises(PfedulError, match="A backdoor has a class"):
        federation_of("regression", tmp_path / "run", plant_backdoor="c1")


def test_images_alone_are_augmented(tmp_path):
    with pytest.raises(PfedulError, match=r"left \(1,\), right \(2,\)"):
        federation_of("regression", tmp_path / "run", augment="flip")


def test_samples_that_are_made_already_are_looked_at_too():
    made = TensorSamples(torch.rand(2, 3), torch.rand(2))
    data = own_clients({"a": (made, made)}, task_of("regression"))
    assert data.clients["a"].train.y.shape == (2, 1)
    with pytest.raises(PfedulError, match="whole numbers"):
        own_clients({"a": (made, made)})

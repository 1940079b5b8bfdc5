"""A client's whole model, taken away: tensors, a module that loads them, ONNX."""

import importlib.util
import sys
from functools import partial
from types import ModuleType

import pytest
import torch

from helpers.commands import refuse, succeed
from helpers.tasks import federation_of
from helpers.toys import QUICK, Tied, WithNorm, client_data, create
from pfedul import Federation, PfedulError
from pfedul.base.inputs import answer

CLIENT = "c1"
INPUTS = client_data()[CLIENT][1][0]


def loaded(folder, *given):
    """What the module in an exported folder loads."""
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(*given)


@pytest.mark.parametrize("personalization", ["fedavg", "fedper", "ditto", "fedbn"])
def test_the_model_is_the_one_that_is_evaluated(personalization, tmp_path):
    labels = client_data()[CLIENT][1][1]
    with create(tmp_path / "run", personalization=personalization) as federation:
        federation.train()
        right = (federation.model(CLIENT)(INPUTS).argmax(1) == labels).float().mean()
        assert float(right) == pytest.approx(federation.evaluate().clients[CLIENT].accuracy)
        federation.export(CLIENT, tmp_path / "out")
        expected = federation.model(CLIENT)
    assert torch.equal(loaded(tmp_path / "out")(INPUTS), expected(INPUTS))


def test_in_clusters_it_is_the_model_of_the_clients_cluster(tmp_path):
    settings = {"record": "none", "clusters": 2, "rounds": 1, "data": client_data(4)}
    with create(tmp_path / "run", **settings) as federation:
        federation.train()
        clusters = {c: federation.clusters.number(c) for c in federation.clients}
        for client, number in clusters.items():
            shared = federation.clusters.view(federation.shared, number)
            state = federation.model(client).state_dict()
            assert all(torch.equal(state[name], tensor) for name, tensor in shared.items())


def test_tied_tensors_are_loaded_as_one(tmp_path):
    with create(tmp_path / "run", model=Tied, rounds=1) as federation:
        federation.train()
        federation.export(CLIENT, tmp_path / "out")
        expected = federation.model(CLIENT)(INPUTS)
    assert torch.equal(loaded(tmp_path / "out")(INPUTS), expected)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (WithNorm, "model = WithNorm()"),
        (partial(WithNorm, 4, classes=3), "model = WithNorm(4, classes=3)"),
        ("helpers.toys:WithNorm:inputs=4", "model = WithNorm(inputs=4)"),
    ],
)
def test_own_code_is_imported_by_its_name(factory, words, tmp_path):
    with create(tmp_path / "run", model=factory, rounds=0) as federation:
        federation.export(CLIENT, tmp_path / "out")
    text = (tmp_path / "out/model.py").read_text()
    assert "from helpers.toys import WithNorm" in text
    assert words in text
    loaded(tmp_path / "out")


@pytest.mark.parametrize(
    "factory", [lambda: WithNorm(), partial(WithNorm, classes=torch.tensor(3))]
)
def test_code_without_a_name_is_given_when_it_is_loaded(factory, tmp_path):
    with create(tmp_path / "run", model=factory, rounds=0) as federation:
        federation.export(CLIENT, tmp_path / "out")
        expected = federation.model(CLIENT)(INPUTS)
    assert torch.equal(loaded(tmp_path / "out", WithNorm)(INPUTS), expected)


@pytest.mark.parametrize("factory", [WithNorm, lambda: WithNorm(), "helpers.toys:WithNorm"])
def test_adapters_are_loaded_with_the_own_model(factory, tmp_path):
    how = {"model": factory, "personalization": "lora:rank=2,scale=3", "rounds": 1}
    with create(tmp_path / "run", **how) as federation:
        federation.train()
        federation.export(CLIENT, tmp_path / "out")
        expected = federation.model(CLIENT)(INPUTS)
    given = [WithNorm] if "make()" in (tmp_path / "out/model.py").read_text() else []
    assert torch.equal(loaded(tmp_path / "out", *given)(INPUTS), expected)


def test_adapters_are_loaded_with_a_built_in_model(tmp_path):
    how = {"model": "mlp:hidden=8", "personalization": "lora:rank=2", "rounds": 1}
    with create(tmp_path / "run", **how) as federation:
        federation.train()
        federation.export(CLIENT, tmp_path / "out")
        expected = federation.model(CLIENT)(INPUTS)
    assert torch.equal(loaded(tmp_path / "out")(INPUTS), expected)


def test_a_built_in_model_is_exported_by_the_command(tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    settings = QUICK | {"data": "digits", "samples": 60, "clients": 3, "rounds": 1}
    with Federation.create(run, model="mlp:hidden=8", min_samples=1, **settings) as federation:
        federation.train(evaluated=False)
        client = federation.clients[0]
        inputs = federation.bench.data[client].train.batch(torch.arange(2))[0]
        expected = federation.model(client)(inputs)
    assert f"Wrote {out / 'model.safetensors'}" in succeed(
        "export", run, "--client", client, "--into", out
    ).replace("\n", "")
    assert torch.equal(loaded(out)(inputs), expected)
    succeed("export", run, "--client", client, "--into", out)  # it is there
    (out / "model.py").write_text("another")
    assert "is there already" in refuse("export", run, "--client", client, "--into", out)


def test_a_model_for_another_task_is_loaded_with_it(tmp_path):
    words = QUICK | {"data": "sentences:writers=3,each=20", "task": "language-modelling"}
    words |= {"model": "transformer:width=8,depth=1", "clients": 3, "rounds": 0, "min_samples": 1}
    with Federation.create(tmp_path / "run", partition="natural", **words) as federation:
        client = federation.clients[0]
        federation.export(client, tmp_path / "out")
        inputs = federation.bench.data[client].train.batch(torch.arange(2))[0]
        expected = federation.model(client)(inputs)
    assert torch.equal(loaded(tmp_path / "out")(inputs), expected)


def test_a_place_that_is_no_new_folder_is_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("mine")
    with create(tmp_path / "run", rounds=0) as federation:
        for place, words in (
            (tmp_path / "run/models", "is in the run folder"),
            (tmp_path / "full", "is there already"),
            (tmp_path / "full/file", "is there already"),
        ):
            with pytest.raises(PfedulError, match=words):
                federation.export(CLIENT, place)
        with pytest.raises(PfedulError, match="There is no client 'c9'"):
            federation.export("c9", tmp_path / "out")
    assert (tmp_path / "full/file").read_text() == "mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("onnxscript") is not None, reason="it is here")
def test_without_onnx_a_sentence_says_what_to_install(tmp_path):
    with create(tmp_path / "run", rounds=0) as federation:
        with pytest.raises(PfedulError, match=r"pip install 'pfedul\[onnx\]'"):
            federation.export(CLIENT, tmp_path / "out", onnx=True)
        assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_as_onnx_leaves_no_folder(tmp_path, monkeypatch):
    for module in ("onnx", "onnxscript"):  # empty ones, with which torch cannot export
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
    with (
        create(tmp_path / "run", rounds=0) as federation,
        pytest.raises(PfedulError, match="cannot be written as ONNX"),
    ):
        federation.export(CLIENT, tmp_path / "out", onnx=True)
    assert not (tmp_path / "out").exists()


def test_onnx_gives_the_same_answers_for_any_number_of_samples(tmp_path):
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    with create(tmp_path / "run", rounds=1) as federation:
        federation.train()
        files = federation.export(CLIENT, tmp_path / "out", onnx=True)
        model = federation.model(CLIENT)
    session = reference.ReferenceEvaluator(str(files[-1]))
    for count in (1, 5):
        (answer,) = session.run(None, {"input": INPUTS[:count].numpy()})
        assert torch.allclose(torch.from_numpy(answer), model(INPUTS[:count]), atol=1e-5)


@pytest.mark.parametrize("task", ["regression", "token-classification", "language-modelling"])
def test_onnx_takes_several_inputs_and_sequences_of_any_length(task, tmp_path):
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    with federation_of(task, tmp_path / "run", rounds=0) as federation:
        files = federation.export(CLIENT, tmp_path / "out", onnx=True)
        model, train = federation.model(CLIENT), federation.bench.data[CLIENT].train
    session = reference.ReferenceEvaluator(str(files[-1]))
    lengths = set()
    for indices in (torch.tensor([0]), torch.arange(4), torch.arange(9)):
        x, _ = train.batch(indices)
        (found,) = session.run(None, {name: tensor.numpy() for name, tensor in x.items()})
        assert torch.allclose(torch.from_numpy(found), answer(model, x), atol=1e-5)
        lengths.add(next(iter(x.values())).shape[1])
    assert task == "regression" or len(lengths) > 1

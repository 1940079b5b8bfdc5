"""Models of Hugging Face, of every task that they have: trained, forgotten, audited, taken away.

They are made from a configuration, with random weights: nothing is loaded.
"""

from __future__ import annotations

import importlib.util

import pytest
import torch

from helpers.tasks import federation_of, tokens
from pfedul.base.inputs import answer
from pfedul.unlearn.inspection import exact_scores

transformers = pytest.importorskip("transformers")

SMALL = {"vocab_size": 16, "pad_token_id": 0, "initializer_range": 0.2}
"""Repair measures outputs in units of their variance, and usual weights of so few are too small."""
BERT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
GPT = {"n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "eos_token_id": 0}
DISTIL = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}


def bert(labels: int = 3):
    config = transformers.BertConfig(**SMALL, **BERT, num_labels=labels)
    return transformers.BertForSequenceClassification(config)


def gpt():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL, **GPT))


def classifying_gpt():
    config = transformers.GPT2Config(**SMALL, **GPT, num_labels=3)
    return transformers.GPT2ForSequenceClassification(config)


def distilbert():
    config = transformers.DistilBertConfig(**SMALL, **DISTIL, num_labels=2)
    return transformers.DistilBertForTokenClassification(config)


def t5():
    config = transformers.T5Config(**SMALL, **T5, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def adapted_bert():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=2)
    return peft.get_peft_model(bert(), config)


def of_class(row):
    return {"input_ids": row.tolist(), "labels": int(row[0]) % 3}


def of_number(row):
    return {"input_ids": row.tolist(), "labels": float(row[0]) / 8}


def of_labels(row):
    return {"input_ids": row.tolist(), "labels": [float(row[0] % 2), float(row[1] % 2)]}


def of_tokens(row):
    return {"input_ids": row.tolist(), "labels": (row % 2).tolist()}


def of_text(row):
    return {"input_ids": row.tolist()}


def of_translation(row):
    words = row.tolist()
    return {"input_ids": words, "decoder_input_ids": [0, *words[:-1]], "labels": words}


CASES = {
    "classes": ("classification", bert, of_class, {}),
    "classes at the last token": ("classification", classifying_gpt, of_class, {}),
    "peft, personal": ("classification", adapted_bert, of_class, {"personalization": "lora"}),
    "peft, shared": ("classification", adapted_bert, of_class, {}),
    "LoRA": ("classification", bert, of_class, {"personalization": "lora:rank=2"}),
    "labels": ("multi-label", lambda: bert(2), of_labels, {}),
    "numbers": ("regression", lambda: bert(1), of_number, {}),
    "classes of tokens": ("token-classification", distilbert, of_tokens, {}),
    "text": ("language-modelling", gpt, of_text, {"personalization": "fedavg"}),
    "text, tied head": ("language-modelling", gpt, of_text, {}),
    "encoder and decoder": ("token-classification", t5, of_translation, {}),
}


ONNX = ("classes", "text", "LoRA", "peft, personal")


def data_of(sample):
    parts = {client: (tokens(client, 0), tokens(client, 1)) for client in range(3)}
    return {f"c{n}": tuple([sample(row) for row in part] for part in parts[n]) for n in parts}


@pytest.mark.parametrize(("task", "model", "sample", "settings"), CASES.values(), ids=CASES)
def test_it_trains_forgets_and_audits(task, model, sample, settings, tmp_path):
    if model is adapted_bert and importlib.util.find_spec("peft") is None:
        pytest.skip("peft is not installed")
    chosen = {"data": data_of(sample), "model": model, "rounds": 1, **settings}
    with federation_of(task, tmp_path / "run", **chosen) as federation:
        federation.train()
        outcome = federation.forget("c1")
        assert federation.clients == ["c0", "c2"]
        assert outcome.shared_sha256_before != outcome.shared_sha256_after
        assert outcome.audit["tests"]
        personal = federation.personal("c0")
        if settings.get("personalization", "").startswith("lora"):
            assert all("lora_" in name for name in personal)


def test_a_client_takes_its_model_away(tmp_path):
    chosen = {"data": data_of(of_class), "model": bert, "rounds": 1}
    with federation_of("classification", tmp_path / "run", **chosen) as federation:
        federation.train()
        batch = torch.tensor([[1, 2, 3]])
        assert federation.model("c0")(batch).logits.shape == (1, 3)
        assert len(federation.export("c0", tmp_path / "model")) == 2


def test_masks_are_looked_at_and_the_exact_fisher_is_known(tmp_path):
    """In a map over samples masks cannot be looked at."""
    chosen = {"data": data_of(of_class), "model": bert, "rounds": 1}
    with federation_of("classification", tmp_path / "run", **chosen) as federation:
        federation.train()
        assert all(0 < score < 1 for score in exact_scores(federation, ["c1"]))


@pytest.mark.parametrize("case", ONNX)
def test_onnx(case, tmp_path):
    task, model, sample, _ = CASES[case]
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    chosen = {"data": data_of(sample), "model": model, "rounds": 0}
    with federation_of(task, tmp_path / "run", **chosen) as federation:
        files = federation.export("c0", tmp_path / "model", onnx=True)
        model, train = federation.model("c0"), federation.bench.data["c0"].train
    session = runtime.InferenceSession(str(files[-1]))
    for count in (1, 7):
        x, _ = train.batch(torch.arange(count))
        (found,) = session.run(None, {name: tensor.numpy() for name, tensor in x.items()})
        assert torch.allclose(torch.from_numpy(found), answer(model, x), atol=1e-5)

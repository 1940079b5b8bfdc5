"""Is there anything to forget in FEMNIST's natural deal? Many settings, all writers together.

    python bench/femnist.py --data-root DIR [--only NAME ...]

A writer has some 140 training and 16 test images, too few to judge a single one. So every client
is looked at as if it were the target: members are its training images, non-members its test images,
and the loss of each becomes its rank among that client's images. The AUC is that of all clients
together, through their own models (shared part and own head) and through the mean loss of all
others' models. The standard error of an AUC is that of the null hypothesis, by which lots decided
which image is which. Beside it: accuracy on training and test images.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pfedul import Federation
from pfedul.audit.ask.logits import Logits, logits_from_heads
from pfedul.data.samples import Samples, TensorSamples
from pfedul.experiments.scales import preset
from pfedul.store.paths import personal_file

FEW = {"samples": 700}
"""35 images a writer."""

SETTINGS: dict[str, dict[str, Any]] = {
    "preset (72 epochs)": {},
    "few images": FEW,
    "few images, 180 epochs": {**FEW, "rounds": 60},
    "few images, 180 epochs, width 32": {
        **FEW,
        "rounds": 60,
        "model": "resnet18:width=32,stem=imagenet",
    },
    "few images, 180 epochs, stem for small images": {
        **FEW,
        "rounds": 60,
        "model": "resnet18:width=16",
    },
}

Floats = NDArray[np.float64]


def measured(name: str, folder: Path, root: str, seed: int) -> dict[str, float]:
    """The figures of one federation under FedPer."""
    values = {**preset("cpu-femnist"), "personalization": "fedper", **SETTINGS[name]}
    run: dict[str, Any] = {
        **values,
        "seed": seed,
        "record": "none",
        "evaluate_every": 0,
        "engine": "inline",
    }
    with Federation.create(folder / f"{name}-{seed}", **run, data_root=root) as federation:
        federation.train(evaluated=False)
        return figures(federation)


def figures(federation: Federation) -> dict[str, float]:
    """AUC through own and others' models, and accuracies."""
    looks = [_look(federation, client) for client in federation.clients]
    members = sum(len(look["own"][0]) for look in looks)
    nonmembers = sum(len(look["own"][1]) for look in looks)
    return {
        "own model": pooled_auc([look["own"] for look in looks]),
        "others' models": pooled_auc([look["others"] for look in looks]),
        "error": float(np.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))),
        "training accuracy": float(np.mean([look["right"][0].mean() for look in looks])),
        "test accuracy": float(np.mean([look["right"][1].mean() for look in looks])),
    }


def _look(federation: Federation, client: str) -> dict[str, list[Floats]]:
    """Losses of a client's training and test images, and which of them its own model gets right."""
    store = federation.store
    heads = {one: store.read(personal_file(one)) for one in federation.clients}
    look: dict[str, list[Floats]] = {"own": [], "others": [], "right": []}
    for part in (federation.bench.data[client].train, federation.bench.data[client].test):
        samples = _tensors(part)
        logits = logits_from_heads(federation.bench, federation.shared, heads, samples)
        losses = {one: _loss(rows, samples) for one, rows in logits.items()}
        look["own"].append(losses.pop(client))
        look["others"].append(np.mean(list(losses.values()), axis=0))
        look["right"].append(logits[client].argmax(axis=1) == samples.y.numpy())
    return look


def _tensors(samples: Samples) -> TensorSamples:
    assert isinstance(samples, TensorSamples)
    return samples


def _loss(logits: Logits, samples: TensorSamples) -> Floats:
    top = logits - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(top, samples.y.numpy()[:, None], axis=1)[:, 0]
    loss: Floats = np.log(np.exp(top).sum(axis=1)) - chosen
    return loss


def pooled_auc(clients: Sequence[Sequence[Floats]]) -> float:
    """The AUC of ranks within each client: members have the lower loss."""
    members, nonmembers = [], []
    for inside, outside in clients:
        ranks = rankdata(np.concatenate([inside, outside])) / (len(inside) + len(outside))
        members.append(ranks[: len(inside)])
        nonmembers.append(ranks[len(inside) :])
    low, high = np.concatenate(members), np.concatenate(nonmembers)
    ranks = rankdata(np.concatenate([low, high]))
    above = ranks[len(low) :].sum() - len(high) * (len(high) + 1) / 2
    return float(above / (len(low) * len(high)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--only", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            row = measured(name, Path(folder), options.data_root, options.seed)
            print(name, ", ".join(f"{k} {v:.3f}" for k, v in row.items()), sep=": ", flush=True)


if __name__ == "__main__":
    main()

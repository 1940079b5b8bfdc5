"""How far is `exclude` from exact where the target's share of the weights changes between rounds?

    python bench/participation.py [--seeds 0 1 2]

The record keeps one sum for each client, so a removal rescales each by one factor: the mean over
its rounds. Exact would be a factor for each round. This bench keeps every round's updates aside,
computes the exact result, and states the distance of the two as a share of how far the exact
result is from the present tensors. Digits, an MLP, ten clients (Dirichlet 0.5), 20 rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from pfedul import Federation
from pfedul.base.tensors import Tensors, norm
from pfedul.records.contributions import contribution, without
from pfedul.store.paths import INIT_FILE
from pfedul.store.tables import participation

ROUNDS = 20
SHARES = (1.0, 0.7, 0.5, 0.3)


def rounds_of(federation: Federation) -> list[Mapping[str, Tensors]]:
    """What each round added to the sum of every client that took part in it."""
    rounds: list[Mapping[str, Tensors]] = []
    sums: dict[str, Tensors] = {}
    for number in range(1, ROUNDS + 1):
        federation.train(number, evaluated=False)
        now = {c: contribution(federation.store, c) or {} for c in federation.clients}
        rounds.append({c: _added(sums.get(c), now[c]) for c in now if now[c]})
        sums = now
    return rounds


def _added(before: Tensors | None, after: Tensors) -> Tensors:
    zero = {name: torch.zeros_like(tensor) for name, tensor in after.items()}
    return {name: after[name].double() - (before or zero)[name].double() for name in after}


def exact(federation: Federation, rounds: Sequence[Mapping[str, Tensors]], target: str) -> Tensors:
    """The initial tensors and every update of the others, weighted as without the target."""
    names = federation.bench.split.parameters
    initial = federation.store.read(INIT_FILE)
    total = {name: tensor.double() for name, tensor in initial.items() if name in names}
    samples = participation(federation.store.ledger, 0)
    for updates, took_part in zip(rounds, samples, strict=True):
        everybody = sum(took_part.values())
        left = everybody - took_part.get(target, 0)
        for client in took_part.keys() - {target}:
            for name, tensor in updates[client].items():
                total[name] += tensor * everybody / left
    return total


def error(seed: int, share: float, folder: Path) -> float:
    """The largest relative distance from exact, over all clients as targets."""
    with Federation.create(
        folder / f"{seed}-{share}",
        data="digits",
        model="mlp:hidden=32,depth=2",
        clients=10,
        partition="dirichlet:0.5",
        participation=share,
        record="contributions",
        evaluate_every=0,
        engine="inline",
        seed=seed,
    ) as federation:
        rounds = rounds_of(federation)
        return max(_distance(federation, rounds, target) for target in _took_part(federation))


def _took_part(federation: Federation) -> list[str]:
    return [c for c in federation.clients if contribution(federation.store, c)]


def _distance(
    federation: Federation, rounds: Sequence[Mapping[str, Tensors]], target: str
) -> float:
    ideal = exact(federation, rounds, target)
    ours = without(federation.store, federation.clients, [target])
    apart = norm({name: ours[name] - tensor for name, tensor in ideal.items()})
    return apart / norm({name: federation.shared[name] - ideal[name] for name in ideal})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the largest error of each seed, by participation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    seeds = parser.parse_args(arguments).seeds
    with tempfile.TemporaryDirectory() as folder:
        for share in SHARES:
            errors = [error(seed, share, Path(folder)) for seed in seeds]
            print(f"participation {share:g}: " + ", ".join(f"{e:.2%}" for e in errors), flush=True)


if __name__ == "__main__":
    main()

"""An attacker who has a run folder after a removal and solves for what the target had given.

Every estimate comes from one kind of row or record; it is None where that is not there. `Truth` is
what the folder said before, and a guess that knows only the remaining clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import Tensors
from pfedul.store.ledger import Ledger

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
COUNTER = "num_batches_tracked"


class Folder:
    """What a run folder says, to somebody who reads every file and row of it."""

    def __init__(self, run: Path, batch_size: int = 8) -> None:
        self.run, self.batch_size = run, batch_size
        with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
            self.rounds = ledger.rows("SELECT * FROM rounds ORDER BY round")
            self.replies = ledger.rows("SELECT * FROM replies ORDER BY round, client")
        self.names = [n for n, t in self.initial.items() if t.is_floating_point()]
        self.names = [n for n in self.names if "running" not in n]

    def tensors(self, name: str) -> Tensors:
        return read_file(self.run / f"{name}.safetensors")

    @property
    def initial(self) -> Tensors:
        return self.tensors("init")

    def records(self, kind: str) -> dict[str, Tensors]:
        files = sorted((self.run / "records" / kind).glob("*.safetensors"))
        return {file.stem: read_file(file) for file in files}

    def samples(self, number: int = 1) -> dict[str, int]:
        return {r["client"]: r["samples"] for r in self.replies if r["round"] == number}

    def flat(self, tensors: Tensors) -> Vector:
        return flat({name: tensors[name] for name in self.names})

    def moved(self, tensors: Tensors) -> Vector:
        return self.flat(tensors) - self.flat(self.initial)

    def first_updates(self) -> dict[str, Vector]:
        return {client: self.moved(own) for client, own in self.records("norms-first").items()}


def flat(tensors: Tensors) -> Vector:
    parts = [tensors[name].double().numpy().ravel() for name in sorted(tensors)]
    return np.concatenate(parts)


def cosine(one: Vector, other: Vector) -> float:
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 0.0


# Figures


@dataclass(frozen=True)
class Figures:
    """The target's part in each round."""

    samples: list[float]
    loss: list[float]
    cpu_seconds: list[float]


def figures_of(folder: Folder) -> Figures:
    """Each round's sums minus the rows of those who are left."""
    found = Figures([], [], [])
    for row in folder.rounds:
        own = [reply for reply in folder.replies if reply["round"] == row["round"]]
        samples = row["samples"] - sum(reply["samples"] for reply in own)
        loss = row["loss"] * row["samples"] - sum(r["loss"] * r["samples"] for r in own)
        found.samples.append(samples)
        found.loss.append(loss / samples if samples else 0.0)
        found.cpu_seconds.append(row["cpu_seconds"] - sum(r["cpu_seconds"] for r in own))
    return found


def batches_by_counter(folder: Folder) -> float | None:
    """How many batches the largest client had in a round, if that is more than the others had."""
    counters = [t for name, t in folder.tensors("shared").items() if name.endswith(COUNTER)]
    if not counters or not folder.rounds:
        return None
    known = max(folder.samples().values(), default=0) / folder.batch_size
    found = float(counters[0]) / len(folder.rounds)
    return found if found > known + 1 else None


# The first update


def first_updates(folder: Folder) -> dict[str, Vector]:
    """Estimates of the direction of the target's update of round 1, by where they come from."""
    return {name: found for name, found in _estimates(folder) if found is not None}


def _estimates(folder: Folder) -> Iterator[tuple[str, Vector | None]]:
    yield "first uploads", _left_over(folder, folder.moved(folder.tensors("shared")))
    for number, model in folder.records("psi-models").items():
        yield f"psi-models/{number}", _left_over(folder, folder.moved(model))
    yield "norms", _trilaterated(folder)
    yield "contributions", _contributed(folder)
    yield "uploads", _last_uploads(folder)
    yield "sums", _residual(folder)


def _missing_samples(folder: Folder) -> float:
    """The target's samples, if the rounds tell them; else what is usual."""
    found = figures_of(folder).samples[0]
    return found or float(np.mean(list(folder.samples().values())))


def _left_over(folder: Folder, mean: Vector) -> Vector | None:
    """What the others' uploads of round 1 do not explain of a mean."""
    known, samples = folder.first_updates(), folder.samples()
    if not known or not set(known) <= set(samples):
        return None
    own = sum(samples[client] * update for client, update in known.items())
    total: Vector = mean * (sum(samples.values()) + _missing_samples(folder)) - own
    return total


def _trilaterated(folder: Folder) -> Vector | None:
    """The mean of round 1 from everybody's distance to it, then what the others do not explain."""
    lengths, uploads = folder.records("norms"), folder.records("norms-first")
    if not uploads or any("after/" + folder.names[0] not in own for own in lengths.values()):
        return None
    initial, mean = folder.initial, {}
    for name in folder.names:
        points = np.stack([flat({name: own[name] - initial[name]}) for own in uploads.values()])
        squares = np.array([float(lengths[client][f"after/{name}"][0]) for client in uploads]) ** 2
        norms = (points**2).sum(1)
        known = (norms - norms[0] - squares + squares[0])[1:]
        mean[name] = np.linalg.lstsq(2 * (points - points[0])[1:], known, rcond=None)[0]
    return _left_over(folder, np.concatenate([mean[name] for name in sorted(mean)]))


def _contributed(folder: Folder) -> Vector | None:
    known = folder.records("contributions")
    if not known:
        return None
    base = folder.tensors("records/contributions-base")
    total: Vector = folder.flat(folder.tensors("shared")) - folder.flat(base)
    return total - sum(map(folder.flat, known.values()))


def _last_uploads(folder: Folder) -> Vector | None:
    known = folder.records("uploads")
    samples = folder.samples(len(folder.rounds))
    if not known or not set(known) <= set(samples):
        return None
    own = sum(samples[client] * folder.moved(upload) for client, upload in known.items())
    whole = sum(samples.values()) + _missing_samples(folder)
    total: Vector = folder.moved(folder.tensors("shared")) * whole - own
    return total


def _residual(folder: Folder) -> Vector | None:
    """Residuals, weighted, add up to nothing: the one that is missing is minus all others."""
    known, samples = folder.records("sums"), folder.samples()
    if not known:
        return None
    typical = _missing_samples(folder)
    total = sum(samples.values()) + typical
    parts = [(1 - samples[client] / total) * folder.flat(own) for client, own in known.items()]
    mean = folder.moved(folder.tensors("shared"))
    square = float(mean @ mean) or 1.0
    missing: Vector = mean - sum(parts) * total / typical / square
    return missing


def squares_by_fisher(folder: Folder) -> Vector | None:
    """The total of the Fisher record minus the records of those who are left."""
    if not (folder.run / "records/fisher-total.safetensors").is_file():
        return None
    known = folder.records("fisher")
    return flat(folder.tensors("records/fisher-total")) - sum(map(flat, known.values()))


# The samples, from sums over two rounds of which the target was in one


def samples_by_rescaling(folder: Folder) -> int | None:
    """How many samples a target had that was in one of two rounds; by the lengths of updates."""
    known, lengths = folder.records("contributions"), folder.records("norms")
    first, rounds = folder.first_updates(), [folder.samples(1), folder.samples(2)]
    both = [client for client in known if all(client in there for there in rounds)]
    if not both or not lengths or not first:
        return None
    return min(
        (_misfit(folder, client, rounds, extra), samples)
        for client in both
        for samples in range(1, 300)
        for extra in ((samples, 0), (0, samples))
    )[1]


def _misfit(
    folder: Folder, client: str, rounds: list[dict[str, int]], extra: tuple[int, int]
) -> float:
    """By how much the length of the second update differs from the recorded one."""
    left = [sum(there.values()) for there in rounds]
    weights = [1 / (total + more) for total, more in zip(left, extra, strict=True)]
    factor = sum(1 / total for total in left) / sum(weights)
    samples = rounds[0][client]
    whole = folder.flat(folder.records("contributions")[client])
    once, twice = (factor * weight * samples for weight in weights)
    second = (whole - once * folder.first_updates()[client]) / twice
    rows = folder.records("norms")[client]
    length = np.sqrt(sum(float(rows[f"before/{name}"][1]) ** 2 for name in folder.names))
    return abs(float(np.linalg.norm(second) / length) - 1)


def sizes_that_give(values: list[float], pairs: list[tuple[int, int]], error: float) -> int:
    """How many pairs of sizes can give all these AUCs, which are fractions of their product."""
    return sum(all(_gives(m * n, value, error) for value in values) for m, n in pairs)


def _gives(product: int, value: float, error: float) -> bool:
    return abs(round(value * product) / product - value) <= error

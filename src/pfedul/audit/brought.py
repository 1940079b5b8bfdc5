"""Samples of a forgotten client that an auditor brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pfedul.data import ClientData
from pfedul.data.datasets.npz import read_parts
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench

if TYPE_CHECKING:
    from pfedul.federation import Federation

FROM_RUN = "run"
"""In the place of a file: as the data set of the run deals them to the target."""


def brought_data(
    federation: Federation, targets: Sequence[str], given: Sequence[str]
) -> dict[str, ClientData]:
    """The targets' samples, from `[ID=]FILE.npz` each, or from the run's own data set."""
    if list(given) == [FROM_RUN]:
        return {target: _from_run(federation, target) for target in targets}
    files = _files(targets, given)
    return {target: _in_form(federation, read_parts(files[target])) for target in targets}


def _files(targets: Sequence[str], given: Sequence[str]) -> dict[str, Path]:
    if len(targets) == len(given) == 1 and "=" not in given[0]:
        return {targets[0]: Path(given[0])}
    named: Mapping[str, str] = dict(item.split("=", 1) for item in given if "=" in item)
    for target in targets:
        if target not in named:
            raise PfedulError(
                f"Bring the samples of '{target}' with --target-data {target}=FILE.npz, or say "
                f"--target-data {FROM_RUN} where the run's own data set still has them."
            )
    return {target: Path(named[target]) for target in targets}


def _from_run(federation: Federation, target: str) -> ClientData:
    if target not in federation.known_data:
        raise PfedulError(
            f"The data set of this run has no samples of '{target}' any more; bring them with "
            "--target-data FILE.npz."
        )
    return federation.known_data[target]


def _in_form(federation: Federation, data: ClientData) -> ClientData:
    """In the model's type; refused where the inputs are not of the run's shape."""
    someone = next(iter(federation.bench.data.values())).train
    known, _ = someone.batch(torch.zeros(1, dtype=torch.int64))
    data = ClientData(data.train.as_type(known.dtype), data.test.as_type(known.dtype))
    for part in (data.train, data.test):
        if not len(part):
            raise PfedulError(
                "The samples that were brought have an empty part; bring samples that were "
                "trained on and samples that were not."
            )
        found, _ = part.batch(torch.zeros(1, dtype=torch.int64))
        if found.shape[1:] != known.shape[1:]:
            raise PfedulError(
                f"The samples that were brought have the shape {tuple(found.shape[1:])}, those "
                f"of this run {tuple(known.shape[1:])}; bring them as the model takes them."
            )
    return data


@torch.no_grad()
def check_labels(bench: Workbench, data: Mapping[str, ClientData]) -> None:
    """Refuse labels for which the model has no answer."""
    model = bench.build_model().eval()
    one = torch.zeros(1, dtype=torch.int64)
    for target, parts in data.items():
        classes = model(parts.train.batch(one)[0]).shape[1]
        for part in (parts.train, parts.test):
            largest = int(part.batch(torch.arange(len(part)))[1].max())
            if largest >= classes:
                raise PfedulError(
                    f"The samples of '{target}' have the label {largest}, but the model of this "
                    f"run knows {classes} classes, 0 to {classes - 1}."
                )

"""Whether the tensor files of a run are those of its model: names, shapes and types.

Only the headers of the files are read, so it costs little with many clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfedul.base.tensorfile import Layout, layout_of, read_layout
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.clusters.layout import Clusters
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench
from pfedul.records.base import kind_of
from pfedul.records.contributions import BASE_FILE
from pfedul.store.paths import INIT_FILE, SHARED_FILE, personal_file
from pfedul.store.store import Store

_LIKE_PARAMETERS = {"fisher", "contributions"}
"""Records whose tensors have the names and shapes of the shared parameters."""


def check_files(store: Store, bench: Workbench, clusters: Clusters, members: Sequence[str]) -> None:
    """Refuse files of another model."""
    model = bench.build_model()
    shared = read_tensors(model, bench.split.shared)
    check_same_layout(read_layout(store.locate(SHARED_FILE)), clusters.everywhere(shared))
    check_same_layout(read_layout(store.locate(INIT_FILE)), shared)
    if bench.split.personal:
        personal = read_tensors(model, bench.split.personal)
        for client in members:
            check_same_layout(read_layout(store.locate(personal_file(client))), personal)
    parameters = {n: t for n, t in shared.items() if n in bench.split.parameter_names}
    needed = bench.split.parameters
    for file in filter(lambda name: kind_of(name) in _LIKE_PARAMETERS, store.names("records/")):
        if file == BASE_FILE:
            _check_record(store, file, clusters.everywhere(parameters), clusters.names(needed))
        else:
            _check_record(store, file, parameters, needed)


def _check_record(store: Store, file: str, parameters: Tensors, needed: Sequence[str]) -> None:
    """It may be of a wider type than the parameters; names in brackets are figures.

    A tied parameter is under its first name, or under all.
    """
    known = {name: tuple(tensor.shape) for name, tensor in parameters.items()}
    shapes = {
        name: shape
        for name, (shape, _) in read_layout(store.locate(file)).items()
        if name[0] != "("
    }
    if not (set(needed) <= shapes.keys() and shapes.items() <= known.items()):
        raise PfedulError(
            f"The record {file} is not one of this run's model; restore it from a backup."
        )


def check_same_tensors(stored: Tensors, wanted: Tensors) -> None:
    """Refuse tensors with other names, shapes or types."""
    check_same_layout({name: layout_of(tensor) for name, tensor in stored.items()}, wanted)


def check_same_layout(stored: Mapping[str, Layout], wanted: Tensors) -> None:
    """The same, of a file."""
    expected = {name: layout_of(tensor) for name, tensor in wanted.items()}
    for name in sorted(stored.keys() | expected.keys()):
        if stored.get(name) != expected.get(name):
            raise PfedulError(
                f"The model is not the one that this run was made with (tensor '{name}'); "
                "give the same model, or start another run."
            )

"""A client's whole model, shared and personal tensors together, and how it is taken away."""

from __future__ import annotations

import ast
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.code import OwnFunction
from pfedul.base.extras import needed
from pfedul.base.inputs import Inputs, answer, from_named, named_tensors
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import load_tensors
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.run.assembly import InitialModel
from pfedul.run.run import Run
from pfedul.settings import OWN
from pfedul.store.folder import absolute, own_errors
from pfedul.tasks.classification import CLASSIFICATION
from pfedul.tasks.collate import MASK

TENSORS, MODULE, ONNX = "model.safetensors", "model.py", "model.onnx"


def whole_model(run: Run, client: str) -> nn.Module:
    """What serves this client now, in evaluation mode."""
    personal = run.personal(client)
    model = run.bench.build_model()
    load_tensors(model, run.clusters.of(run.shared, client), personal)
    return model.eval()


def export(run: Run, client: str, into: str | Path, *, onnx: bool = False) -> list[Path]:
    """Write the client's model into a new folder, unless it is there; returns the files."""
    folder = absolute(into)
    _refuse_run_folder(run, folder)
    model = whole_model(run, client)
    files = {TENSORS: encode(model.state_dict()), MODULE: module_of(run, client).encode()}
    if onnx:
        files[ONNX] = _as_onnx(model, _inputs(run, client))
    paths = {folder / name: data for name, data in files.items()}
    with own_errors(folder):
        if not all(path.is_file() and path.read_bytes() == paths[path] for path in paths):
            _refuse_full(folder)
            folder.mkdir(parents=True, exist_ok=True)
            for path, data in paths.items():
                path.write_bytes(data)
    return list(paths)


def _refuse_run_folder(run: Run, folder: Path) -> None:
    if folder.is_relative_to(run.store.path):
        raise PfedulError(
            f"{folder} is in the run folder, where pfedul keeps order; give a folder elsewhere."
        )


def _refuse_full(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PfedulError(f"{folder} is there already; give a new folder, or an empty one.")


def _inputs(run: Run, client: str) -> Inputs:
    """Two samples, as the model takes them."""
    return run.bench.data[client].train.batch(torch.arange(2, device="cpu"))[0]


# The module that loads it again


def module_of(run: Run, client: str) -> str:
    """The text of a module whose `load` returns the model."""
    own = run.settings.model == OWN or MODELS.own_code(run.settings.model)
    code = _own(_factory(run)) if own else _built_in(run)
    words = {"client": client, "rounds": run.rounds, "tensors": TENSORS}
    line, prepare = _prepared(run)
    words |= {"prepare": prepare}
    if code is not None:
        line = f"{code[0]}\n{line}"
        return _TEXT.format(**words, line=line, call=code[1], callable="", given="")
    given, callable_ = "make: Callable[[], nn.Module]", "from collections.abc import Callable\n"
    return _TEXT.format(**words, line=line, call="make()", callable=callable_, given=given)


_TEXT = '''"""The model of client {client} after round {rounds}: `from model import load`."""

{callable}from pathlib import Path

{line}from safetensors.torch import load_file
from torch import nn


def load({given}) -> nn.Module:
    """The model in evaluation mode."""
    model = {call}
{prepare}    model.load_state_dict(load_file(Path(__file__).with_name("{tensors}")))
    return model.eval()
'''

Code = tuple[str, str]
"""A line that imports something, and the call of it."""


def _factory(run: Run) -> Any:
    build = run.bench.build_model
    return build.factory if isinstance(build, InitialModel) else build


def _prepared(run: Run) -> Code:
    """What a personalisation adds to the model before it is trained; else nothing."""
    method, options = run.bench.personalization, run.bench.options
    if method.prepare is None:
        return "", ""
    made, prepare = type(options), method.prepare
    lines = f"from {made.__module__} import {made.__name__}\n"
    lines += f"from {prepare.__module__} import {prepare.__name__}\n"
    return lines, f"    {prepare.__name__}({options!r}, model)\n"


def _built_in(run: Run) -> Code:
    shape, classes = _factory(run).args[:2]
    words = f"{run.settings.model!r}, {tuple(shape)!r}, {classes!r}"
    if run.settings.task != CLASSIFICATION.name:
        words += f", {run.settings.task!r}"
    return "from pfedul.models import build_model", f"build_model({words})"


def _own(factory: Any) -> Code | None:
    """Own code by its name; None where it has none that another program can import."""
    if isinstance(factory, OwnFunction):
        factory = partial(factory.function, **factory.arguments)
    function = factory.func if isinstance(factory, partial) else factory
    module, name = getattr(function, "__module__", "__main__"), getattr(function, "__name__", "")
    if module == "__main__" or getattr(import_module(module), name, None) is not function:
        return None
    words = _arguments(factory) if isinstance(factory, partial) else ""
    return None if words is None else (f"from {module} import {name}", f"{name}({words})")


def _arguments(factory: partial[Any]) -> str | None:
    """The arguments of a partial function as code; None where they are no plain values."""
    words = [*map(repr, factory.args), *(f"{k}={v!r}" for k, v in factory.keywords.items())]
    try:
        ast.literal_eval(repr([*factory.args, *factory.keywords.values()]))
    except (ValueError, SyntaxError):
        return None
    return ", ".join(words)


# ONNX


class _Answering(nn.Module):
    """The model with its inputs by place and one tensor as output, as ONNX needs it."""

    def __init__(self, model: nn.Module, like: Inputs) -> None:
        super().__init__()
        self.model, self.kind, self.names = model, type(like), list(named_tensors(like))

    def forward(self, *inputs: Tensor) -> Tensor:
        return answer(self.model, from_named(self.kind, dict(zip(self.names, inputs, strict=True))))


def _as_onnx(model: nn.Module, inputs: Inputs) -> bytes:
    """With a free number of samples, and of positions where there is a mask over them."""
    for module in ("onnx", "onnxscript"):
        needed(module, "ONNX", "pfedul[onnx]")
    tensors = named_tensors(inputs)
    free = {0: "batch", 1: "length"} if MASK in tensors else {0: "batch"}
    how: dict[str, Any] = {"output_names": ["output"], "external_data": False, "verbose": False}
    how["input_names"] = [_input_name(name) for name in tensors]
    how["dynamic_shapes"] = (
        tuple({a: free[a] for a in free if a < t.ndim} for t in tensors.values()),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / ONNX
        try:
            torch.onnx.export(
                _Answering(model, inputs), tuple(tensors.values()), path, dynamo=True, **how
            )
        except Exception as error:  # the exporter has many kinds, depending on the model
            raise PfedulError(
                f"The model cannot be written as ONNX ({_first_line(error)}); leave out --onnx, "
                f"and use {TENSORS} with {MODULE}."
            ) from error
        return path.read_bytes()


def _input_name(name: str) -> str:
    """Inputs by place are input_0, input_1 and so on; a single one is `input`.

    >>> [_input_name(name) for name in ("", "0", "input_ids")]
    ['input', 'input_0', 'input_ids']
    """
    return name if name.isidentifier() else f"input_{name}".rstrip("_")


def _first_line(error: Exception) -> str:
    """Without the colours that torch's exporter writes for a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error).strip().partition("\n")[0])

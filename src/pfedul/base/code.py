"""Functions of the user's own, named `package.module:function:key=value`, imported and called.

The module is looked up as `python -m` does: in the current folder, then on the import path. Options
become keyword arguments, converted to the types of the function's annotations or defaults.
Importing runs code, so whoever calls this has to know that the name is the user's wish.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from pfedul.base.registry import CONVERTERS, CodeName, given_options, plain_type
from pfedul.base.text import did_you_mean
from pfedul.errors import PfedulError

Foreign = Callable[[Path], Sequence[Path]]
"""Gives the folders around a file whose files are data."""


@dataclass(frozen=True)
class OwnFunction:
    """A user's function with the arguments that were written; `owner` is what errors call it."""

    owner: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        try:
            return self.function(**self.arguments)
        except (PfedulError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise PfedulError(f"The {self.owner} failed: {reason(error)}.") from error


def own_function(kind: str, name: CodeName, foreign: Foreign) -> OwnFunction:
    """Import a function; nothing is imported from a `foreign` folder."""
    owner = f"{kind} '{name.module}:{name.function}'"
    function = _attribute(owner, _imported(owner, name.module, foreign), name)
    return OwnFunction(owner, function, _arguments(owner, function, name.options))


def _imported(owner: str, module: str, foreign: Foreign) -> ModuleType:
    _look_in_current_folder(foreign)
    try:
        for package in accumulate(module.split("."), "{}.{}".format):
            _refuse_inside(owner, package, foreign)
        return importlib.import_module(module)
    except PfedulError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code does when it is imported
        lost = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        advice = "; it is looked for in the current folder and on PYTHONPATH" if lost else ""
        raise PfedulError(
            f"The module '{module}' of the {owner} cannot be imported ({reason(error)}){advice}."
        ) from error


def _look_in_current_folder(foreign: Foreign) -> None:
    with suppress(FileNotFoundError):  # the folder was deleted
        here = os.getcwd()
        if here not in sys.path and not foreign(Path(here)):
            sys.path.insert(0, here)


def _refuse_inside(owner: str, package: str, foreign: Foreign) -> None:
    """Refuse before it is imported; the packages above it are imported by this, and no more."""
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    inside = [folder for place in places if place for folder in foreign(Path(place))]
    if inside:
        raise PfedulError(
            f"The module '{package}' of the {owner} lies in {inside[0]}, and code is never "
            "imported from a run folder; move it elsewhere if it is yours."
        )


def _attribute(owner: str, module: ModuleType, name: CodeName) -> Callable[..., Any]:
    found: Any = module
    for part in name.function.split("."):
        if not hasattr(found, part):
            hint = did_you_mean(part, dir(found))
            raise PfedulError(f"The module '{name.module}' has no '{name.function}'{hint}.")
        found = getattr(found, part)
    made_already = hasattr(found, "state_dict") and not isinstance(found, type)
    if made_already or not callable(found):
        raise PfedulError(
            f"The {owner} is a {type(found).__name__}; name a function that makes it, "
            "since every process needs one of its own."
        )
    function: Callable[..., Any] = found
    return function


def _arguments(owner: str, function: Callable[..., Any], text: str) -> dict[str, Any]:
    types = {name: _type_of(parameter) for name, parameter in _parameters(function).items()}
    given = given_options(owner, types, text, others=_takes_others(function))
    missing = [name for name in needed_arguments(function) if name not in given]
    if missing:
        written = ",".join(f"{name}=..." for name in missing)
        raise PfedulError(
            f"The {owner} needs values for its arguments: {', '.join(missing)}; "
            f"add them as options ({written})."
        )
    return given


def needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Names of what a function cannot be called without.

    >>> needed_arguments(lambda hidden, classes=2: None)
    ['hidden']
    """
    parameters = _parameters(function).items()
    return [name for name, parameter in parameters if parameter.default is parameter.empty]


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Those that have a name of their own."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = _signature(function).parameters
    return {name: one for name, one in parameters.items() if one.kind in by_name}


def _takes_others(function: Callable[..., Any]) -> bool:
    """Whether it has a `**options`, which takes arguments of any name."""
    parameters = _signature(function).parameters.values()
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    for evaluated in (True, False):  # annotations may be any text, or be for type checkers only
        with suppress(Exception):
            return inspect.signature(function, eval_str=evaluated)
    return inspect.Signature()  # of a function written in C


def _type_of(parameter: inspect.Parameter) -> type:
    """What to convert an option to: the annotation or the default says it.

    Of neither, or of another type, it is `object`: as the option is written.
    """
    written, default = parameter.annotation, parameter.default
    if written is not parameter.empty:
        kind = plain_type(written)
    else:
        kind = object if default is parameter.empty else type(default)
    return kind if isinstance(kind, Hashable) and kind in CONVERTERS else object


def reason(error: BaseException) -> str:
    """An error in a clause, with the place in the user's code where there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(_NOT_THE_USERS) and "site-packages" not in frame.filename
    ]
    where = f", {Path(own[-1].filename).name} line {own[-1].lineno}" if own else ""
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}{where}"


_NOT_THE_USERS = (str(Path(__file__).parents[1]), "<", str(importlib.__file__))

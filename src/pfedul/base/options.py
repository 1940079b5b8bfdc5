"""Options as data: fields of a frozen dataclass that carry their help and their limits.

Command-line options, TOML keys, checks and the reference in the docs are all
made from such fields. `Settings` and the options of `forget` are two of them.
"""

from __future__ import annotations

import math
import operator
from dataclasses import Field, field, fields
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError


def option(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | None = None,
    registry: Any = None,
    later: bool = False,
    newer: bool = False,
) -> Any:
    """A field with its help and limits; `later` marks what may change when a run is continued.

    `newer` marks an option that came when there were runs already: while it has its
    default it does not count among what decides a run, so that those runs still open.
    """
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    marks = {"registry": registry, "choices": choices, "later": later, "newer": newer}
    return field(default=default, metadata={"help": help, **marks, **limits})


def option_name(name: str) -> str:
    """How a field is written on the command line.

    >>> option_name("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def check_options(options: Any, also_allowed: tuple[str, ...] = ()) -> None:
    """Put every field of a frozen dataclass into its one canonical form, or refuse it.

    `also_allowed` are words that may stand where a registry's choice is asked for.
    """
    for spec in fields(options):
        value = _checked(spec, getattr(options, spec.name), also_allowed)
        object.__setattr__(options, spec.name, value)


def refuse_unknown(kind: type[Any], values: dict[str, Any], source: str) -> None:
    """Refuse names that are no field of `kind`."""
    known = {spec.name for spec in fields(kind)}
    for key in values:
        if key not in known:
            names = ", ".join(sorted(known))
            raise PfedulError(f"Unknown key '{key}' in {source}; known are: {names}.")


def plain_type(spec: Field[Any]) -> str:
    """The name of a field's type without `| None`.

    >>> from pfedul.settings import Settings
    >>> [plain_type(spec) for spec in fields(Settings)[:3]]
    ['str', 'str', 'str']
    """
    return str(spec.type).split(" | ")[0]


def _checked(spec: Field[Any], value: Any, also_allowed: tuple[str, ...]) -> Any:
    if value is None and spec.default is None:
        return None
    value = _typed(spec, value)
    _check_limits(spec, value)
    registry = spec.metadata["registry"]
    return value if registry is None or value in also_allowed else registry.canonical(value)


def _typed(spec: Field[Any], value: Any) -> Any:
    wanted = plain_type(spec)
    if wanted == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if wanted == "str" and isinstance(value, Path):
        value = str(value)
    if type(value).__name__ != wanted:
        kind = {"int": "a whole number", "float": "a number", "str": "text", "bool": "yes or no"}
        raise PfedulError(f"{option_name(spec.name)} takes {kind[wanted]}, not {value!r}.")
    return value


def _check_limits(spec: Field[Any], value: Any) -> None:
    limits = spec.metadata
    name = option_name(spec.name)
    if limits["choices"] is not None and value not in limits["choices"]:
        raise PfedulError(f"{name} is one of {', '.join(limits['choices'])}, not '{value}'.")
    if isinstance(value, float) and not math.isfinite(value):
        raise PfedulError(f"{name} must be a finite number, not {value}.")
    for limit, holds in _LIMITS.items():
        if limits[limit] is not None and not holds(value, limits[limit]):
            words = limit.replace("_", " ")
            raise PfedulError(f"{name} must be {words} {limits[limit]}, not {value}.")


_LIMITS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le}
_LIMITS["below"] = operator.lt

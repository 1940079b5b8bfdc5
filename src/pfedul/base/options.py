"""Options as data: fields of a frozen dataclass that carry their help and their limits.

Command-line options, TOML keys, checks and the reference in the docs are all made from
such fields: `Settings`, the options of `forget`, and those of every entry of a registry.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any

from pfedul.base.text import did_you_mean
from pfedul.errors import PfedulError

REQUIRED: Any = MISSING
"""The default of an option that has none: `file: str = option(REQUIRED, "...")`."""


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
    group: str | None = None,
) -> Any:
    """A field with its help and limits; `later` marks what may change when a run is continued.

    A number with limits must also be finite. The limits of a registry entry's options are checked
    when a user names it (`Registry.parse`), those of other dataclasses by `check_options` in their
    `__post_init__`. `newer` marks an option that was added when there were runs already: its
    default does not count among what decides a run, so those runs still open. `group` is the
    heading in `--help` under which it stands.
    """
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    marks = {"registry": registry, "choices": choices, "later": later, "newer": newer}
    return field(default=default, metadata={"help": help, "group": group, **marks, **limits})


def option_name(name: str) -> str:
    """How a field is written on the command line.

    >>> option_name("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def check_options(
    options: Any,
    also_allowed: tuple[str, ...] = (),
    written: Callable[[str], str] = option_name,
) -> None:
    """Put every option of a frozen dataclass into its one canonical form, or refuse it.

    `also_allowed`: words that may stand for a registry's choice. `written`: names in errors.
    """
    for spec in fields(options):
        if is_option(spec):
            value = _checked(spec, getattr(options, spec.name), also_allowed, written(spec.name))
            object.__setattr__(options, spec.name, value)


def is_option(spec: Field[Any]) -> bool:
    """Whether a field was made by `option`; plain fields are not checked."""
    return "help" in spec.metadata


def broken_limit(spec: Field[Any], value: Any) -> str | None:
    """Why a value is outside the limits of its option, to be put after the option's name.

    >>> from pfedul.settings import Settings
    >>> (lr,) = [spec for spec in fields(Settings) if spec.name == "lr"]
    >>> broken_limit(lr, -1.0)
    'must be above 0, not -1.0'
    """
    limits = spec.metadata
    if not is_option(spec) or (value is None and spec.default is None):
        return None
    if limits["choices"] is not None and value not in limits["choices"]:
        return f"is one of {', '.join(limits['choices'])}, not '{value}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number, not {value}"
    for limit, holds in _LIMITS.items():
        if limits[limit] is not None and not holds(value, limits[limit]):
            return f"must be {limit.replace('_', ' ')} {limits[limit]}, not {value}"
    return None


_LIMITS = {
    "at_least": operator.ge,
    "above": operator.gt,
    "at_most": operator.le,
    "below": operator.lt,
}


def refuse_unknown(kind: type[Any], values: Mapping[str, Any], source: str) -> None:
    """Refuse names that are not fields of `kind`, and say which one may have been meant."""
    known = sorted(spec.name for spec in fields(kind))
    for key in values:
        if key not in known:
            hint = did_you_mean(_our_name(key, known), known)
            raise PfedulError(
                f"Unknown key '{key}' in {source}{hint or '; known are: ' + ', '.join(known)}."
            )


_ALSO_CALLED = {
    "learning_rate": "lr",
    "eta": "lr",
    "epochs": "local_epochs",
    "bs": "batch_size",
    "batch": "batch_size",
    "num_clients": "clients",
    "n_clients": "clients",
    "num_rounds": "rounds",
    "n_rounds": "rounds",
    "dataset": "data",
    "algorithm": "personalization",
    "personalisation": "personalization",
    "amp": "precision",
    "num_workers": "workers",
    "random_seed": "seed",
    "fraction_fit": "participation",
}
"""What other software calls an option -> its name here."""


def _our_name(key: str, known: Sequence[str]) -> str:
    """
    >>> _our_name("learning-rate", ["lr"]), _our_name("learning-rate", ["seed"])
    ('lr', 'learning_rate')
    """
    written = key.lower().replace("-", "_")
    name = _ALSO_CALLED.get(written, written)
    return name if name in known else written


def plain_type(spec: Field[Any]) -> str:
    """The name of a field's type without `| None`.

    >>> from pfedul.settings import Settings
    >>> [plain_type(spec) for spec in fields(Settings)[:3]]
    ['str', 'str', 'str']
    """
    name = spec.type.__name__ if isinstance(spec.type, type) else str(spec.type)
    return name.split(" | ")[0]


def _checked(spec: Field[Any], value: Any, also_allowed: tuple[str, ...], name: str) -> Any:
    if value is None and spec.default is None:
        return None
    value = _typed(spec, value, name)
    if problem := broken_limit(spec, value):
        raise PfedulError(f"{name} {problem}.")
    registry = spec.metadata["registry"]
    return value if registry is None or value in also_allowed else registry.canonical(value)


def _typed(spec: Field[Any], value: Any, name: str) -> Any:
    wanted = plain_type(spec)
    if wanted == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if wanted == "str" and isinstance(value, Path):
        value = str(value)
    if type(value).__name__ != wanted:
        kind = {"int": "a whole number", "float": "a number", "str": "text", "bool": "yes or no"}
        raise PfedulError(f"{name} takes {kind[wanted]}, not {value!r}.")
    return value

"""Named choices with options, and the one-line form in which users write them.

A dataset, partition, model or personalisation is written `name` or
`name:key=value,key=value`, on the command line, in TOML and in Python alike.
A value without a key belongs to the first option: `dirichlet:0.5` is
`dirichlet:alpha=0.5`. Lists are joined by plus signs: `classes=0+1`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Generic, Protocol, TypeVar

from pfedul.base.options import broken_limit
from pfedul.errors import PfedulError


class Entry(Protocol):
    """What a registry holds: a name, a line of prose and a frozen dataclass of options."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def options(self) -> type[Any]: ...


EntryT = TypeVar("EntryT", bound=Entry)


@dataclass(frozen=True)
class NoOptions:
    """The options of a choice that has none."""


class Registry(Generic[EntryT]):
    """The known choices of one kind, in the order in which they are listed to users."""

    def __init__(self, kind: str, *entries: EntryT) -> None:
        self.kind = kind
        self._entries = {entry.name: entry for entry in entries}

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._entries.values())

    def __getitem__(self, name: str) -> EntryT:
        if name not in self._entries:
            known = ", ".join(self._entries)
            near = get_close_matches(name, self._entries, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise PfedulError(f"Unknown {self.kind} '{name}'{hint}; known are: {known}.")
        return self._entries[name]

    def parse(self, text: str) -> tuple[EntryT, Any]:
        """The entry that `text` names, and its options with defaults filled in."""
        name, _, rest = text.partition(":")
        entry = self[name.strip()]
        return entry, _parse_options(f"{self.kind} '{entry.name}'", entry.options, rest)

    def canonical(self, text: str) -> str:
        """`text` with every option written out, so that equal choices compare equal."""
        entry, options = self.parse(text)
        return write(entry.name, options)


class FreeName:
    """The same one-line form for a name that is on no list of ours: `client-05:size=3`."""

    def __init__(self, kind: str, options: type[Any]) -> None:
        self.kind = kind
        self.options = options

    def parse(self, text: str) -> tuple[str, Any]:
        """The name, and its options with defaults filled in."""
        name, _, rest = text.partition(":")
        return name.strip(), _parse_options(f"{self.kind} '{name.strip()}'", self.options, rest)

    def canonical(self, text: str) -> str:
        """`text` with every option written out."""
        return write(*self.parse(text))


def write(name: str, options: Any) -> str:
    """The one-line form of a choice with all its options that are set.

    >>> @dataclass(frozen=True)
    ... class Alpha:
    ...     alpha: float = 0.5
    >>> write("dirichlet", Alpha())
    'dirichlet:alpha=0.5'
    """
    values = ((field.name, getattr(options, field.name)) for field in fields(options))
    pairs = [f"{key}={_write_value(value)}" for key, value in values if value is not None]
    return f"{name}:{','.join(pairs)}" if pairs else name


def _write_value(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parse_options(owner: str, options: type[Any], text: str) -> Any:
    known = typing.get_type_hints(options)
    given: dict[str, Any] = {}
    for position, item in enumerate(part for part in text.split(",") if part.strip()):
        key, value = _key_and_value(item, position, known)
        if value is None:
            raise PfedulError(f"The {owner} needs a value for '{key}': {key}=...")
        if key not in known:
            can = f"it takes: {', '.join(known)}" if known else "it takes no options"
            raise PfedulError(f"The {owner} has no option '{key}'; {can}.")
        given[key] = _convert(owner, key, value, known[key])
    return make_options(owner, options, **given)


def _key_and_value(item: str, position: int, known: Mapping[str, Any]) -> tuple[str, str | None]:
    """Keys may be written with hyphens, and an option that is true without a value."""
    name, equals, value = (part.strip() for part in item.partition("="))
    key = name.replace("-", "_") if name.replace("-", "_") in known else name
    if equals:
        return key, value
    if key in known:
        return key, "true" if known[key] is bool else None
    return (next(iter(known)), name) if position == 0 and known else (name, "")


def _convert(owner: str, key: str, value: str, wanted: Any) -> Any:
    try:
        return _CONVERTERS[_plain_type(wanted)](value)
    except ValueError:
        kind = _plain_type(wanted)
        words = _KINDS.get(kind, f"a value of type {kind.__name__}")
        raise PfedulError(f"Option '{key}' of the {owner} takes {words}, not '{value}'.") from None


def _plain_type(wanted: Any) -> type:
    """The type to convert to: `int` for `int | None`, `tuple` for `tuple[int, ...]`."""
    if isinstance(wanted, types.UnionType):
        wanted = next(kind for kind in typing.get_args(wanted) if kind is not type(None))
    plain: type = typing.get_origin(wanted) or wanted
    return plain


def _to_bool(text: str) -> bool:
    if text.lower() not in {*_YES, *_NO}:
        raise ValueError(text)
    return text.lower() in _YES


_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


_KINDS: dict[type, str] = {tuple: "whole numbers joined by +", bool: "yes or no"}
_CONVERTERS: dict[type, Any] = {
    int: int,
    float: float,
    str: str,
    bool: _to_bool,
    tuple: lambda text: tuple(int(part) for part in text.split("+")),
}


def make_options(owner: str, options: type[Any], /, **given: Any) -> Any:
    """Options with defaults filled in, within the limits that their fields declare.

    What limits cannot say, `__post_init__` checks, by raising ValueError with a clause.
    `owner` is how errors call the entry, such as "model 'mlp'".
    """
    for spec in fields(options):
        problem = broken_limit(spec, given[spec.name]) if spec.name in given else None
        if problem:
            raise PfedulError(f"The {owner} was refused: {spec.name} {problem}.")
    try:
        return options(**given)
    except TypeError:
        missing = [field.name for field in fields(options) if field.name not in given]
        raise PfedulError(f"The {owner} needs a value for '{missing[0]}'.") from None
    except ValueError as error:
        raise PfedulError(f"The {owner} was refused: {error}.") from None

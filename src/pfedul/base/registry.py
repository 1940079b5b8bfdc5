"""Named choices with options, and the one-line form in which users write them.

A dataset, partition, model or personalisation is written `name` or `name:key=value,key=value`, on
the command line, in TOML and in Python alike. A value without a key belongs to the first option:
`dirichlet:0.5` is `dirichlet:alpha=0.5`. Lists are joined by plus signs: `classes=0+1`.

Other packages add entries through entry points (`group` of a registry), notebooks and
tests by `Registry.register`. In the place of a data set or a model a user may name a function,
`package.module:function:key=value`; here that is text only, base/code.py imports it.
"""

from __future__ import annotations

import re
import types
import typing
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, Protocol, TypeVar

from pfedul.base.options import broken_limit
from pfedul.base.text import did_you_mean
from pfedul.errors import PfedulError


class Entry(Protocol):
    """What a registry holds: a name, a one-line summary and a frozen dataclass of options."""

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


_REGISTERED: dict[str, dict[str, Any]] = {}
"""Kind of registry -> entries that were registered at run time."""


def registered_entries() -> dict[str, dict[str, Any]]:
    """What was registered at run time in any registry, to be sent to worker processes."""
    return {kind: dict(entries) for kind, entries in _REGISTERED.items() if entries}


def restore_entries(entries: Mapping[str, Mapping[str, Any]]) -> None:
    """In a worker process: make the `registered_entries` of its parent known."""
    for kind, of_kind in entries.items():
        _REGISTERED.setdefault(kind, {}).update(of_kind)


_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_CODE = re.compile(rf"\s*({_NAME}):({_NAME})\s*(?::(.*))?")


@dataclass(frozen=True)
class CodeName:
    """A function of the user's own as it is written: `module:function:options`."""

    module: str
    function: str
    options: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.module, self.function, self.options) if part)


def code_name(text: str) -> CodeName | None:
    """The parts of a function's name; None if the text is not of that form.

    >>> str(code_name("nets.small:build: width = 8, deep"))
    'nets.small:build:width=8,deep'
    """
    match = _CODE.fullmatch(text)
    if match is None:
        return None
    module, function, options = match.groups(default="")
    items = ("=".join(part.strip() for part in item.split("=", 1)) for item in options.split(","))
    return CodeName(module, function, ",".join(filter(None, items)))


class Registry(Generic[EntryT]):
    """The known choices of one kind, in the order in which they are listed to users.

    `built_in` says for each name where its entry is, as an entry point does: `module:attribute`.
    It is imported when it is used, so the names are known without torch.

    Entry points in `group` are loaded when an unknown name is looked up or the choices are
    listed. One that fails gives a warning and leaves the other choices as they are. `code`: a
    function of the user's own may stand in the place of an entry.
    """

    def __init__(
        self,
        kind: str,
        built_in: Mapping[str, str],
        group: str | None = None,
        code: bool = False,
    ) -> None:
        self.kind = kind
        self.group = group
        self.code = code
        self._built_in = built_in
        self._plugins: dict[str, EntryT] | None = None
        self._broken: dict[str, str] = {}

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._known().values())

    def __getitem__(self, name: str) -> EntryT:
        if name in self._built_in:
            return self._own(name)
        known = self._known()
        if name not in known:
            raise PfedulError(self._broken.get(name) or self._unknown(name, list(known)))
        return known[name]

    def _own(self, name: str) -> EntryT:
        entry: EntryT = resolve_name(self._built_in[name])
        return entry

    def names(self) -> list[str]:
        """The names that can be chosen; nothing is imported."""
        points = entry_points(group=self.group) if self.group else ()
        others = [point.name for point in points]
        return [*dict.fromkeys([*self._built_in, *others, *_REGISTERED.get(self.kind, {})])]

    def register(self, entry: EntryT, *, replace: bool = False) -> None:
        """Add an entry at run time, or with `replace` put it in place of one so added."""
        mine: dict[str, EntryT] = _REGISTERED.setdefault(self.kind, {})
        name = getattr(entry, "name", None)
        problem = None if replace and name in mine else self._problem(entry, self._known())
        if problem:
            raise PfedulError(f"The {self.kind} '{name}' cannot be registered: {problem}.")
        mine[entry.name] = entry

    def _unknown(self, name: str, known: list[str]) -> str:
        hint = did_you_mean(name, known)
        own = "; functions of your own are named package.module:function" if self.code else ""
        return f"Unknown {self.kind} '{name}'{hint}; known are: {', '.join(known)}{own}."

    def _known(self) -> dict[str, EntryT]:
        if self._plugins is None:
            self._plugins = {}  # first, since a plug-in may look into the registry itself
            for point in entry_points(group=self.group) if self.group else ():
                self._load(point, self._plugins)
        own = {name: self._own(name) for name in self._built_in}
        return {**own, **self._plugins, **_REGISTERED.get(self.kind, {})}

    def _load(self, point: EntryPoint, plugins: dict[str, EntryT]) -> None:
        try:
            entry = point.load()
            problem = self._problem(entry, {*self._built_in, *plugins})
        except Exception as error:  # whatever a foreign package does when it is imported
            problem = f"{type(error).__name__}: {error}"
        if problem is None:
            plugins[entry.name] = entry
            return
        package = point.dist.name if point.dist else point.module
        sentence = f"The package '{package}' cannot add the {self.kind} '{point.name}': {problem}."
        self._broken[point.name] = sentence
        warnings.warn(sentence, stacklevel=2)

    def _problem(self, entry: Any, known: Collection[str]) -> str | None:
        """Why something cannot be a further entry, if so."""
        first = next(iter(self._built_in), None)
        wanted = type(entry if first is None else self._own(first))
        if not isinstance(entry, wanted):
            return f"it is of type {type(entry).__name__}, not {wanted.__name__}"
        return f"there already is a {self.kind} '{entry.name}'" if entry.name in known else None

    def parse(self, text: str) -> tuple[EntryT, Any]:
        """The entry that `text` names, and its options with defaults filled in."""
        name, _, rest = text.partition(":")
        entry = self[name.strip()]
        return entry, _parse_options(f"{self.kind} '{entry.name}'", entry.options, rest)

    def canonical(self, text: str) -> str:
        """`text` with every option written out, so equal choices compare equal."""
        if own := self.own_code(text):
            return str(own)
        entry, options = self.parse(text)
        return write(entry.name, options)

    def own_code(self, text: str) -> CodeName | None:
        """The function of the user's own that `text` names, if it names no entry; not imported."""
        name = code_name(text) if self.code else None
        return None if name is None or name.module in self._known() else name


class FreeName:
    """The same one-line form for a name that is not in a registry: `client-05:size=3`."""

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
    pairs = [
        f"{key}={'+'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in values
        if value is not None
    ]
    return f"{name}:{','.join(pairs)}" if pairs else name


def _parse_options(owner: str, options: type[Any], text: str) -> Any:
    return make_options(
        owner, options, **given_options(owner, typing.get_type_hints(options), text)
    )


def given_options(
    owner: str, known: Mapping[str, Any], text: str, others: bool = False
) -> dict[str, Any]:
    """The options that are written in `text`, converted to their `known` types.

    With `others`, options that are not known are taken as they are written.
    """
    given: dict[str, Any] = {}
    for position, item in enumerate(part for part in text.split(",") if part.strip()):
        key, value = _key_and_value(item, position, known, others)
        if value is None:
            raise PfedulError(f"The {owner} needs a value for '{key}': {key}=...")
        if key not in known and not others:
            can = f"it takes: {', '.join(known)}" if known else "it takes no options"
            raise PfedulError(
                f"The {owner} has no option '{key}'{did_you_mean(key, known)}; {can}."
            )
        given[key] = _convert(owner, key, value, known.get(key, object))
    return given


def _key_and_value(
    item: str, position: int, known: Mapping[str, Any], others: bool
) -> tuple[str, str | None]:
    """Keys may be written with hyphens, and an option that is true without a value."""
    name, equals, value = (part.strip() for part in item.partition("="))
    key = name.replace("-", "_") if others or name.replace("-", "_") in known else name
    if equals:
        return key, value
    if key in known:
        return key, "true" if known[key] is bool else None
    if position == 0 and known:
        return next(iter(known)), name
    return (key, "true") if others else (name, "")


def _convert(owner: str, key: str, value: str, wanted: Any) -> Any:
    kind = plain_type(wanted)
    convert = CONVERTERS[kind]
    try:
        return convert(value)
    except (ValueError, KeyError):
        words = _KINDS.get(kind, f"a value of type {kind.__name__}")
        raise PfedulError(f"Option '{key}' of the {owner} takes {words}, not '{value}'.") from None


def plain_type(wanted: Any) -> type:
    """The type to convert to: `int` for `int | None`, `tuple` for `tuple[int, ...]`."""
    if isinstance(wanted, types.UnionType) or typing.get_origin(wanted) is typing.Union:
        wanted = next(kind for kind in typing.get_args(wanted) if kind is not type(None))
    plain: type = typing.get_origin(wanted) or wanted
    return plain


def as_written(text: str) -> bool | int | float | str:
    """A value of no known type: a number or true or false if it is written so, else text.

    >>> [as_written(text) for text in ("8", "1e-3", "true", "relu")]
    [8, 0.001, True, 'relu']
    """
    number = _NUMBER.fullmatch(text)
    if number is None:
        return {"true": True, "false": False}.get(text.lower(), text)
    return float(text) if number[1] else int(text)


_NUMBER = re.compile(r"[+-]?\d+(\.\d*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)?")
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_KINDS: dict[type, str] = {tuple: "whole numbers joined by +", bool: "yes or no"}
CONVERTERS: dict[type, Any] = {
    int: int,
    float: float,
    str: str,
    bool: lambda text: _BOOLS[text.lower()],
    tuple: lambda text: tuple(int(part) for part in text.split("+")),
    Path: Path,
    object: as_written,
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

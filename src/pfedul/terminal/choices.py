"""Entries of the registries as rows, for the terminal, JSON and the docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any

from rich.text import Text

from pfedul.terminal.console import console, line

if TYPE_CHECKING:
    from pfedul.unlearn.base import Method

ENTRY = ("name", "summary", "options")
DATASET = (*ENTRY, "files", "published")
PERSONALIZATION = (
    *("name", "shared", "personal", "local_training", "recalibration", "options", "paper"),
)
"""The attributes that tables of the registries show."""


def choice_rows(choices: Iterable[Any], columns: Sequence[str] = ENTRY) -> list[dict[str, str]]:
    """A row for each entry of a registry."""
    return [{name: _text(entry, name) for name in columns} for entry in choices]


def _text(entry: Any, name: str) -> str:
    value = getattr(entry, name)
    return options_text(value) if name == "options" else str(value)


def options_text(options: type[Any]) -> str:
    """Option names with their defaults.

    >>> from pfedul.personalization.ditto import DittoOptions
    >>> options_text(DittoOptions)
    'lam=0.1'
    """
    parts = []
    for spec in fields(options):
        value = spec.default
        if isinstance(value, tuple):
            value = "+".join(map(str, value))
        shown = "" if value is None or not isinstance(value, int | float | str) else f"={value}"
        parts.append(spec.name + shown)
    return ", ".join(parts)


def method_row(method: Method, options: Any = None) -> dict[str, Any]:
    """What a user must know before choosing a method, as plain data.

    `options`: the options to show instead of the method's defaults.
    """
    return {
        "name": method.name,
        "summary": method.summary,
        "control": method.about.control,
        "options": defaults_of(method) if options is None else asdict(options),
        "records": list(method.needs.records),
        "memory": method.about.memory,
        "target_works": method.needs.target,
        "who": method.about.who,
        "rounds": method.about.rounds,
        "recalibrates": method.does.recalibrates,
        "starts_over": method.does.starts_over,
        "on_this_machine_only": method.needs.local,
        "guarantee": method.about.guarantee,
        "paper": method.about.paper,
        "avoids": method.about.avoids,
        "variants": list(method.about.variants),
    }


def print_methods(methods: Sequence[Method]) -> None:
    """A line for each method: those to use, then those to compare with."""
    width = max(len(method.name) for method in methods)
    for title, control in (("methods", False), ("to compare with", True)):
        console.print(Text(title, style="bold"))
        for method in methods:
            if method.about.control == control:
                needs = needs_of(method)
                line(f"  {method.name:<{width}}  {method.summary}" + (needs and f" [{needs}]"))
    line("In brackets what a run must have. More of one: pfedul methods NAME.")
    line("Which of them work on a run: pfedul methods RUN.")


def needs_of(method: Method) -> str:
    """What a method requires of a run, in few words."""
    records = (" or " if method.does.plans else " and ").join(method.needs.records)
    parts = {
        f"record {records}": bool(records),
        "the target's help": method.needs.target,
        "clusters": "clusters" in method.needs.layout,
        "clients on this machine": method.needs.local,
    }
    return ", ".join(words for words, needed in parts.items() if needed)


def print_usable(run: str, reasons: Mapping[str, str | None]) -> None:
    """Which methods work on a run, and why the others do not."""
    usable = [name for name, reason in reasons.items() if reason is None]
    line(f"On {run} these work: {', '.join(usable) or 'none'}.")
    for name, reason in reasons.items():
        if reason is not None:
            line(f"{name}: {reason}")


def defaults_of(method: Method) -> dict[str, Any]:
    """Option -> default; None if it has none."""
    specs = fields(method.options)
    return {spec.name: None if spec.default is MISSING else spec.default for spec in specs}


def print_method(method: Method, options: Any = None) -> None:
    """A method in a few lines, with its defaults or with these options."""
    row = method_row(method, options)
    console.print(Text(row["name"], style="bold").append(f"  {row['summary']}", style="not bold"))
    target = "yes" if row["target_works"] else "no"
    parts = {
        "options": ", ".join(f"{key}={value}" for key, value in row["options"].items()),
        "records": f"{'+'.join(row['records']) or 'none'} ({row['memory']})",
        "who works": f"{row['who']}; the target must take part: {target}",
        "rounds": row["rounds"],
        "guarantee": row["guarantee"],
        "paper": row["paper"],
        "avoids": row["avoids"],
        "variants": ", ".join(row["variants"]),
    }
    for title, words in parts.items():
        if words:
            line(f"  {title:<10} {words}")

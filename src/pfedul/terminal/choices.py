"""The table of unlearning methods, for people and for programs."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields
from typing import Any

from rich.text import Text

from pfedul.terminal.console import console, line
from pfedul.unlearn.base import Method


def method_row(method: Method, own: Any = None) -> dict[str, Any]:
    """What a user must know before choosing a method, as plain data.

    `own`: the options that it is to be used with, in place of its defaults.
    """
    return {
        "name": method.name,
        "summary": method.summary,
        "control": method.about.control,
        "options": _defaults(method) if own is None else asdict(own),
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


def _defaults(method: Method) -> dict[str, Any]:
    return {spec.name: _default(spec) for spec in fields(method.options)}


def _default(spec: Any) -> Any:
    return None if spec.default is MISSING else spec.default


def one(method: Method, own: Any = None) -> None:
    """A method in a few lines, with its defaults or the options that it is to be used with."""
    row = method_row(method, own)
    console.print(Text(row["name"], style="bold").append(f"  {row['summary']}", style="not bold"))
    options = ", ".join(f"{key}={value}" for key, value in row["options"].items())
    target = "yes" if method.needs.target else "no"
    parts = {
        "options": options,
        "records": f"{'+'.join(method.needs.records) or 'none'} ({method.about.memory})",
        "who works": f"{method.about.who}; the target must take part: {target}",
        "rounds": method.about.rounds,
        "guarantee": method.about.guarantee,
        "paper": method.about.paper,
        "avoids": method.about.avoids,
        "variants": ", ".join(method.about.variants),
    }
    for title, words in parts.items():
        if words:
            line(f"  {title:<10} {words}")


def record_rows(records: Any, methods: Any) -> list[dict[str, str]]:
    """What training can keep, and for which methods."""
    return [
        {
            "record": f"`{record.name}`",
            "what it keeps": record.summary,
            "memory": record.memory,
            "for": ", ".join(f"`{item.name}`" for item in methods if record.name in item.needs),
        }
        for record in records
    ]


def table_rows(methods: Any) -> list[dict[str, str]]:
    """The table of the docs."""
    return [
        {
            "method": f"`{method.name}`",
            "what it does": method.summary,
            "options": ", ".join(
                f"{spec.name}={_default(spec)}" for spec in fields(method.options)
            ),
            "records": "+".join(method.needs.records) or "none",
            "their memory": method.about.memory,
            "target takes part": "yes" if method.needs.target else "no",
            "who works": method.about.who,
            "rounds": method.about.rounds,
            "guarantee": method.about.guarantee,
            "paper": method.about.paper,
            "trap avoided": method.about.avoids,
        }
        for method in methods
    ]

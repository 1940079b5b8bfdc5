"""What TAB offers for the values of options.

Names come from the registries and from the ledger of RUN; nothing is imported or written for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import Field
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.requests import forgotten
from pfedul.store.status_tables import client_rows

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names(registry: Registry[Any], *others: str, separator: str | None = None) -> Complete:
    """Names of a registry; with a separator several of them in one value."""

    def complete(_ctx: click.Context, _param: click.Parameter, word: str) -> list[str]:
        before, mark, last = word.rpartition(separator) if separator else ("", "", word)
        return [before + mark + name for name in _fitting([*others, *registry.names()], last)]

    return complete


def names_or_runs(
    registry: Registry[Any],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Names of a registry, and folders."""

    def complete(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in names(registry)(ctx, param, word)]
        return [*items, CompletionItem(word, type="dir")]

    return complete


def of_field(spec: Field[Any]) -> Complete | None:
    """Names for an option whose values are in a registry."""
    registry = spec.metadata["registry"]
    return names(registry) if isinstance(registry, Registry) else None


def clients(ctx: click.Context, _param: click.Parameter, word: str) -> list[str]:
    """The clients of RUN."""
    return _fitting(_read(ctx, _active), word)


def forgotten_clients(ctx: click.Context, _param: click.Parameter, word: str) -> list[str]:
    """Those who were clients of RUN."""
    return _fitting(
        _read(ctx, lambda ledger: sorted({*forgotten(ledger)} - {*_active(ledger)})), word
    )


def _active(ledger: Ledger) -> list[str]:
    return [row["client"] for row in client_rows(ledger) if row["status"] == "active"]


def _read(ctx: click.Context, what: Callable[[Ledger], list[str]]) -> list[str]:
    """Nothing where there is no run, or none that can be read: TAB has no place for errors."""
    # Without the value that is being typed click leaves RUN among the words that it did not read.
    words = [ctx.params.get("run") or "", *ctx.args]
    ledgers = [Path(word) / LEDGER_FILE for word in words if (Path(word) / LEDGER_FILE).is_file()]
    if not ledgers:
        return []
    try:
        with closing(Ledger(ledgers[0], read_only=True)) as ledger:
            return what(ledger)
    except (PfedulError, sqlite3.Error, OSError):
        return []


def _fitting(words: Iterable[str], beginning: str) -> list[str]:
    return [word for word in words if word.lower().startswith(beginning.lower())]

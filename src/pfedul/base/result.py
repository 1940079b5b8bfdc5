"""What the verbs of a federation return, shown: one line, a table in a notebook, a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pfedul.base.extras import needed
from pfedul.base.text import visible

LONGEST_LINE, LONGEST_TEXT = 240, 2000
MOST_NAMES, MOST_ROWS = 4, 30

Facts = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


class Result:
    """A result says its `_facts` in one line, and has `_rows` for a table.

    A subclass that is a dataclass is declared with `repr=False`.
    """

    def _facts(self) -> Facts:
        raise NotImplementedError

    def _rows(self) -> Rows:
        raise NotImplementedError

    def _sentences(self) -> Sequence[str]:
        """What a reader must know besides; not in the one line."""
        return ()

    def _picture(self) -> str:
        """Markup to be shown above the table."""
        return ""

    def __repr__(self) -> str:
        known = {name: value for name, value in self._facts().items() if value is not None}
        words = ", ".join(f"{name}={_literal(value)}" for name, value in known.items())
        return f"{type(self).__name__}({_cut(visible(words), LONGEST_LINE)})"

    def _repr_html_(self) -> str:
        """A part of a page for notebooks, light or dark."""
        facts = "".join(
            f"<dt>{_markup(name)}</dt><dd>{_markup(value)}</dd>"
            for name, value in self._facts().items()
            if value is not None
        )
        head = f"<strong>{_markup(type(self).__name__)}</strong><dl>{facts}</dl>"
        words = "".join(f"<p>{_markup(sentence)}</p>" for sentence in self._sentences())
        rest = f"{words}{self._picture()}{_table(self._rows())}"
        return f'<div class="pfedul">{_STYLE}{head}{rest}</div>'

    def to_frame(self) -> Any:
        """The rows as a data frame of pandas."""
        return needed("pandas", "A data frame", "pandas").DataFrame([*map(dict, self._rows())])


def _literal(value: Any) -> str:
    """A value in the one line: numbers short, lists of names cut.

    >>> print(_literal(0.123456), _literal("ann"), _literal(["ann", "bob"]))
    0.1235 'ann' ['ann', 'bob']
    """
    if isinstance(value, (list, tuple)):
        return f"[{_names([repr(item) for item in value])}]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _text(value: Any) -> str:
    """A value in a table.

    >>> _text(0.123456), _text(1.0), _text(0.0), _text(0.000123456), _text(123456.7)
    ('0.123', '1.000', '0', '0.000123', '1.23e+05')
    >>> _text(["ann", "bob"]), _text(True), _text(None)
    ('ann, bob', 'yes', '')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return _names([str(item) for item in value])
    if isinstance(value, float):
        return f"{value:.3f}" if 0.001 <= abs(value) < 1000 else f"{value:.3g}"
    return "" if value is None else str(value)


def _names(names: list[str]) -> str:
    """
    >>> _names(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _markup(value: Any) -> str:
    return escape(visible(_cut(_text(value), LONGEST_TEXT)))


def _table(rows: Rows) -> str:
    if not rows:
        return ""
    head = "".join(f"<th{_side(value)}>{_markup(name)}</th>" for name, value in rows[0].items())
    body = "".join(f"<tr>{''.join(map(_cell, row.values()))}</tr>" for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    note = f"<p>and {more} more rows: to_frame() has all of them</p>" if more > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{table}</div>{note}"


def _cell(value: Any) -> str:
    return f"<td{_side(value)}>{_markup(value)}</td>"


def _side(value: Any) -> str:
    """Figures are aligned at the right."""
    figure = isinstance(value, (int, float)) and not isinstance(value, bool)
    return " class=n" if figure else ""


_STYLE = (
    "<style>.pfedul{--candidate:#d9731a;--oracle:#3d8fd1;--untouched:#b0568a;--fresh:#2a9d78;"
    "--members:#56b4e9;--grid:#8884;--band:#8884;--page:transparent;"
    "font:13px/1.5 system-ui,sans-serif;max-width:60rem}"
    ".pfedul dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:0 1rem;"
    "margin:.3rem 0 .6rem}.pfedul dt{opacity:.7;font-weight:400}"
    ".pfedul dd{margin:0;overflow-wrap:anywhere}.pfedul>div{overflow-x:auto}"
    ".pfedul p{margin:.3rem 0;max-width:46rem}"
    ".pfedul table{font:inherit;border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".pfedul th,.pfedul td{text-align:left;vertical-align:top;padding:.15rem 1rem .15rem 0;"
    "border-bottom:1px solid #8886}.pfedul th.n,.pfedul td.n{text-align:right}"
    ".pfedul svg{max-width:100%;height:auto}</style>"
)
"""Colours that can be read on white and on black; text has the colour of the notebook."""

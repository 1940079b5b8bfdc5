"""How the table, the page and the picture of a comparison name methods and say figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pfedul.base.text import MISSING, counted, number, readable, signed

Json = Mapping[str, Any]

OWN_BASE = "†"
OWN_BASE_NOTE = (
    f"{OWN_BASE} branches from a run of its own, trained in clusters: its accuracy before and "
    "after, and so its PPS and CFI, are those of that run"
)
SPREAD_NOTE = "± is the standard deviation over the seeds (of two: half their difference)"
NO_RESULT = "no result"

_NAMES = ("correction", "adapter", "toward")
"""Options whose value says by itself what it is."""


def short_labels(labels: Iterable[str]) -> dict[str, str]:
    """Each label in as few words as tell it from the others.

    >>> list(short_labels(["pfedul", "budgeted-retrain:times=4"]).values())
    ['pfedul', 'budgeted-retrain x4']
    >>> list(short_labels(["pfedul:layers=all", "pfedul"]).values())
    ['pfedul (layers=all)', 'pfedul']
    """
    found = {label: _short(label) for label in labels}
    names = list(found.values())
    return {
        label: name if names.count(name) == 1 else readable(label) for label, name in found.items()
    }


def _short(label: str) -> str:
    """
    >>> _short("pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3+recalibrate")
    'pfedul (reset 50%, 3 repair rounds) +recalibrate'
    >>> _short("pfedul:correction=trust-region,clip=0.5,toward=init")
    'pfedul (trust-region, clip 0.5, init)'
    """
    text, plus, further = label.partition("+recalibrate")
    name, _, options = text.partition(":")
    items = dict(item.partition("=")[::2] for item in options.split(",") if item)
    times = f" x{items.pop('times')}" if "times" in items else ""
    parts = [part for part in (_said(*item) for item in items.items()) if part]
    inside = f" ({', '.join(parts).replace('reset, ', 'reset ')})" if parts else ""
    return f"{name}{times}{inside}{' ' if plus else ''}{plus}{further}"


def _said(option: str, value: str) -> str:
    """An option and its value; nothing for what a short name may leave out."""
    if option in _NAMES:
        return value
    if option == "layers" and value == "all":
        return ""
    if option == "fraction":
        return _as_percent(value)
    if option == "repair-rounds":
        return f"{value} repair rounds" if value != "1" else "1 repair round"
    return f"{option} {value}"


def _as_percent(value: str) -> str:
    try:
        return f"{100 * float(value):g}%"
    except ValueError:
        return value


def marked(row: Json, name: str) -> str:
    """The name of a method, with a mark where it branched from another run than the others."""
    return f"{name} {OWN_BASE}" if row.get("own_base") else name


def verdict_words(verdicts: Sequence[str]) -> str:
    """Verdicts of several seeds in a few words.

    >>> verdict_words(["forgotten", "not forgotten", "forgotten"])
    'forgotten (2), not forgotten (1)'
    """
    kinds = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{verdict} ({count})" for verdict, count in kinds.items())


def verdicts_of(row: Json) -> list[str]:
    """The verdicts of a row, seed by seed; a seed that failed has none to show."""
    known = row.get("verdicts") or ([row["verdict"]] if row.get("verdict") else [])
    return [*known, *[NO_RESULT] * row.get("failed", 0)]


def amount(value: float | None) -> str:
    """Seconds and shares, whose sizes differ by thousands: three digits that mean something.

    >>> amount(0.0104), amount(0.4776), amount(5.27), amount(113.14), amount(0.0), amount(None)
    ('0.010', '0.478', '5.27', '113.1', '0', 'not measured')
    """
    if value is None:
        return MISSING
    return "0" if value == 0 else f"{value:.{3 if value < 1 else 2 if value < 10 else 1}f}"


def figure(row: Json, name: str, sign: bool = False) -> str:
    """A figure of a row, and how far it strays over the seeds.

    >>> figure({"pps": 0.91234, "spread": {"pps": 0.02}}, "pps")
    '0.912 ±0.020'
    """
    value = (signed if sign else number)(row[name])
    spread = row.get("spread", {}).get(name)
    return value if spread is None else f"{value} ±{spread:.3f}"


def has_spread(rows: Iterable[Json]) -> bool:
    return any(row.get("spread", {}).get("mean_excess") is not None for row in rows)


def is_oracle(row: Json) -> bool:
    return str(row["label"]).startswith("oracle")


def who(found: Json) -> str:
    """Who is forgotten; of several trainings who in which.

    >>> who({"targets": ["ann", "bob"]})
    'ann and bob forgotten'
    >>> who({"runs": [{"targets": ["ann"], "seed": 0}, {"targets": ["bob"], "seed": 1}]})
    'ann forgotten in the training with seed 0, bob in that with seed 1'
    """
    runs = found.get("runs")
    if not runs:
        return f"{' and '.join(found['targets'])} forgotten"
    first, *others = (" and ".join(run["targets"]) for run in runs)
    parts = [f"{first} forgotten in the training with seed {runs[0]['seed']}"]
    parts += [
        f"{name} in that with seed {run['seed']}"
        for name, run in zip(others, runs[1:], strict=True)
    ]
    return ", ".join(parts)


def setting(found: Json) -> str:
    """What was trained, in one line."""
    rounds = counted(found["rounds"], "round")
    return f"{found['personalization']} on {found['data']}, {rounds}"

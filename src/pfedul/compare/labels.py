"""Short names of methods, for tables and pictures."""

from __future__ import annotations

from collections.abc import Iterable

from pfedul.base.text import readable

_NAMES = ("correction", "adapter", "toward")
"""Options whose value needs no key."""


def short_labels(labels: Iterable[str]) -> dict[str, str]:
    """Each label in as few words as distinguish it from the others.

    >>> list(short_labels(["pfedul", "budgeted-retrain:times=4"]).values())
    ['pfedul', 'budgeted-retrain x4']
    >>> list(short_labels(["pfedul:layers=all", "pfedul"]).values())
    ['pfedul (layers=all)', 'pfedul']
    """
    short = {label: _short(label) for label in labels}
    names = list(short.values())
    return {
        label: name if names.count(name) == 1 else readable(label) for label, name in short.items()
    }


def _short(label: str) -> str:
    """
    >>> _short("pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3+recalibrate")
    'pfedul (reset 50%, 3 repair rounds) +recalibrate'
    >>> _short("pfedul:correction=trust-region,clip=0.5,toward=init")
    'pfedul (trust-region, clip 0.5, init)'
    """
    text, plus, _ = label.partition("+recalibrate")
    name, _, options = text.partition(":")
    items = dict(item.partition("=")[::2] for item in options.split(",") if item)
    times = f" x{items.pop('times')}" if "times" in items else ""
    parts = [part for part in (_option_words(*item) for item in items.items()) if part]
    inside = f" ({', '.join(parts).replace('reset, ', 'reset ')})" if parts else ""
    return f"{name}{times}{inside}{' ' if plus else ''}{plus}"


def _option_words(option: str, value: str) -> str:
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

"""Figures, names and sizes as text, for the terminal, pages and tables alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

MISSING = "not measured"

MINUS = "\N{MINUS SIGN}"

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to put after a wrong word; empty where no known word is near.

    >>> did_you_mean("lrr", ["lr", "seed"]), did_you_mean("xyz", ["lr"])
    (" (did you mean 'lr'?)", '')
    >>> did_you_mean("FEDREP", ["fedrep"])
    " (did you mean 'fedrep'?)"
    """
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(by_lower), n=1)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""


def cleaned(value: Any) -> Any:
    """The same data, with characters replaced that XML cannot hold.

    >>> cleaned({"a": ["b\\x00", 1.0]})
    {'a': ['b\ufffd', 1.0]}
    """
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    return value


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Text for a terminal: characters that would control it, or turn its direction, as escapes.

    >>> print(visible("\x1b[2J c0 \u202e"))
    \x1b[2J c0 \u202e
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def readable(label: str) -> str:
    """A choice with its options in readable form; keys of options that are names are left out.

    >>> readable("pfedul:correction=reset,fraction=0.3"), readable("none")
    ('pfedul (reset, fraction=0.3)', 'none')
    """
    name, _, options = label.partition(":")
    parts, named = options.split(","), ("correction=", "adapter=")
    items = [part.partition("=")[2] if part.startswith(named) else part for part in parts]
    return f"{name} ({', '.join(items)})" if options else name


def typeset(text: str) -> str:
    """A number with a minus sign instead of a hyphen.

    >>> typeset("-1.5") == MINUS + "1.5"
    True
    """
    return text.replace("-", MINUS)


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or "not measured".

    >>> number(0.51234), number(0.2, 2), number(None)
    ('0.512', '0.20', 'not measured')
    """
    return MISSING if value is None else typeset(f"{value:.{digits}f}")


def signed(value: float | None, digits: int = 3) -> str:
    """A difference with its sign.

    >>> signed(0.02), signed(-0.02) == f"{MINUS}0.020"
    ('+0.020', True)
    """
    return MISSING if value is None else typeset(f"{value:+.{digits}f}")


def percent(value: float | None) -> str:
    """A share in per cent.

    >>> percent(0.9034)
    '90.3 %'
    """
    return MISSING if value is None else typeset(f"{100 * value:.1f} %")


def span(interval: Sequence[float] | None) -> str:
    """An interval as text; empty if there is none.

    >>> span([0.4, 0.6]), span(None)
    ('0.400 to 0.600', '')
    """
    return " to ".join(map(number, interval or ()))


def with_interval(figure: Mapping[str, Any] | None, sign: bool = False) -> str:
    """A figure followed by its interval.

    >>> with_interval({"value": 0.5, "interval": [0.4, 0.6]})
    '0.500 (0.400 to 0.600)'
    >>> with_interval({"value": 0.5, "interval": None}, sign=True)
    '+0.500'
    """
    if figure is None or figure.get("value") is None:
        return MISSING
    value = (signed if sign else number)(figure["value"])
    ends = span(figure.get("interval"))
    return f"{value} ({ends})" if ends else value


def extent(values: Iterable[float | None]) -> str:
    """From the smallest to the largest, or the only one.

    >>> extent([0.5, 0.7, None]), extent([0.5]), extent([])
    ('0.500 to 0.700', '0.500', 'not measured')
    """
    known = [value for value in values if value is not None]
    ends = dict.fromkeys([number(min(known)), number(max(known))] if known else [MISSING])
    return " to ".join(ends)


def joined(names: Iterable[str], nothing: str = "nobody") -> str:
    """Names separated by commas.

    >>> joined(["ann", "bob"]), joined([])
    ('ann, bob', 'nobody')
    """
    return ", ".join(names) or nothing


def counted(count: int, one: str) -> str:
    """A number with its noun.

    >>> counted(1, "oracle"), counted(2, "oracle")
    ('1 oracle', '2 oracles')
    """
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def sentence(text: str) -> str:
    """A note as a sentence of its own.

    >>> sentence("nothing is corrected")
    'Nothing is corrected.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def moment(text: str | None) -> str:
    """A timestamp of the ledger in readable form.

    >>> moment("2026-11-16T18:00:05.123+00:00")
    '2026-11-16 18:00:05 UTC'
    """
    if not text:
        return "not written down"
    zone = " UTC" if text.endswith(("+00:00", "Z")) else ""
    return text[:19].replace("T", " ") + zone


def shortened(name: str, most: int = 18) -> str:
    """A name that fits next to an axis; the middle of a long one is cut.

    >>> shortened("a-very-long-name-of-a-client")
    'a-very-lo…a-client'
    """
    if len(name) <= most:
        return name
    head = most // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"


def share_words(figure: Mapping[str, Any] | None) -> str | None:
    """A share with its interval, in per cent; None if it is not known.

    >>> share_words({"value": 0.92, "interval": [0.8, 1.0]})
    '92 % (80 to 100)'
    """
    if figure is None:
        return None
    low, high = figure["interval"]
    return f"{100 * figure['value']:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def human_bytes(size: float) -> str:
    """A size in readable units.

    >>> human_bytes(123), human_bytes(4_500_000)
    ('123 B', '4.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def without_names(text: str, names: Iterable[str]) -> str:
    """A sentence that no longer says which clients it is about.

    >>> without_names("None of c1, c12 answered.", ["c1", "c12"])
    'None of a client, a client answered.'
    """
    longest_first = sorted(names, key=len, reverse=True)
    pattern = "|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w-])" for name in longest_first)
    return re.sub(pattern, "a client", text) if pattern else text


def asked_words(asked: Mapping[str, Any]) -> str:
    """Who asked for a removal, on what ground, and when it was due.

    >>> asked_words({"by": "case 17", "due": "2026-12-19"})
    'asked for by case 17, due 2026-12-19'
    """
    by = f"asked for by {asked['by']}" if asked.get("by") else "who asked was not recorded"
    ground = f" on the ground of {asked['ground']}" if asked.get("ground") else ""
    return f"{by}{ground}, due {asked['due']}"

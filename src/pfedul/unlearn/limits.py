"""Limits that the options of methods share: for `__post_init__`.

The registry turns the ValueError into a user's sentence. A comparison with NaN is never
true, and infinity is above everything: both would pass a plain check and end in a model of NaN.
"""

from __future__ import annotations

from math import isfinite


def require_above_zero(**values: float | None) -> None:
    """Finite and above zero, each of them that is given.

    >>> require_above_zero(lr=float("nan"))
    Traceback (most recent call last):
    ValueError: lr must be above 0 and finite, not nan
    """
    for name, value in values.items():
        if value is not None and not (isfinite(value) and value > 0):
            raise ValueError(f"{name} must be above 0 and finite, not {value}")


def require_not_negative(**values: float | None) -> None:
    """Finite and not below zero, each of them that is given.

    >>> require_not_negative(sigma=-1.0)
    Traceback (most recent call last):
    ValueError: sigma must be 0 or more and finite, not -1.0
    """
    for name, value in values.items():
        if value is not None and not (isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be 0 or more and finite, not {value}")

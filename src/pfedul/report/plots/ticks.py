"""Words beside the ticks of an axis."""

from __future__ import annotations

from pfedul.base.text import typeset


def percent_tick(value: float, _place: int | None = None) -> str:
    """A share in per cent, with as many digits as the tick needs.

    >>> percent_tick(0.875), percent_tick(0.9)
    ('87.5 %', '90 %')
    """
    return typeset(f"{round(100 * value, 6):g} %")


def plain_tick(value: float, _place: int | None = None) -> str:
    """A number as people write it.

    >>> plain_tick(0.01), plain_tick(10.0)
    ('0.01', '10')
    """
    return typeset(f"{value:g}")

"""What the noise of the rounds amounts to: epsilon, from Google's dp-accounting."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

ORDERS = (*range(2, 65), 128, 256, 512, 1024)
"""Renyi orders; any of them gives a valid bound, and the smallest bound counts."""


def epsilon(noise: float, rate: float, rounds: int, delta: float) -> float | None:
    """An upper bound for so many rounds with Poisson sampling; None without dp-accounting.

    Two runs are neighbours if one has a client more than the other.
    """
    if find_spec("dp_accounting") is None:
        return None
    events, accounting = import_module("dp_accounting"), import_module("dp_accounting.rdp")
    one_round = events.PoissonSampledDpEvent(rate, events.GaussianDpEvent(noise))
    return float(accounting.RdpAccountant(ORDERS).compose(one_round, rounds).get_epsilon(delta))

"""How many classes there are in data that do not say so themselves."""

from __future__ import annotations

from pfedul.errors import PfedulError

# A larger label is a customer number or the like by mistake: a network would
# need one output for every number up to it.
MOST_CLASSES = 1_000_000


def classes_up_to(largest_label: int) -> int:
    """The number of classes 0, 1, ..., `largest_label`."""
    if largest_label >= MOST_CLASSES:
        raise PfedulError(
            f"The largest label is {largest_label}; number the classes 0, 1, 2, ... without gaps."
        )
    return largest_label + 1

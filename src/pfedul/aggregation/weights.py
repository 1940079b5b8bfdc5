"""How much each client of a round counts in a mean: by its samples, up to a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Weighing:
    """By samples, none above the share `cap` of the round; with `equal` all alike."""

    cap: float = 1.0
    equal: bool = False

    def weights(self, samples: Mapping[str, int]) -> dict[str, float]:
        """Client -> weight; a weight is a number of samples unless it was capped.

        >>> Weighing(cap=0.5).weights({"ann": 90, "bob": 6, "cid": 4})
        {'ann': 10.0, 'bob': 6, 'cid': 4}
        >>> Weighing(equal=True).weights({"ann": 90, "bob": 6})
        {'ann': 1, 'bob': 1}
        """
        if self.equal:
            return dict.fromkeys(samples, 1)
        limit = largest_count(list(samples.values()), self.cap)
        return {client: min(count, limit) for client, count in samples.items()}


BY_SAMPLES = Weighing()


def largest_count(counts: list[int], cap: float) -> float:
    """The number at which counts must be cut off for none to be above the share `cap` of their sum.

    With so few clients that somebody must be above it, all count alike.

    >>> largest_count([90, 6, 4], cap=0.5), largest_count([90, 6], cap=0.4)
    (10.0, 6)
    """
    ordered = sorted(counts, reverse=True)
    if cap * len(ordered) <= 1:
        return min(ordered, default=0)
    for above, count in enumerate(ordered):  # how many are above the limit: less than 1 / cap
        limit = cap * sum(ordered[above:]) / (1 - cap * above)
        if count <= limit:
            break
    return limit

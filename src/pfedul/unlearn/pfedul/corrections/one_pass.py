"""The corrections by compiled code: each number of a layer is read, corrected and written once."""

from __future__ import annotations

import math

from pfedul import compiled
from pfedul.base.tensors import Tensors, empty
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView
from pfedul.unlearn.pfedul.corrections.shares import bracket_of, cut_among

Found = dict[str, tuple[float, int]]
"""For each tensor the squared change, and how many entries went as far as any may."""


def fits(view: LayerView) -> bool:
    """Whether there is compiled code for the tensors of this layer."""
    parts = view.shared, view.initial, view.target, view.total
    return compiled.fits(*(tensor for part in parts for tensor in part.values()))


def direction_norm(view: LayerView) -> float:
    """||F_t * (theta - theta_init)||_2, over the layer as one vector."""
    start, fisher = view.initial, view.target
    return math.sqrt(
        sum(
            compiled.direction_square_sum(theta, start[name], fisher[name])
            for name, theta in view.shared.items()
        )
    )


def add_clipped(view: LayerView, scale: float, limit: float) -> Corrected:
    """Eq. 11, where the limit is in the unit of the direction."""
    after = _room(view)
    found = {
        name: compiled.add_clipped(
            theta, view.initial[name], view.target[name], after[name], scale, limit
        )
        for name, theta in view.shared.items()
    }
    return _corrected(view, after, found, view.norm)


def reset_highest(view: LayerView, count: int) -> Corrected | None:
    """The `count` entries with the highest shares go back to their initial values.

    None if too many shares are too much alike to be told apart in one pass.
    """
    after, bracket = _room(view), bracket_of(view.target, view.total, count)
    candidates = compiled.Candidates(4096 + view.entries // 16)  # a fair sample leaves far fewer
    found: Found = {}
    whose: dict[str, range] = {}
    above, before = 0, 0.0
    for name, theta in view.shared.items():
        parts = view.target[name], view.total[name], theta, view.initial[name], after[name]
        first = candidates.count
        square, reset, own = compiled.reset_above(*parts, bracket, candidates)
        found[name], whose[name] = (square, reset), range(first, candidates.count)
        above, before = above + reset, before + own
        if candidates.count > candidates.room:
            return None
    if above >= count or (bracket[0] > 0 and above + candidates.count < count):
        return None  # the sample misled
    cut = cut_among(candidates.shares, count - above)
    ties = cut.ties
    for name, (square, reset) in found.items():
        if not whose[name]:
            continue
        rest = candidates, whose[name], after[name]
        more_square, more, ties = compiled.reset_candidates(*rest, cut.above, ties)
        found[name] = square + more_square, reset + more
    return _corrected(view, after, found, math.sqrt(before))


def _room(view: LayerView) -> Tensors:
    return {name: empty(theta.shape, theta.dtype) for name, theta in view.shared.items()}


def _corrected(view: LayerView, after: Tensors, found: Found, norm: float) -> Corrected:
    return Corrected(
        tensors=after,
        changes={name: math.sqrt(square) for name, (square, _) in found.items()},
        at_bound=sum(count for _, count in found.values()) / max(1, view.entries),
        norm=norm,
    )

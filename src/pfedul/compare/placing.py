"""Where names stand beside their dots: near, on nothing else, and with lines that do not cross.

Every name may stand at a number of places around its dot. Each in turn takes the cheapest,
given where the others stand, until none wants to move. All in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Boxes are rows of (left, bottom, right, top), lines rows of (x, y, x, y)."""

_DIRECTIONS = 36
_DISTANCES = (9.0, 16.0, 24.0, 34.0, 46.0, 60.0, 76.0, 95.0, 120.0)
_TINY = 1e-9
_STARTS, _SWEEPS = 12, 10

_ON_A_NAME, _ON_A_DOT, _ON_A_BAR, _BY_ANOTHER = 400.0, 300.0, 45.0, 20.0
_LINE_ON_A_NAME, _LINE_ON_A_DOT, _LINES_CROSS = 300.0, 150.0, 300.0
_A_PIXEL = 1.5
"""What is worst to look at costs most; the rest is how far a name is from its dot."""

_AROUND = np.array([-6.0, -6.0, 6.0, 6.0])
"""So near to another dot a name might be taken for its name."""

LINE_FROM = 14.0
"""A name further away from its dot has a line to it."""


@dataclass(frozen=True)
class Field:
    """What is there already: the frame, the marks of all dots (as boxes), the error bars."""

    frame: tuple[float, float, float, float]
    dots: Floats
    bars: Floats


def placed(field: Field, dots: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """For each dot with a name of this size the box of the name, and the line to it."""
    names = [_choices(field, dot, size) for dot, size in zip(dots, sizes, strict=True)]
    orders = [np.random.default_rng(start).permutation(len(names)) for start in range(_STARTS)]
    rows = min((_settled(names, order) for order in orders), key=lambda found: found[0])[1]
    return rows[:, :4], rows[:, 4:]


@dataclass(frozen=True)
class _Choices:
    """Where a name may stand, and what each place costs whatever the other names do."""

    places: Floats
    costs: Floats


def _choices(field: Field, dot: Floats, size: Floats) -> _Choices:
    """The better half of all places: the others are never taken."""
    places = _places(dot, size)
    costs = _alone(field, places, dot)
    best = np.argsort(costs, kind="stable")[: len(costs) // 2]
    return _Choices(places[best], costs[best])


def _settled(names: Sequence[_Choices], order: Iterable[int]) -> tuple[float, Floats]:
    """One name after the other takes its best place, until all stay; with what that costs."""
    turns, stand = list(order), np.zeros((len(names), 8))
    there = np.zeros(len(names), dtype=bool)
    for _ in range(_SWEEPS):
        before, total = stand.copy(), 0.0
        for one in turns:
            there[one] = False
            costs = names[one].costs + _beside(names[one].places, stand[there])
            best = int(np.argmin(costs))
            stand[one], there[one] = names[one].places[best], True
            total += float(costs[best])
        if np.array_equal(stand, before):
            break
    return total, stand


def _places(dot: Floats, size: Floats) -> Floats:
    """Boxes around a dot with the lines to them: rows of eight."""
    # By half a step beside the axes: a line must not lie on an error bar.
    angles = (np.arange(_DIRECTIONS) + 0.5) * 2 * np.pi / _DIRECTIONS
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = np.concatenate([dot + distance * turns for distance in _DISTANCES])
    sides = np.tile(turns, (len(_DISTANCES), 1))
    # The side of the box that faces the dot begins where the line ends.
    aligned = np.stack([_facing(sides[:, 0], 0.35), _facing(sides[:, 1], 0.9)], axis=1)
    corner = ends - size * aligned
    lines = np.concatenate([np.broadcast_to(dot, ends.shape), ends], axis=1)
    return np.concatenate([corner, corner + size, lines], axis=1)


def _facing(side: Floats, steep: float) -> Floats:
    """Which part of a box stands at the end of its line: 0 its begin, 1 its end, 0.5 the middle."""
    return np.where(side > steep, 0.0, np.where(side < -steep, 1.0, 0.5))


def _alone(field: Field, places: Floats, dot: Floats) -> Floats:
    """What places cost whatever the other names do."""
    boxes, lines = places[:, :4], places[:, 4:]
    left, bottom, right, top = field.frame
    outside = (boxes[:, 0] < left) | (boxes[:, 1] < bottom)
    outside |= (boxes[:, 2] > right) | (boxes[:, 3] > top)
    middle = (field.dots[:, :2] + field.dots[:, 2:]) / 2
    foreign = field.dots[np.abs(middle - dot).max(axis=1) > 1.0]
    cost = _A_PIXEL * _length(lines) + 1e6 * outside
    cost += _ON_A_DOT * _overlap(boxes, field.dots).sum(axis=1)
    cost += _BY_ANOTHER * (_overlap(boxes + _AROUND, foreign) > 0).sum(axis=1)
    cost += _ON_A_BAR * _within(field.bars, boxes).T.sum(axis=1)
    drawn = _length(lines) > LINE_FROM
    return np.asarray(cost + drawn * _LINE_ON_A_DOT * _within(lines, foreign).sum(axis=1))


def _beside(places: Floats, stand: Floats) -> Floats:
    """What places cost beside the names that stand already."""
    boxes, lines = places[:, :4], places[:, 4:]
    drawn, theirs = _length(lines) > LINE_FROM, _length(stand[:, 4:]) > LINE_FROM
    cost = _ON_A_NAME * _overlap(boxes, stand[:, :4]).sum(axis=1)
    cost += _LINE_ON_A_NAME * drawn * _within(lines, stand[:, :4]).sum(axis=1)
    cost += _LINE_ON_A_NAME * (_within(stand[:, 4:], boxes).T * theirs).sum(axis=1)
    crossings = _cross(lines, stand[:, 4:]) * drawn[:, None] * theirs
    return np.asarray(cost + _LINES_CROSS * crossings.sum(axis=1))


def _length(lines: Floats) -> Floats:
    return np.asarray(np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]))


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """1 and more where two boxes share ground, the more the more they share."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.clip(high - low, 0.0, None).prod(axis=2)
    return np.asarray(np.where(shared > 0, 1.0 + shared / 100.0, 0.0))


def _within(lines: Floats, boxes: Floats) -> Floats:
    """Whether a line runs through a box, for each line and each box.

    Along each axis the line is between the sides of the box for a stretch of its way (from 0
    to 1); it is in the box where the two stretches meet.
    """
    start = lines[:, None, :2]
    way = lines[:, None, 2:] - start
    way = np.where(np.abs(way) < _TINY, _TINY, way)
    low, high = ((boxes[None, :, side] - start) / way for side in (slice(0, 2), slice(2, 4)))
    enter = np.minimum(low, high).max(axis=2)
    leave = np.maximum(low, high).min(axis=2)
    return np.asarray((enter <= leave) & (leave >= 0) & (enter <= 1), dtype=np.float64)


def _cross(lines: Floats, others: Floats) -> Floats:
    """Whether two lines cross, for each pair."""
    a, b = lines[:, None, :2], lines[:, None, 2:]
    c, d = others[None, :, :2], others[None, :, 2:]
    apart = (_side(a, b, c) * _side(a, b, d) < 0) & (_side(c, d, a) * _side(c, d, b) < 0)
    return np.asarray(apart, dtype=np.float64)


def _side(start: Floats, end: Floats, point: Floats) -> Floats:
    """On which side of a line a point lies, by the sign."""
    along, toward = end - start, point - start
    return np.asarray(along[..., 0] * toward[..., 1] - along[..., 1] * toward[..., 0])


def groups(points: Floats, near: float) -> list[list[int]]:
    """Points that lie on each other, by number; each group is told by its first."""
    found: list[list[int]] = []
    for one, point in enumerate(points):
        for group in found:
            if np.hypot(*(points[group[0]] - point)) < near:
                group.append(one)
                break
        else:
            found.append([one])
    return found


def boxes_around(points: Floats, half: float) -> Floats:
    return np.concatenate([points - half, points + half], axis=1)


def as_rows(lines: Sequence[Floats]) -> Floats:
    return np.array(lines, dtype=np.float64).reshape(-1, 4)

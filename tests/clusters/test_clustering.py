"""KNOT's assignment, against hand-made numbers and an exhaustive search."""

from itertools import product

import numpy as np
import pytest

from pfedul.clusters.forming import Trait, assign, cheapest, distances, size_limits


def test_a_toy_of_six_clients_and_two_clusters_goes_to_the_near_anchors():
    quick = {f"quick-{n}": Trait(10 + n, 0.5) for n in range(3)}
    slow = {f"slow-{n}": Trait(100 + n, 1.0) for n in range(3)}
    found = assign({**slow, **quick}, 2)
    assert {name: found[name] for name in quick} == dict.fromkeys(quick, 1)
    assert {name: found[name] for name in slow} == dict.fromkeys(slow, 2)


def test_distances_by_hand():
    # Times 2, 4, 6 become 0, 1/2, 1; anchors are (0, 1/2) and (1, 1).
    found = distances([Trait(2, 0.5), Trait(4, 0.25), Trait(6, 1.0)], 2)
    by_hand = [
        [0.0, np.hypot(1, 0.5)],
        [np.hypot(0.5, 0.25), np.hypot(0.5, 0.75)],
        [np.hypot(1, 0.5), 0.0],
    ]
    assert found == pytest.approx(np.array(by_hand))


def test_equal_times_leave_the_directions_to_decide():
    found = assign(
        {"a": Trait(5, 0.4), "b": Trait(5, 0.9), "c": Trait(5, 0.6), "d": Trait(5, 1)}, 2
    )
    assert found == {"a": 1, "c": 1, "b": 2, "d": 2}


@pytest.mark.parametrize(("rows", "columns"), [(4, 2), (7, 2), (6, 3), (7, 3), (5, 5), (3, 1)])
def test_the_sum_is_the_smallest_that_an_exhaustive_search_finds(rows, columns):
    limits = size_limits(rows, columns)
    for seed in range(5):
        costs = np.random.default_rng(seed).random((rows, columns))
        found = cheapest(costs, limits)
        counts = np.bincount(found, minlength=columns)
        assert counts.min() >= limits[0]
        assert counts.max() <= limits[1]
        best = min(
            costs[range(rows), columns_of].sum()
            for columns_of in product(range(columns), repeat=rows)
            if limits[0] <= np.bincount(columns_of, minlength=columns).min()
            and np.bincount(columns_of, minlength=columns).max() <= limits[1]
        )
        assert costs[range(rows), found].sum() == pytest.approx(best)

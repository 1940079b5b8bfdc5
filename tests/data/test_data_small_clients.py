"""Clients that hold too little."""

from __future__ import annotations

import numpy as np
import pytest

from pfedul.data.load import without_small
from pfedul.data.partitions.base import ClientIndices
from pfedul.errors import PfedulError


def holding(train: int, test: int) -> ClientIndices:
    return ClientIndices(np.arange(train), np.arange(test))


HOLDINGS = {"large": holding(10, 1), "untested": holding(50, 0), "untrained": holding(9, 5)}


def test_too_few_to_train_or_none_to_test_is_small():
    kept, warnings = without_small(HOLDINGS, 10, "drop")
    assert list(kept) == ["large"]
    assert warnings == (
        "Client untested (50 training, 0 test) was left out as too small.",
        "Client untrained (9 training, 5 test) was left out as too small.",
    )


def test_large_clients_pass_without_a_word():
    large = {"large": HOLDINGS["large"]}
    assert without_small(large, 10, "error") == (large, ())


def test_the_refusal_names_them():
    with pytest.raises(PfedulError, match=r"2 of 3 .* untested \(50 training, 0 test\), untrained"):
        without_small(HOLDINGS, 10, "error")


def test_a_long_list_is_cut():
    many = {f"c{number}": holding(1, 1) for number in range(8)}
    with pytest.raises(PfedulError, match=r"c4 \(1 training, 1 test\) and 3 more; try"):
        without_small({**many, "large": holding(10, 1)}, 10, "error")

"""Rows that several experiments share, under the names of the paper's tables."""

from __future__ import annotations

from pfedul.experiments.base import RETRAINED, UNTOUCHED, Row

NO_UNLEARN = Row("No-Unlearn", UNTOUCHED)
FINE_TUNE = Row("Fine-tune", "fine-tune")
GA_NAIVE = Row("GA-Naive", "ga-naive")
FEDERASER = Row("FedEraser-adapt.", "federaser")
PRINTED = Row("pFedUL", "pfedul:correction=paper", "as printed: Algorithm 1 with Section 4.1")
SATURATED = Row(
    "pFedUL, saturated",
    "pfedul:correction=paper,step=1e9,layers=all",
    "every entry of every layer at the bound of Eq. 11: no unit of g, step size or number of "
    "rounds can move further",
)
DEFAULT = Row("ours", "pfedul", "the default of `pfedul forget`")
WITHOUT_ROUNDS = Row(
    "ours, without rounds", "pfedul:repair-rounds=0", "the default with --repair-rounds 0"
)
RETRAIN = Row("Retrain", RETRAINED)

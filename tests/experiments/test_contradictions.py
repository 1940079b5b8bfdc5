"""The contradictions inside the paper that docs/fidelity.md lists, from the printed figures.

What the claims of experiments say (`test_claims.py`) is not repeated here.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from pfedul.experiments import EXPERIMENTS

OURS = "pFedUL"


def figures(experiment: str, row: str, column: str) -> list[float]:
    """What the paper prints of a row, group by group."""
    places = EXPERIMENTS[experiment].printed.items()
    return [value for (*_, name, kind), value in places if (name, kind) == (row, column)]


def figure(experiment: str, row: str, column: str) -> float:
    """CIFAR-10 under FedRep, where this is the only group."""
    (value,) = figures(experiment, row, column)
    return value


def cifar10_fedrep(experiment: str, row: str, column: str) -> float:
    return EXPERIMENTS[experiment].printed["CIFAR-10", "FedRep", row, column]


@pytest.mark.parametrize(
    ("row", "least", "stated"),
    [(OURS, 0.984, 0.963), ("GA-Naive", 0.909, 0.791), ("FedEraser-adapt.", 0.951, 0.839)],
)
def test_the_ranges_of_section_4_6_allow_no_cfi_as_low_as_table_5s(row, least, stated):
    """The deviation of figures between two bounds is at most half of what lies between these."""
    low, high = (figure("client-ratios", row, column) for column in ("lowest", "highest"))
    assert 1 - (high - low) / 2 >= least > cifar10_fedrep("table5", row, "cfi") == stated


def test_all_layers_are_ga_naive_and_not_the_same_configuration_without_attribution():
    own = [figure("table7", "All layers", column) for column in ("mia", "accuracy", "pps")]
    tables = ("table4", "table4", "table5")
    columns = ("mia", "accuracy", "pps")
    naive = [
        cifar10_fedrep(table, "GA-Naive", column)
        for table, column in zip(tables, columns, strict=True)
    ]
    assert own == naive == [49.8, 73.1, 0.833]
    assert figure("figure2", "w/o Attribution", "pps") == 0.921


def test_random_layers_are_between_high_and_low_ones_by_the_attack_alone():
    order = ["High", "Low", "Random"]
    assert sorted(order, key=lambda row: figure("table7", row, "mia")) == ["High", "Random", "Low"]
    for column in ("accuracy", "pps"):
        assert sorted(order, key=lambda row: -figure("table7", row, column)) == order


def test_one_epoch_of_recalibration_is_none_and_two_do_not_restore_to_one_percent():
    epochs = [figure("recalibration-epochs", f"E_r = {n}", "pps") for n in (1, 2, 5)]
    assert epochs[0] == figure("figure2", "w/o Recalibration", "pps") == 0.948
    assert max(epochs) < 0.98


def test_what_section_4_2_says_of_federaser_and_of_the_distance_to_retraining():
    leak = [mia - 50 for mia in figures("table4", "FedEraser-adapt.", "mia")]
    assert (round(min(leak), 1), round(max(leak), 1)) == (2.7, 7.2)
    ours, retrain = (figures("table4", row, "accuracy") for row in (OURS, "Retrain"))
    gaps = [there - here for here, there in zip(ours, retrain, strict=True)]
    assert (round(min(gaps), 1), round(max(gaps), 1)) == (0.4, 0.8)


def test_zerofus_cfi_is_lower_than_section_4_4_says():
    assert min(figures("table6", "ZeroFU-adapt.", "cfi")) == 0.852 < 0.879


def distances(experiment: str, row: str) -> list[float]:
    return [abs(mia - 50) for mia in figures(experiment, row, "mia")]


@pytest.mark.parametrize(
    ("experiment", "row", "columns"), [("table6", "PGA-adapt.", 3), ("table4", "GA-Naive", 12)]
)
def test_figures_in_bold_are_not_nearest_to_a_half(experiment, row, columns):
    pairs = list(zip(distances(experiment, row), distances(experiment, OURS), strict=True))
    assert len(pairs) == columns
    assert all(other < ours for other, ours in pairs)


def test_the_abstracts_average_is_cifar_10s_figure_under_fedrep():
    ours, zerofu = (figures("table6", row, "pps") for row in (OURS, "ZeroFU-adapt."))
    gains = [100 * (one - other) for one, other in zip(ours, zerofu, strict=True)]
    assert [round(gain, 1) for gain in gains] == [6.3, 7.9, 6.0]
    assert round(fmean(gains), 1) == 6.7
    assert {group.personalization for group in EXPERIMENTS["table6"].groups} == {"fedrep"}


def test_two_epochs_of_a_head_take_as_long_as_119_of_retraining():
    seconds = {
        row: EXPERIMENTS["table8"].printed["CIFAR-10", "FedRep", row, "seconds"]
        for row in (OURS, "Retrain")
    }
    assert round(seconds[OURS] / (seconds["Retrain"] / (200 * 5))) == 119

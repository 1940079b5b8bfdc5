"""The declarations of experiments: what they name exists, and what was printed has its place."""

import pytest

from pfedul.compare.cells import cells_of, options_of
from pfedul.errors import PfedulError
from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.base import printed
from pfedul.experiments.cases import Scale, cases_of, settings_of
from pfedul.experiments.columns import COLUMNS
from pfedul.experiments.scales import SCALES, preset, preset_names
from pfedul.settings import from_mapping
from pfedul.unlearn.methods import METHODS

EVERY = list(EXPERIMENTS)
ASKED_FOR = (
    "table2 table4 table5 table6 table7 table8 table9 figure2 figure3a figure3b figure3c "
    "recalibration-epochs client-ratios frontier sequence"
)


def test_every_table_and_figure_is_there():
    assert [one.name for one in EVERY] == ASKED_FOR.split()


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_printed_figures_have_a_place(one):
    groups = {(group.part, group.name) for group in one.groups}
    rows, columns = {row.name for row in one.rows}, set(one.columns)
    for part, group, row, column in one.printed:
        assert (part, group) in groups
        assert row in rows
        assert column in columns


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_names_are_unique_and_methods_are_known(one):
    names = [row.name for row in one.rows]
    assert len(set(names)) == len(names)
    assert set(one.columns) <= COLUMNS.keys()
    if one.direct is None:
        assert len(cells_of(one.methods, [None])) == len(one.methods)


@pytest.mark.parametrize("one", [e for e in EVERY if e.picture], ids=lambda one: one.name)
def test_pictures_name_what_is_there(one):
    lines = one.picture.series.values()
    for rows in lines:
        assert set(rows) <= {row.name for row in one.rows}
        assert len(rows) == len(one.picture.x)
    if one.picture.kind == "lines" and not lines:
        assert len(one.groups) == len(one.picture.x)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_settings_of_every_group_are_valid(one, scale):
    for group in one.groups:
        assert from_mapping(settings_of(group, scale), "the scale")


def test_a_preset_for_each_scale_and_data_set():
    data = ("cifar10", "cifar100", "femnist")
    assert set(preset_names()) == {f"{scale}-{name}" for scale in SCALES for name in data}
    with pytest.raises(PfedulError, match="There is no preset 'cpu-mnist'; there are: cpu-cifar10"):
        preset("cpu-mnist")


def test_the_scale_paper_is_section_4_1():
    chosen = from_mapping(preset("paper-cifar10"), "the scale")
    assert (chosen.clients, chosen.rounds, chosen.local_epochs) == (20, 200, 5)
    assert (chosen.lr, chosen.momentum) == (0.01, 0.9)
    assert chosen.partition.startswith("dirichlet:alpha=0.5")
    assert chosen.model == "resnet18:stem=cifar,width=64,norm=batch"


def test_tables_share_their_cases():
    def names(*experiments: str) -> set[str]:
        return {case.name for case, _ in cases_of([EXPERIMENTS[n] for n in experiments], Scale())}

    assert names("table4") == names("table5")
    assert names("table8") < names("table4")
    assert len(names("table4")) == 3 * 4 * 5
    assert names("figure2") == names("table7") == names("client-ratios") < names("table8")


def test_experiments_with_few_federations_come_first():
    wanted = [EXPERIMENTS[name] for name in ("table4", "table6", "table7")]
    cases = [case for case, _ in cases_of(wanted, Scale(seeds=2))]
    seeds = [case.settings["seed"] for case in cases]
    data = [case.settings["data"].partition(":")[0] for case in cases]
    assert seeds[:2] == [0, 1]
    assert data[:2] == ["cifar10"] * 2
    assert data[2:6] == ["cifar100", "femnist"] * 2
    assert len(cases) == 24


def test_cases_of_one_training_share_its_federation():
    both = [EXPERIMENTS[name] for name in ("figure3c", "sequence")]
    cases = [case for case, _ in cases_of(both, Scale(seeds=2))]
    assert len({case.federation for case in cases}) == 2
    assert len({case.name for case in cases}) == len(cases) == 2 * 6
    skewed = [case.federation for case, _ in cases_of([EXPERIMENTS["figure3b"]], Scale(seeds=1))]
    assert len(set(skewed)) == 4


def test_seeds_come_first_so_that_an_interrupted_table_has_every_column():
    cases = [case for case, _ in cases_of([EXPERIMENTS["table4"]], Scale(seeds=2))]
    assert [case.settings["seed"] for case in cases] == [0] * 12 + [1] * 12


def test_fedrecovery_has_the_noise_that_its_row_speaks_of():
    rows = {row.name: row for row in EXPERIMENTS["table6"].rows}
    for name, sigma in (
        ("FedRecovery-adapt.", 0.02),
        ("FedRecovery, little noise", 0.001),
        ("FedRecovery, without noise", 0.0),
    ):
        options = METHODS.parse(options_of(rows[name].method).method)[1]
        assert options.sigma == sigma
        assert not sigma or f"sigma = {sigma:g}" in rows[name].note


def test_ditto_is_never_shown_without_its_shared_model():
    assert "shared" in EXPERIMENTS["table4"].columns
    assert {"cpu", "sent"} <= set(EXPERIMENTS["table8"].columns)


def test_printed_rows_are_checked():
    table = printed("p", ["A", "B"], ["mia", "pps"], "One | 50 - 51 .9")
    assert table == {
        ("p", "A", "One", "mia"): 50.0,
        ("p", "B", "One", "mia"): 51.0,
        ("p", "B", "One", "pps"): 0.9,
    }
    with pytest.raises(PfedulError, match="'One' has 3 figures"):
        printed("p", ["A", "B"], ["mia", "pps"], "One | 50 51 .9")

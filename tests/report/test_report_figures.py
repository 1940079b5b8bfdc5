"""Pictures of plans and scores."""

import pytest

from pfedul import PfedulError
from pfedul.report.sections.layers import save_plan, save_score_map
from pfedul.unlearn.pfedul.plan import LayerPlan, Plan, PlanOptions

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def plan(*scores: float) -> Plan:
    layers = tuple(
        LayerPlan(f"layer{index}", (f"w{index}",), 4, score, score > 0.4)
        for index, score in enumerate(scores)
    )
    return Plan(("ann", "bob"), 0.4, layers, {}, PlanOptions())


def test_a_plan_is_saved_as_png(tmp_path):
    save_plan(plan(0.1, 0.5, 0.3), tmp_path / "plan.png")
    picture = (tmp_path / "plan.png").read_bytes()
    assert picture.startswith(SIGNATURE)
    save_plan(plan(0.1, 0.2, 0.3), tmp_path / "other.png")
    assert (tmp_path / "other.png").read_bytes() != picture


def test_a_plan_without_layers_is_saved_too(tmp_path):
    save_plan(plan(), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(SIGNATURE)


def test_a_score_map_is_saved_as_png(tmp_path):
    save_score_map({"ann": [0.1, 0.9], "bob": [0.9, 0.1]}, ["one", "two"], tmp_path / "map.png")
    picture = (tmp_path / "map.png").read_bytes()
    assert picture.startswith(SIGNATURE)
    save_score_map({"ann": [0.9, 0.1], "bob": [0.1, 0.9]}, ["one", "two"], tmp_path / "other.png")
    assert (tmp_path / "other.png").read_bytes() != picture


@pytest.mark.parametrize("name", ["missing/plan.png", "plan.unknown", "folder.png"])
def test_a_place_where_no_picture_can_be_is_refused(name, tmp_path):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(PfedulError, match="picture cannot be saved"):
        save_plan(plan(0.1, 0.5), tmp_path / name)
    with pytest.raises(PfedulError, match="picture cannot be saved"):
        save_score_map({"ann": [0.1]}, ["one"], tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]

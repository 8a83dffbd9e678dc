import json

import pytest

from treetop.core import curve
from treetop.core.sealed import seal


def point(stage, step, **more):
    return {"stage": stage, "epoch": step / 10, "step": step, "seconds": 1.0, "loss": 0.5, **more}


def test_points_come_in_order_and_later_lines_replace_earlier_ones(tmp_path):
    (tmp_path / "member-01").mkdir()
    for stage, step, loss in (("b", 10, 3.0), ("b", 20, 2.0), ("b", 10, 1.0), ("a", 10, 0.5)):
        curve.append(tmp_path / curve.FILE, point(stage, step, loss=loss))
    curve.append(tmp_path / "member-01" / curve.FILE, point("b", 10, loss=7.0))
    made = curve.gather(tmp_path)
    assert [(p["stage"], p["step"], p["loss"]) for p in made] == [
        ("b", 10, 1.0), ("b", 20, 2.0), ("a", 10, 0.5), ("member-01/b", 10, 7.0),
    ]  # fmt: skip


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    curve.append(tmp_path / curve.FILE, point("a", 10))
    with (tmp_path / curve.FILE).open("a") as file:
        file.write(json.dumps(point("a", 20))[:25])
    assert [p["step"] for p in curve.gather(tmp_path)] == [10]
    assert curve.gather(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "wrong", [None, 3, "x", {}, {"stage": 1, "step": 1, "epoch": 1}, point("a", 1, loss="<b>"), point("a", True)]
)
def test_what_is_no_point_is_left_out(tmp_path, wrong):
    (tmp_path / "run.json").write_bytes(seal({"curve": [point("a", 10), wrong]}))
    assert curve.of_model(tmp_path) == [point("a", 10)]
    (tmp_path / "run.json").write_bytes(seal({"curve": wrong}))
    assert curve.of_model(tmp_path) == []


def test_models_without_a_curve_have_none(tmp_path):
    assert curve.of_model(tmp_path) == []
    (tmp_path / "run.json").write_bytes(seal({"seconds": 1.0}))
    assert curve.of_model(tmp_path) == []
    (tmp_path / "run.json").write_bytes(b"{damaged")
    assert curve.of_model(tmp_path) == []

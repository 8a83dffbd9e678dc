from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from treetop.core.config import build, describe, override, read_yaml, setting, to_dict, type_name
from treetop.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = setting(1.0, "step size", low=0.0)
    layers: tuple[int, ...] = setting((1, 2), "which")


@dataclass(frozen=True, kw_only=True)
class Outer:
    beam: int = setting(10, "kept", low=1, high=100)
    loss: Literal["hinge", "logistic"] = setting("hinge", "which loss")
    cap: int | None = setting(None, "no more than")
    fast: bool = setting(False, "quick")
    span: tuple[int, int] | None = setting(None, "from and to")
    inner: Inner = setting(Inner(), "inside")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beem": 3}, "beem: unknown setting. Known here: beam, loss, cap, fast, span, inner. Did you mean 'beam'?"),
        ({"rate": 3}, "rate: unknown setting. Known here: beam, loss, cap, fast, span, inner. "
         "Did you mean 'inner.rate'?"),
        ({"beam": "8"}, "beam: expected int, got str '8'. YAML read it as text: write 8 without quotes."),
        ({"beam": True}, "beam: expected int, got bool True."),
        ({"beam": 1.5}, "beam: expected int, got float 1.5."),
        ({"beam": 0}, "beam: 0 is out of range. Allowed: 1 to 100."),
        ({"cap": 10**5000}, "cap: a number of 5001 digits is out of range. Give a smaller one."),
        ({"cap": [10**5000]}, "cap: expected int or null, got list (too many digits to show)."),
        ({"cap": 10**400}, "cap: a number of 401 digits is out of range. Give a smaller one."),
        ({"inner": {"rate": 10**400}}, "inner.rate: a number of 401 digits is out of range. Give a smaller one."),
        ({"fast": 1}, "fast: expected bool, got int 1. Write true or false."),
        ({"loss": "hindge"}, "loss: unknown value 'hindge'. Choose one of 'hinge', 'logistic'. Did you mean 'hinge'?"),
        ({"loss": np.zeros(2)}, "loss: unknown value array([0., 0.]). Choose one of 'hinge', 'logistic'."),
        ({"cap": "x"}, "cap: expected int or null, got str 'x'."),
        ({"inner": {"rate": "5e-5"}}, "inner.rate: expected float, got str '5e-5'. YAML read it as text: "
         "write 5.0e-5 without quotes."),
        ({"inner": {"rate": "1e5"}}, "inner.rate: expected float, got str '1e5'. YAML read it as text: "
         "write 1.0e+5 without quotes."),
        ({"inner": {"rate": float("nan")}}, "inner.rate: nan is out of range. Allowed: 0.0 or more."),
        ({"inner": {"rate": "nan"}}, "inner.rate: expected float, got str 'nan'. Write a finite number."),
        ({"inner": {"layers": [1, "2"]}}, "inner.layers[1]: expected int, got str '2'. YAML read it as text: "
         "write 2 without quotes."),
        ({"inner": {"layers": 3}}, "inner.layers: expected a list, got int 3. Write [a, b]."),
        ({"inner": Inner(rate=-1.0)}, "inner.rate: -1.0 is out of range. Allowed: 0.0 or more."),
        ({"span": 2}, "span: expected tuple[int, int] or null, got int 2. Write [a, b]."),
        ({"beam": "8,fast=true"}, "beam: expected int, got str '8,fast=true'. Give each setting its own --set."),
        ({"inner": 3}, "inner: expected a group of settings, got int 3. Set one of inner.rate, inner.layers."),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_with_path_and_hint(values, message):
    with pytest.raises(ConfigError) as caught:
        build(Outer, values)
    assert str(caught.value) == message


def test_round_trip_and_nested_defaults():
    made = build(Outer, {"inner": {"rate": 2}, "cap": None})
    assert made == Outer(inner=Inner(rate=2.0))
    assert build(Outer, to_dict(made)) == made
    assert [row[0] for row in describe(Outer)] == ["beam", "loss", "cap", "fast", "span", "inner.rate", "inner.layers"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    block: Outer = setting(Outer(beam=7, inner=Inner(rate=3.0)), "a block with values of its own")


def test_defaults_of_the_field_win_over_those_of_its_class():
    """At any depth: what is shown, and what stays when something beside it is set."""
    shown = {row[0]: row[2] for row in describe(Recipe)}
    assert shown["block.beam"] == 7 and shown["block.inner.rate"] == 3.0
    made = build(Recipe, {"block": {"inner": {"layers": [5]}}})
    assert made.block == Outer(beam=7, inner=Inner(rate=3.0, layers=(5,)))


def test_overrides_reach_inner_settings_or_are_refused():
    values = override({"beam": 3}, ["inner.layers=[3]", "fast=true", "beam=4"])
    assert build(Outer, values) == Outer(beam=4, fast=True, inner=Inner(layers=(3,)))
    for wrong, message in {
        "beam": "--set beam: expected name=value, for example --set linear.beam=20.",
        "beam.x=1": "--set beam.x=1: 'beam' is a plain value and has no settings inside.",
        "beam=[": "--set beam=[: cannot read the value '[' as YAML.",
        "beam=2020-13-45": "--set beam=2020-13-45: cannot read the value '2020-13-45' as YAML.",
    }.items():
        with pytest.raises(ConfigError) as caught:
            override({"beam": 3}, [wrong])
        assert str(caught.value) == message


def test_yaml_files_are_read_strictly(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("inner:\n  rate: 5e-5\n")
    with pytest.raises(ConfigError, match="inner.rate: expected float, got str '5e-5'"):
        build(Outer, read_yaml(file))
    file.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected settings as 'name: value' lines, got list"):
        read_yaml(file)
    file.write_text("rate: 2020-13-45\n")
    with pytest.raises(ConfigError, match="cannot be read as YAML: month must be in"):
        read_yaml(file)
    with pytest.raises(ConfigError, match="cannot be read as YAML"):
        read_yaml(tmp_path / "absent.yaml")


def test_types_read_well():
    assert type_name(tuple[int, ...]) == "list of int"
    assert type_name(tuple[int, int] | None) == "list of 2 int or null"
    assert type_name(tuple[tuple[int, ...], ...]) == "list of list of int"
    assert type_name(float | None) == "float or null"


@dataclass(frozen=True)
class Named:
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(("written", "names"), [("a,b", ("a", "b")), (" a , b,", ("a", "b")), ("a", ("a",)), ("", ())])
def test_a_list_of_names_may_be_written_with_commas(written, names):
    assert build(Named, {"names": written}).names == names


def test_names_with_commas_from_the_command_line():
    assert build(Named, override({}, ["names=xr_linear,unidec:cpu"])).names == ("xr_linear", "unidec:cpu")

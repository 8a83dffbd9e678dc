import pytest

from fuzz.harness import run_module


def test_changed_models_are_refused_or_answer():
    """A few dozen of the cases that `make fuzz` runs by the ten thousand."""
    done = run_module("models", "--cases", 40, "--seed", 11, "--recipes", "popular,xr_linear")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 cases" in done.stdout


def test_networks_are_found_by_the_command_alone():
    """Their settings are those of the battery, which only the command's own path leads to."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    done = run_module("models", "--cases", 2, "--seed", 11, "--recipes", "decaf")
    assert done.returncode == 0, done.stdout + done.stderr

"""`treetop warmup` uses small models of all linear recipes, and says what it compiled and where that is kept."""

import re

import treetop.cli.warmup as command
from command import run


def test_every_linear_recipe_is_used():
    assert {"popular", "neighbours", "xr_linear", "parabel", "bonsai", "dismec", "extremetext"} <= set(
        command._recipes()
    )
    assert not {"unidec", "sentence_neighbours"} & set(command._recipes())  # they read an encoder, perhaps from a hub


def test_kernels_are_kept(monkeypatch, capsys):
    monkeypatch.setattr(command, "_recipes", lambda: ["popular"])
    command.warmup()
    assert re.fullmatch(r"kernels compiled in .*/kernels-\w+: \d+ new, \d+ s\n", capsys.readouterr().out)


def test_is_a_command():
    assert "Compile the numeric kernels" in run("warmup", "--help").stdout

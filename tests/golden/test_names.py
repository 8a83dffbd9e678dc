"""No public name of a released version is gone without a word in the change log of a later one."""

import re
from pathlib import Path

import pytest

import treetop

from .names import current

NAMES = sorted((Path(__file__).parent / "names").glob("*.txt"))
CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def gone(before, now, later):
    """Names that are no longer there and that the change log since does not name in backticks."""
    told = {word for span in re.findall(r"`([^`]*)`", later) for word in span.split()}
    return [name for name in before if name not in now and name.split()[-1] not in told]


@pytest.mark.parametrize("file", NAMES, ids=lambda file: file.stem)
def test_public_names_do_not_vanish_unannounced(file):
    later = CHANGELOG.partition(f"\n## {file.stem} ")[0]
    assert gone(file.read_text(encoding="utf-8").splitlines(), {*current()}, later) == []


def test_names_of_every_released_version_are_kept():
    assert {file.stem for file in NAMES} == set(re.findall(r"^## (\d\S*) - ", CHANGELOG, flags=re.M))
    assert treetop.__version__ in {file.stem for file in NAMES}


def test_what_vanishes_is_seen():
    now = {*current()}
    assert now > {"python treetop.fit", "treetop fit --out", "treetop labels add", "setting xr_linear linear.beam"}
    assert gone(["treetop fit --old", "treetop old"], now, "`--older` and old") == ["treetop fit --old", "treetop old"]
    assert gone(["treetop fit --old"], now, "### Removed\n- `fit --old`.") == []

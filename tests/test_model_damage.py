"""Random damage to a saved model: `verify` catches all of it, `load` and `predict` never crash."""

import shutil

import numpy as np
import pytest

import toy
import treetop
from treetop.core.errors import TreetopError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    treetop.fit("neighbours", toy.dataset(), keep_texts=True, out=folder)
    return folder


def damage(folder, random):
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
    file = files[random.integers(len(files))]
    raw = bytearray(file.read_bytes())
    if random.random() < 0.7:
        raw[random.integers(len(raw))] ^= 1 << random.integers(8)
    else:
        raw = raw[: random.integers(len(raw))]
    file.write_bytes(raw)
    return file


@pytest.mark.parametrize("seed", range(200))
def test_damage_is_found_and_named(saved, tmp_path, seed):
    folder = tmp_path / "m"
    shutil.copytree(saved, folder)
    file = damage(folder, np.random.default_rng(seed))
    with pytest.raises(TreetopError):
        treetop.load(folder, check="full")
    try:
        model = treetop.load(folder)
        model.predict(["cat and horses", ""], k=5)
        model.nearest("cat and horses")
    except TreetopError as error:
        assert str(folder) in str(error), file

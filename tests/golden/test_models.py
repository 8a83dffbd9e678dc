"""Models of every released version open and answer as they did; a format of another version is refused."""

import json
import re
import shutil
from pathlib import Path

import pytest

import treetop
from treetop.core.errors import ModelError
from treetop.core.sealed import seal

MODELS = Path(__file__).parent / "models"
KEPT = sorted(file.with_suffix("") for file in MODELS.glob("*/*.jsonl"))
NETWORKS = {"dual", "network"}
CHANGELOG = (MODELS.parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_model_of_a_released_version_answers_as_it_did(folder):
    if folder.name in NETWORKS:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    model = treetop.load(folder, check="full")
    model.check_golden()
    rows = [json.loads(line) for line in folder.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
    now = model.predict([row["text"] for row in rows], k=len(rows[0]["labels"]))
    for row, labels in zip(rows, now, strict=True):
        ids, names, scores, probabilities = zip(*row["labels"], strict=True) if labels else ((), (), (), ())
        assert ([x.id for x in labels], [x.name for x in labels]) == ([*ids], [*names])
        assert [x.score for x in labels] == pytest.approx(scores, abs=1e-4)
        assert [x.probability for x in labels] == pytest.approx(probabilities, abs=1e-4)


def test_models_of_every_released_version_are_kept():
    released = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", CHANGELOG, flags=re.M)
    assert treetop.__version__ in released
    kinds = {version: {folder.name for folder in KEPT if folder.parent.name == version} for version in released}
    assert kinds == {version: {"blend", "dual", "lexical", "neighbours", "network", "tree"} for version in released}


def test_kept_models_name_no_place():
    for file in MODELS.rglob("*"):
        assert not file.is_file() or not re.search(rb"/(home|root|tmp|work)/", file.read_bytes()), file


@pytest.mark.parametrize(
    ("versions", "remedy"),
    [
        ({"treetop": "9.1.0"}, "Install treetop==9.1.0, which wrote it, or train again."),
        ({"treetop": "x; rm"}, "Install the treetop version that wrote it, or train again."),
        (None, "Install the treetop version that wrote it, or train again."),
    ],
)
def test_a_format_of_another_version_is_refused_with_the_remedy(tmp_path, versions, remedy):
    folder = shutil.copytree(MODELS / treetop.__version__ / "neighbours", tmp_path / "model")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_bytes(seal({**manifest, "format": 2, "versions": versions}))
    said = f"model format 2, but this treetop ({treetop.__version__}) reads 1. {remedy}"
    with pytest.raises(ModelError, match=re.escape(said)):
        treetop.load(folder)

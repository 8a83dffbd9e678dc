"""Write the models of this version, each with its answers, and its public names, below `tests/golden/`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

import toy
import treetop
from toy_encoder import write_encoder
from treetop import Model

from .names import current

TEXTS = [*toy.dataset(seed=5, n=4).texts, "a cats and dogs", "", "unseen words only"]
K = 6
ENCODER = {"encoder": {"model": "encoder", "max_length": 16}, "encoder_optimizer": {"lr": 0.01}}
SIZE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
TRAIN = {"epochs": 10.0, "batch_size": 16}
POOL = {"size": 24, "mine_from": 2, "mine_every": 4}
TFIDF = {"tfidf": {"min_df": 1, "ngrams": [1, 1]}}


def fit(recipe: str, settings: dict[str, Any] | None = None, **options: Any) -> Model:
    return treetop.fit(recipe, toy.dataset(n=120), settings=settings or {}, held_out=toy.dataset(1, 600), **options)


def dual() -> Model:
    """Every kind of change to labels that a dual encoder takes."""
    model = fit("unidec", {**ENCODER, "label_optimizer": {"lr": 0.02}, "pool": POOL, "train": TRAIN}, calibrate=False)
    model = model.add_labels({"new": {"name": "salt and wines", "text": "about salt and wines"}})
    return model.rename_labels({"L00": "renamed"}).retire_labels(["L03"]).merge_labels({"L05": "L06"})


KINDS: dict[str, Callable[[], Model]] = {
    "tree": lambda: fit("xr_linear", {**TFIDF, "tree": {"max_leaf": 10, "branching": 4}}),
    "neighbours": lambda: fit("neighbours", TFIDF, keep_texts=True),
    "blend": lambda: fit("blend", {"sources": ["xr_linear", "neighbours"]}),
    "lexical": lambda: fit("lexical"),
    "network": lambda: fit("lightxml", {**ENCODER, "head_optimizer": {"lr": 0.02}, "train": TRAIN}, calibrate=False),
    "dual": dual,
}


def answers(model: Model) -> list[dict[str, Any]]:
    """What a model answers to `TEXTS`."""
    rows = zip(TEXTS, model.predict(TEXTS, k=K), strict=True)
    return [{"text": t, "labels": [[x.id, x.name, x.score, x.probability] for x in row]} for t, row in rows]


def write(target: Path) -> None:
    """Train each kind in a folder of no name, so that no path of this machine gets into a model."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_encoder(Path("encoder"), **SIZE)
        for kind, make in KINDS.items():
            model = make()
            model.save(target / kind)
            (target / kind / "run.json").unlink()  # times and the system it was trained on; not part of the model
            lines = [json.dumps(row, ensure_ascii=False) for row in answers(treetop.load(target / kind))]
            (target / f"{kind}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    names = HERE / "names" / f"{treetop.__version__}.txt"
    names.parent.mkdir(exist_ok=True)
    names.write_text("\n".join(current()) + "\n", encoding="utf-8")
    write(HERE / "models" / treetop.__version__)

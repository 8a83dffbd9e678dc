"""Model folders that somebody changed and sealed again: `load` refuses them, or they give finite answers.

    python -m tests.fuzz.models --seconds 30 --seed 0 --recipes all

A case takes the toy model of a recipe, changes it (`model_mutations.py`), then loads it, predicts, evaluates, explains,
changes a label and saves it. `--models FOLDER` keeps the toy models for the next run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.harness import Case, Part, main

SMALL = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5}}
LINEAR: dict[str, dict[str, Any]] = {
    "popular": {},
    "neighbours": {"k": 20},
    "dismec": {"tfidf": {"min_df": 1}},
    "xr_linear": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 2}},
    "parabel": SMALL,
    "bonsai": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 4}},
    "extremetext": SMALL,
    "pfastrexml": {"trees": 4, "tree": {"max_leaf": 4}},
    "annexml": {"learners": 2, "cluster_size": 40, "width": 8, "tfidf": {"min_df": 1}},
    "blend": {"sources": ["popular", "neighbours"]},
    "auto": {"candidates": ["popular", "neighbours"]},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "xr_linear:float16": ("xr_linear", {"linear": {"storage": "float16"}}),
    "xr_linear:int8": ("xr_linear", {"linear": {"storage": "int8"}}),
    "xr_linear:chars": ("xr_linear", {"tfidf": {"char_ngrams": [2, 3]}}),
    "astec:lists": ("astec", {"index": "ivf", "list_size": 8}),
    "depsl:lists": ("depsl", {"search": {"index": "ivf"}}),
    "depsl:graph": ("depsl", {"search": {"index": "hnsw"}}),
    "ngame:fusion": (
        "ngame",
        {"fusion_weight": 1.0, "validation": 0.2, "search": {"index": "exact", "heads": "both", "dual_scale": 1.0}},
    ),
    "lightxml:members": ("lightxml", {"members": 2}),
    "cascadexml:linear": ("cascadexml", {"ranker": "both"}),
}
EXTRA = ("edited", "blended", "fused", "heads", "texts", "texts:vectors")  # trained, then changed, joined or more


def names(asked: str) -> list[str]:
    """Toy models by name; `all`: one of every recipe and variant."""
    from treetop.core import registry

    known = [*registry.names("recipe"), *VARIANTS, *EXTRA]
    chosen = known if asked == "all" else list(LINEAR) if asked == "linear" else asked.split(",")
    if unknown := [name for name in chosen if name not in known]:
        raise SystemExit(f"--recipes {unknown[0]}: unknown. Choose 'all', 'linear' or some of {','.join(known)}.")
    return chosen


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipes", default="all", help="toy models to change: 'all', 'linear', or names with commas")
    parser.add_argument("--models", type=Path, help="folder that keeps the toy models between runs")


def prepare(home: Path, options: argparse.Namespace) -> None:
    """Train the toy models that are not there yet; unchanged each of them answers, which also compiles its kernels."""
    chosen = names(options.recipes)
    for name in chosen if options.only is None else [chosen[options.only % len(chosen)]]:
        if not (folder := _place(home, options, name)).exists():
            build(name, folder)
        with tempfile.TemporaryDirectory() as again:
            use(folder, np.random.default_rng(0), Path(again) / "m")


def _place(home: Path, options: argparse.Namespace, name: str) -> Path:
    return (options.models or home / "models") / name.replace(":", "-")


def build(name: str, folder: Path) -> None:
    """Train and save one toy model."""
    import toy
    import treetop
    from treetop.core.config import merged

    if name == "edited":
        model = treetop.fit("lightxml", toy.dataset(), settings=_settings("lightxml"))
        model = model.add_labels({"N1": "about cats", "N2": "about wine and bread"}).retire_labels(["L03"])
        model.merge_labels({"L05": "L06"}).rename_labels({"L07": "seven"}).save(folder)
    elif name == "fused":
        from treetop.assemble.held_out.scores import calibrated

        models = [treetop.fit(recipe, toy.dataset(), settings=LINEAR[recipe]) for recipe in ("xr_linear", "neighbours")]
        joined = treetop.blend(models, held_out=toy.dataset(seed=2, n=600))
        calibrated(joined, toy.dataset(seed=3, n=600)).save(folder)
    elif name == "heads":
        settings = {**_settings("unidec"), "search": {"heads": "both"}}
        treetop.fit("unidec", toy.dataset(), settings=settings, held_out=toy.dataset(seed=2, n=600), out=folder)
    elif name.startswith("texts"):
        recipe = "lightxml" if name == "texts:vectors" else "xr_linear"
        treetop.fit(recipe, toy.dataset(), settings=_settings(recipe), keep_texts=True, out=folder)
    elif name == "blended":
        models = [treetop.fit(recipe, toy.dataset(), settings=LINEAR[recipe]) for recipe in ("xr_linear", "parabel")]
        treetop.blend(models, weights=[2, 1]).save(folder)
    else:
        recipe, more = VARIANTS.get(name, (name, {}))
        treetop.fit(recipe, toy.dataset(), settings=merged(_settings(recipe), more), out=folder)


def _settings(recipe: str) -> dict[str, Any]:
    if recipe in LINEAR:
        return LINEAR[recipe]
    from test_battery import brief

    settings: dict[str, Any] = brief(recipe)["settings"]
    return settings


def case(case: Case) -> str:
    """Change one toy model and use it."""
    from tests.fuzz.model_mutations import mutate

    chosen = names(case.options.recipes)
    name = chosen[case.number % len(chosen)]
    with tempfile.TemporaryDirectory(prefix="treetop-fuzz-model.") as home:
        folder = Path(home) / "m"
        shutil.copytree(_place(case.home, case.options, name), folder)
        done = mutate(folder, case.random)
        try:
            use(folder, case.random, Path(home) / "again")
        except BaseException as error:
            error.add_note(f"{name}: {'; '.join(done)}")
            raise
    return "answered"


def use(folder: Path, random: Any, again: Path) -> None:
    """Everything a user may do with a model; every answer must be finite and valid JSON.

    Not every model explains, and not every one takes new labels: such a refusal does not end a case.
    """
    import toy
    import treetop
    from treetop.core.errors import TreetopError

    model = treetop.load(folder, check=("full", "quick")[int(random.integers(2))])
    test = toy.dataset(seed=1, n=3)
    finite(model.predict([*test.texts, "", "cat " * 50], k=5))
    finite(model.evaluate(test, resamples=10).to_dict())
    steps: list[Callable[[], object]] = [
        lambda: finite([e.to_dict() for e in model.explain(test.texts[0], k=3)]),
        lambda: finite(model.nearest(test.texts[0])),
        model.check_golden,
        lambda: _edit_and_save(model, EDITS[int(random.integers(len(EDITS)))], again, test.texts),
        lambda: model.save(again, overwrite=True),
    ]  # fmt: skip
    for step in steps:
        try:
            step()
        except TreetopError:
            continue
    finite(model.predict(list(test.texts), k=50))


def _edit_and_save(model: Any, edit: Callable[[Any], Any], again: Path, texts: Any) -> None:
    changed = edit(model)
    finite(changed.predict(list(texts), k=50))
    changed.save(again)


EDITS: tuple[Callable[[Any], Any], ...] = (
    lambda model: model.add_labels({"new label": "about birds and engines"}),
    lambda model: model.add_labels({"new label": "about birds and engines"}),
    lambda model: model.retire_labels([model.labels.ids[0]]),
    lambda model: model.rename_labels({model.labels.ids[0]: "another name"}),
    lambda model: model.merge_labels({model.labels.ids[1]: model.labels.ids[2]}),
    lambda model: model.undo_labels(),
)


def finite(answer: object) -> None:
    """Refuse what JSON cannot say."""
    json.dumps(answer, allow_nan=False)


PART = Part("models", case, prepare, arguments)

if __name__ == "__main__":
    main(PART, module="tests.fuzz.models")

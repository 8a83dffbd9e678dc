"""Tables in Markdown files, generated from records between `<!-- table: NAME WORDS -->` and `<!-- end -->`.

Figures are medians over repetitions. Ratios are taken inside a repetition first, where both systems met the same load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools import records
from tools.docs import auto, cluster, fast, few, languages, packages, pairs, plans, recipes, runs, serve
from tools.docs.markdown import MISSING, markdown, text
from treetop.core.errors import InputError, choose

Records = dict[str, list[dict[str, Any]]]  # method -> repetitions
MARKED = re.compile(r"(<!-- table: (?P<call>[^>]*?) -->\n)(?P<body>.*?)(<!-- end -->)", re.S)


def update(file: Path, results: Path, *, check: bool = False) -> bool:
    """Rewrite the tables of a file; True when something was out of date. With `check` the file stays as it is."""
    text = file.read_text(encoding="utf-8")

    def fresh(found: re.Match[str]) -> str:
        name, *words = found["call"].split()
        build = TABLES[choose(f"{file}: table", name, TABLES, InputError)]
        return f"{found[1]}\n{build(results, words)}\n\n{found[4]}"

    updated = MARKED.sub(fresh, text)
    if updated.count("<!-- table:") != len(MARKED.findall(text)):
        raise InputError(f"{file}: a '<!-- table: ... -->' has no '<!-- end -->' after it.")
    if updated != text and not check:
        file.write_text(updated, encoding="utf-8")
    return updated != text


def load(file: Path) -> Records:
    """Records of one data set by method, repetitions in order; methods in the order of `methods`, unknown ones last."""
    from tools.peers.methods import OURS, PEERS

    place = {method.name: i for i, method in enumerate((*OURS, *PEERS))}
    found: Records = {}
    for (name, _), values in sorted(records.read(file).items()):
        found.setdefault(name, []).append(values)
    return dict(sorted(found.items(), key=lambda item: (place.get(item[0], len(place)), item[0])))


def value(values: dict[str, Any], path: str) -> float | None:
    """A figure of a record by dotted path, or None where the record has none."""
    node: Any = values
    for key in path.split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return float(node) if isinstance(node, int | float) else None


def middle(reps: list[dict[str, Any]], path: str) -> float | None:
    """The median of a figure over repetitions."""
    found = [figure for values in reps if (figure := value(values, path)) is not None]
    return median(found) if found else None


COSTS: tuple[tuple[str, str], ...] = (
    ("train CPU s", "train.cpu_s"),
    ("wall s", "train.wall_s"),
    ("peak MB", "train.peak_mb"),
    ("model MB", "model_mb"),
    ("docs per CPU s", "batch.docs_per_cpu_s"),
    ("one doc CPU µs", "single.cpu_us"),
    ("p50 ms", "single.p50_ms"),
    ("p99 ms", "single.p99_ms"),
)


def peers(results: Path, words: Sequence[str]) -> str:
    """`peers DATASET [filtered]`: every method on one data set, costs and accuracy."""
    dataset, *more = words
    block = "scores_filtered" if "filtered" in more else "scores"
    rows = []
    for method, reps in load(results / "peers" / f"{dataset}.jsonl").items():
        costs = [text(middle(reps, path)) for _, path in COSTS]
        scores = [_triple(reps, block, metric) for metric in ("P", "PSP")]
        rows.append([method, *costs, *scores, text(middle(reps, f"{block}.C@5"), 1), str(len(reps))])
    return markdown(["method", *(name for name, _ in COSTS), "P@1/3/5", "PSP@1/3/5", "C@5", "runs"], rows)


def _triple(reps: list[dict[str, Any]], block: str, metric: str) -> str:
    return "/".join(text(middle(reps, f"{block}.{metric}@{k}"), 2) for k in (1, 3, 5))


def ratios(results: Path, words: Sequence[str]) -> str:
    """`ratios [METHOD AGAINST]`: a method as a multiple of another, by default each of ours of its rival."""
    from tools.peers.methods import OURS

    wanted = [(words[0], words[1])] if words else [(method.name, method.rival) for method in OURS]
    rows = []
    for method, against in wanted:
        for file in _datasets(results):
            found = load(file)
            if method in found and against in found:
                cells = [_ratio(found[method], found[against], path) for _, path in COSTS]
                points = [_difference(found[method], found[against], f"scores.{m}") for m in ("P@1", "P@5", "PSP@5")]
                rows.append([f"{method} ÷ {against}", file.stem, *cells, *points])
    return markdown(["ratio", "data set", *(name for name, _ in COSTS), "P@1 −", "P@5 −", "PSP@5 −"], rows)


def _datasets(results: Path) -> list[Path]:
    return sorted((results / "peers").glob("*.jsonl"))


def _pairs(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], path: str) -> list[tuple[float, float]]:
    """Figures of the same repetition; a peer that ran once is met in that repetition only."""
    other = {values["rep"]: value(values, path) for values in theirs}
    found = [(value(values, path), other.get(values["rep"])) for values in ours]
    return [(a, b) for a, b in found if a is not None and b]


def _ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], path: str) -> str:
    met = _pairs(ours, theirs, path)
    return text(median(a / b for a, b in met), 2) if met else MISSING


def _difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], path: str) -> str:
    a, b = middle(ours, path), middle(theirs, path)
    return MISSING if a is None or b is None else f"{a - b:+.2f}"


def scale(results: Path, words: Sequence[str]) -> str:
    """`scale METHOD...`: what a method costs on the synthetic sets as their label count grows."""
    figures = (
        ("train CPU s", "train.cpu_s"),
        ("train peak MB", "train.peak_mb"),
        ("model MB", "model_mb"),
        ("opens in s", "first.open_s"),
        ("first answer MB", "first.resident_mb"),
        ("one doc CPU µs", "single.cpu_us"),
        ("p50 ms", "single.p50_ms"),
        ("p99 ms", "single.p99_ms"),
    )
    rows = []
    for file in _datasets(results):
        found = load(file) if file.stem.startswith("synthetic-") else {}
        for method in words:
            if method in found:
                labels = int(found[method][0]["data"]["labels"])
                cells = [text(middle(found[method], path)) for _, path in figures]
                rows.append((labels, [f"{method}, {labels:,} labels", *cells]))
    return markdown(["method", *(name for name, _ in figures)], [row for _, row in sorted(rows)])


def agreement(results: Path, words: Sequence[str]) -> str:
    """`agreement METHOD AGAINST SECOND`: the same ratios from the run `peers` and from another run."""
    method, against, second = words
    rows = []
    for file in _datasets(results):
        again = results / second / file.name
        runs = [load(file), load(again) if again.exists() else {}]
        if all(method in found and against in found for found in runs):
            pairs = [[_ratio(found[method], found[against], path) for found in runs] for _, path in COSTS]
            rows.append([file.stem, *(" · ".join(pair) for pair in pairs)])
    return markdown([f"{method} ÷ {against}", *(name for name, _ in COSTS)], rows)


def datasets(results: Path, words: Sequence[str]) -> str:
    """`datasets`: the shapes of the matrices all methods get."""
    rows = []
    for file in _datasets(results):
        facts = next((reps[0]["data"] for reps in load(file).values()), None)
        if facts is not None:
            counts = [text(facts[key], 0) for key in ("train", "test", "features", "labels", "labels_seen")]
            rows.append([file.stem, *counts, text(facts["features_per_text"], 1), text(facts["labels_per_text"], 1)])
    head = ["data set", "train", "test", "features", "labels", "seen in training", "features per text"]
    return markdown([*head, "labels per text"], rows)


def variants(results: Path, words: Sequence[str]) -> str:
    """`variants`: what one changed choice of XR-Linear is worth on each data set."""
    from tools.variants import VARIANTS

    rows = []
    for file in sorted((results / "variants").glob("*.jsonl")):
        found = records.read(file)
        for name, settings in VARIANTS.items():
            if (name, 1) in found:
                reps = [found[name, 1]]
                figures = [_triple(reps, "scores", metric) for metric in ("P", "PSP")]
                size = text(middle(reps, "model_mb"), 0)
                rows.append([file.stem, f"`{' '.join(settings)}`" if settings else "as it is", *figures, size])
    return markdown(["data set", "settings", "P@1/3/5", "PSP@1/3/5", "model MB"], rows)


def scores(results: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Recipe -> data set -> metrics of every recorded recipe; what `treetop recipes` shows."""
    made: dict[str, dict[str, dict[str, float]]] = {}
    for file in sorted((results / "recipes").glob("*.jsonl")):
        for values in (values for values in records.read(file).values() if values["name"] == values["recipe"]):
            kept = {metric: round(values["scores"][metric], 2) for metric in ("P@1", "P@5", "nDCG@10", "PSP@5")}
            made.setdefault(values["recipe"], {})[values["data"]["name"]] = kept
    return made


def speed(results: Path, words: Sequence[str]) -> str:
    """`speed`: figures of the single-part benchmarks."""
    tfidf = json.loads((results / "tfidf-speed.json").read_text())["cases"]["words 1-2"]
    seconds = text(json.loads((results / "evaluate-speed.json").read_text())["runs"][0]["cpu_s"])
    rows = [
        ["tf-idf, 155,846 titles, word 1- and 2-grams", f"{tfidf['ratio']:.1f} × as fast as scikit-learn"],
        ["metrics of 750,000 rankings of 100 labels", f"{seconds} CPU s"],
    ]
    return markdown(["what", "measured"], rows)


TABLES: dict[str, Callable[[Path, Sequence[str]], str]] = {
    "peers": peers,
    "ratios": ratios,
    "agreement": agreement,
    "scale": scale,
    "datasets": datasets,
    "recipes": recipes.recipes,
    "variants": variants,
    "speed": speed,
    "gpu": runs.gpu,
    "fast_encoder": fast.encoder,
    "fast_answers": fast.answers,
    "million_labels": fast.million,
    "serve_load": serve.load,
    "serve_most": serve.most,
    "languages": languages.languages,
    "char_ngrams": languages.char_ngrams,
    "long_documents": languages.long_documents,
    "few_documents": few.few_documents,
    "auto": auto.auto,
    "packages": packages.packages,
    "plans": plans.plans,
    "planned": cluster.planned,
    "cluster": cluster.cluster,
    "overhead": cluster.overhead,
    "processes": cluster.processes,
    "larger": cluster.larger,
    "gandalf": pairs.gandalf,
    "augmented": pairs.augmented,
}

"""The table of languages: what the features of a text are worth in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text


def languages(results: Path, words: Sequence[str]) -> str:
    """`languages`: P@5 on test by default, as words, with stems and with the setting that is best on valid."""
    sets: dict[str, dict[str, records.Record]] = {}
    for values in records.usable(results / "languages.jsonl").values():
        sets.setdefault(values["data"]["name"], {})[values["features"]] = values
    rows = []
    for name, found in sorted(sets.items()):
        best = max(found.values(), key=lambda values: values["valid_mean"])
        default = found["default"]
        cells = [text(found[kind]["P@5"], 1) if kind in found else MISSING for kind in ("as words", "stems")]
        low, high = default["interval"]
        rows.append(
            [
                name,
                cells[0],
                f"{text(default['P@5'], 1)} ({text(low, 1)} to {text(high, 1)})",
                cells[1],
                best["features"],
                text(best["P@5"], 1),
                text(best["valid_mean"] - default["valid_mean"], 1),
            ]
        )
    head = ["data set", "as words", "default (95 %)", "stems", "best on valid", "its P@5", "ahead on valid"]
    return markdown(head, rows)


def char_ngrams(results: Path, words: Sequence[str]) -> str:
    """`char_ngrams`: P@5 of words, of the default and of the best setting on parts of larger data, seeds together."""
    found: dict[tuple[str, str], dict[str, list[records.Record]]] = {}
    for values in records.usable(results / "char-ngrams.jsonl").values():
        place = found.setdefault((values["data"]["name"], values["what"]), {})
        place.setdefault(values["features"], []).append(values)
    rows = []
    for (name, what), kinds in sorted(found.items(), key=lambda item: (item[0][0].split(",")[0], _rows(item[1]))):
        if what != "choose" or ", " not in name or "default" not in kinds:
            continue
        means = {kind: _mean(values) for kind, values in kinds.items()}
        best = max(means, key=lambda kind: means[kind])
        tested = found.get((name, "test"), {})
        told = kinds["default"][0]
        rows.append(
            [
                name,
                text(told["facts"]["words"], 0),
                text(told["facts"]["new"], 2),
                *(text(means[kind], 1) for kind in ("words", "default")),
                "words" if told["chosen"] == "words" else "with characters",
                f"{text(means[best], 1)} ({best})",
                *(text(_mean(tested[kind]), 1) if kind in tested else MISSING for kind in ("words", "default")),
            ]
        )
    head = ["data", "words a text", "new words", "words", "default", "which is", "best", "test: words", "test: default"]
    return markdown(head, rows)


def long_documents(results: Path, words: Sequence[str]) -> str:
    """`long_documents`: what an encoder reads of long texts, seeds together, and the time of one training."""
    found: dict[tuple[str, str], list[records.Record]] = {}
    timed: dict[tuple[str, str], records.Record] = {}
    for values in records.usable(results / "long-documents.jsonl").values():
        place = (values["recipe"], values["reads"])
        if values["what"] == "test" and "fit_s" in values:
            timed[place] = values
        elif values["what"] == "test":
            found.setdefault(place, []).append(values)
    rows = []
    for place in sorted({*found, *timed}):
        seeds = found.get(place) or [timed[place]]
        clock = timed.get(place)
        took = MISSING if clock is None else f"{text(clock['fit_s'], 0)} s ({text(clock['forecast_s'], 0)} s)"
        scores = [text(sum(one[metric] for one in seeds) / len(seeds), 1) for metric in ("P@1", "P@5", "nDCG@5")]
        rows.append([f"`{place[0]}`", place[1], *scores, str(len(seeds)), took])
    head = ["recipe", "what is read", "P@1", "P@5", "nDCG@5", "seeds", "training (forecast)"]
    return markdown(head, rows)


def _rows(kinds: dict[str, list[records.Record]]) -> int:
    return int(next(iter(kinds.values()))[0]["data"]["train"])


def _mean(values: list[records.Record]) -> float:
    return float(sum(one["P@5"] for one in values) / len(values))

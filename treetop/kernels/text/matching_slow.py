"""What `matching.py` computes, one form after the other and with no index: its twin in tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.text.matching import CHANNELS, OCCURRENCES, SLACK, WHOLE, Index

Match = tuple[int, dict[int, int], NDArray[np.float32]]  # form, place of each word that was found, channels


def match_slow(words: list[int], hashes: list[int], index: Index, share: float) -> list[Match]:
    """Every form of the index that a text holds, forms ascending."""
    forms = ((f, index.words[a:b].tolist()) for f, (a, b) in enumerate(zip(index.ends, index.ends[1:], strict=False)))
    found = [_match(f, form, words, hashes, index) for f, form in forms if any(word in words for word in form)]
    kept = [each for each in found if each[2][0] >= np.float32(share) - SLACK and _reached(each, words, index)]
    _mark_inside(kept, index)
    return kept


def _reached(match: Match, words: list[int], index: Index) -> bool:
    """Crowded words find a form only where it is complete."""
    f, _, channels = match
    form = index.words[index.ends[f] : index.ends[f + 1]].tolist()
    there = [word for word in form if word in words]
    return bool(channels[0] >= WHOLE or not index.crowded[there[0]])


def _match(f: int, form: list[int], words: list[int], hashes: list[int], index: Index) -> Match:
    places = {word: [p for p, other in enumerate(words) if other == word] for word in form if word in words}
    anchor = next(word for word in form if word in places)
    trials = []
    for at in places[anchor][:OCCURRENCES]:
        near = {word: min(spots, key=lambda p: (abs(p - at), p)) for word, spots in places.items()}
        trials.append(near | {anchor: at})
    chosen = min(trials, key=lambda trial: max(trial.values()) - min(trial.values()))
    window = max(chosen.values()) - min(chosen.values()) + 1
    weights = [np.float32(index.weight[word]) for word in form]
    have = sum((w for word, w in zip(form, weights, strict=True) if word in places), np.float32(0))
    fewest, n = min(map(len, places.values())), len(words)
    written = index.hashes[index.ends[f] : index.ends[f + 1]].tolist()
    exact = [word in chosen and hashes[chosen[word]] == hash_ for word, hash_ in zip(form, written, strict=True)]
    spread = (places[anchor][-1] - places[anchor][0]) / n
    channels = [
        have / sum(weights, np.float32(0)), min(chosen.values()) / n, math.log(fewest), len(places) / window,
        sum(exact) / len(form), spread, min(1.0, len(places) * fewest / n), 0.0,
    ]  # fmt: skip
    return f, chosen, np.array(channels, np.float32)


def _mark_inside(found: list[Match], index: Index) -> None:
    """A match lies inside where each of its words belongs to a longer complete form."""
    sizes = np.diff(index.ends)
    for _, chosen, channels in found:
        longer = [
            max((int(sizes[g]) for g, other, c in found if c[0] >= WHOLE and place in other.values()), default=0)
            for place in chosen.values()
        ]
        channels[CHANNELS - 1] = float(min(longer) > len(chosen))

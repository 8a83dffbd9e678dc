"""Vectors for untrained labels from their texts: an estimate of what training would have learned.

Dual encoders carry what they need for that (`rank/dual.py`, measured in `assemble/dual/new_labels.py`). In recipes
with heads a label's vector and bias start from the encoded label text and are then trained. Over labels that did
learn, [vector, bias] is regressed on the direction of the text's vector (by the trained encoder) and on the log odds;
a new label gets what that says for its text and for the mean number of training texts. The regression is a multiple
of the identity plus a ridge term, whose strength is chosen by leaving labels out; with few labels the identity is all
there is. What a text cannot tell is missing from such a vector, so its margins stay too low to compete: all of them
are lifted until labels left out would be returned as often as they are when trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treetop.core.errors import ConfigError, ModelError
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Floats, Level
from treetop.edit.examples import TREES
from treetop.labels.text import texts_of
from treetop.predict.beam import nodes_above
from treetop.rank.dual import Dual
from treetop.rank.head import Head
from treetop.rank.linear import Linear
from treetop.rank.text_map import TextMap, unit
from treetop.shortlist.descend import Descend

if TYPE_CHECKING:
    from treetop.model import Model

TELLING = 0.6  # share of (own, other) label pairs that texts must order rightly
SAMPLE = 2048  # trained labels that show how texts and vectors belong together
PROBES = 512  # of them whose texts serve as documents
FEW = 20  # trained labels below which a dual encoder fits nothing to them
FEWEST = 8  # labels below which nothing can be said about how telling their texts are
AHEAD = np.float32(0.01)  # by which a label added to so few has a better margin at its own text than they
PARENTS = 3  # nodes above that a new label hangs under
STRENGTHS = np.geomspace(1e-3, 1e4, 22)  # of the ridge term, times the mean squared singular value
DEPTH, PAIRS, MOST = 10, 200, 0.1  # labels of an answer; fewest (label, text) pairs above the bar; their largest share


def heads_of(model: Model) -> list[Head]:
    """The last level of each member; refuses models whose labels are not vectors in an encoder's space."""
    can = "Dual encoders and recipes with label vectors can (unidec, lightxml); retire, rename and merge always work."
    name = model.card.recipe
    if model.card.models:
        raise ConfigError(
            "labels add: a blend cannot place new labels, as each of its models would need to. Train the models with "
            "them and blend again; retire, rename and merge always work."
        )
    heads: list[Any] = [levels[-1].rank for levels in model.members]
    halves = len(heads) == 2 and all(type(head) is Dual for head in heads) and _are_halves(*heads)
    for head, levels in zip(heads, model.members, strict=True):
        if type(head) not in (Head, Dual) or (isinstance(head, Dual) and "dual" not in head.widths and not halves):
            tree = len(levels) > 1 or name.rpartition("+")[2] in TREES  # few labels are a tree of one level
            by = "Give examples of the new ones (--examples). " if tree and isinstance(head, Linear) else ""
            raise ConfigError(f"labels add: '{name}' learns labels from training texts only ({head.kind}). {by}{can}")
    if len(heads) > 1 and model.blend != "average":
        raise ConfigError(f"labels add: '{name}' blends its members by '{model.blend}', not by 'average'. {can}")
    return heads


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused in the end
def fit_maps(model: Model) -> list[TextMap]:
    """The map from texts to vectors of the trained labels, for each member; refuses uninformative texts.

    Dual encoders need none.
    """
    heads = heads_of(model)
    if any(isinstance(head, Dual) for head in heads):
        return []
    counts = np.asarray(model.counts)
    known = np.flatnonzero((counts > 0) & np.all([np.isfinite(head.bias) for head in heads], axis=0))
    rows = np.random.default_rng(5).permutation(known)[:SAMPLE]
    if len(rows) == 0:
        raise ConfigError(f"labels add: '{model.card.recipe}' has no trained label to learn from. Train it again.")
    texts = texts_of(model.labels.texts.take(rows), model.labels.names.take(rows))
    views = model.views(Texts.concat([texts, Texts.of([str(row["text"]) for row in model.golden])]), {})
    odds = np.log((np.append(counts[rows], counts[known].mean()) + 0.5) / (model.n_train + 1.0)).astype(np.float32)
    maps = []
    for levels, head in zip(model.members, heads, strict=True):
        view, W = _view(levels[-1], head, views), np.concatenate([head.weight[rows], head.bias[rows, None]], axis=1)
        T, D = view[: len(rows)], view[len(rows) :] if len(model.golden) else view  # golden texts are documents
        try:
            text_map, share, guess = fit_map(T, W, odds, middle := middle_of(T, D))
        except np.linalg.LinAlgError as error:  # a decomposition that does not converge
            raise ModelError(
                "labels add: the model's label vectors or its encoder hold values that are too large or not finite "
                f"({error}). The model is damaged; copy it again."
            ) from None
        if len(rows) < FEWEST:
            logger.warning(
                "labels add: %d trained labels are too few to estimate how informative label texts are.", len(rows)
            )
        else:
            logger.info("label texts rank %.0f %% of the pairs of trained label vectors correctly", 100 * share)
        if share < TELLING:
            raise ConfigError(
                f"labels add: the label texts of this model are not informative enough (they rank "
                f"{100 * share:.0f} % of them rightly, {100 * TELLING:.0f} % are needed). Train again with texts that "
                "describe the labels."
            )
        probes = middle + (T[:PROBES] - T.mean(0)) * np.float32(_spread(D) / _spread(T))
        lift = lifted(probes, W, guess, _reach(levels, views, rows), model.n_trained)
        maps.append(replace(text_map, offset=text_map.offset + np.append(np.zeros(T.shape[1], np.float32), lift)))
    return maps


def _reach(levels: Sequence[Level], views: Any, rows: Any) -> Any:
    """(texts, labels) whether a text leads to the node above a label; everything where there is no such node."""
    shortlist: Any = levels[-1].shortlist
    n = min(PROBES, len(rows))
    above = nodes_above(levels, {name: views[name][:n] for name in {level.view for level in levels}})
    if above is None or not isinstance(shortlist, Descend):
        return np.ones((n, len(rows)), bool)
    parent = np.empty(shortlist.n, np.int64)
    parent[shortlist.children] = np.repeat(np.arange(shortlist.n_parents), np.diff(shortlist.indptr))
    kept = np.zeros((n, shortlist.n_parents), bool)
    kept[np.repeat(np.arange(n), np.diff(above.indptr)), above.ids] = True
    return kept[:, parent[rows]]


def middle_of(T: Floats, D: Floats) -> Floats:
    """Estimated centre of the documents: the mean of the few known ones `D`, drawn to that of the label texts `T`.

    As far as the distance between the two may be chance (James and Stein).
    """
    here, step = T.mean(0), D.mean(0) - T.mean(0)
    chance, far = _spread(D) ** 2 / len(D), float(step @ step)
    return here + step * np.float32(max(0.0, 1.0 - chance / far) if far > 0 else 0.0)


def _spread(X: Floats) -> float:
    """Spread of rows around the centre they were drawn from (their own mean is closer to them)."""
    return float(np.sqrt(((X - X.mean(0)) ** 2).sum() / max(len(X) - 1, 1))) or 1.0


def lifted(T: Floats, W: Floats, guess: Floats, reach: Any, n_labels: int) -> np.float32:
    """The offset at which estimated margins are in the top `DEPTH` as often as trained ones.

    `T` serves as documents; `reach` says which (text, label) pairs are scored. A text and its own label are excluded.
    """
    if len(W) < FEWEST:
        return np.float32(0)
    mask = reach & ~np.eye(len(T), len(W), dtype=bool)
    pairs = int(mask.sum())
    if pairs == 0:
        return np.float32(0)
    share = np.clip(DEPTH / (n_labels * mask.mean()), min(PAIRS / pairs, MOST), MOST)
    bar, ours = (np.quantile((T @ V[:, :-1].T + V[:, -1])[mask], 1 - share) for V in (W, guess))
    return np.float32(bar - ours)


def _view(level: Level, head: Head, views: Any) -> Floats:
    if level.view not in views:
        raise ConfigError(f"labels add: the model's labels read '{level.view}', which is not made from texts.")
    return head.squeezed(np.asarray(views[level.view], np.float32))


def fit_map(T: Floats, W: Floats, odds: Floats, middle: Floats) -> tuple[TextMap, float, Floats]:
    """(the map, how often a left-out label's vector is nearer to what its text says than to another's, what the map
    makes of each label when it is left out).

    `T` (labels, width) text vectors, `W` (labels, their width + 1) trained vectors with biases, `odds` (labels + 1,)
    log odds, the last one a new label's; `middle` (their width,) about where documents lie.
    """
    n, alike = len(T), T.shape[1] == W.shape[1] - 1
    centre = T.mean(0)
    U, V, b = unit(T - centre).astype(np.float64), W[:, :-1].astype(np.float64), W[:, -1:].astype(np.float64)
    plain = np.stack([np.ones(n), odds[:-1]], 1)  # not penalised
    if n < FEWEST or np.ptp(odds[:-1]) == 0:
        plain = plain[:, :1]
    now = np.array([1.0, odds[-1]])[: plain.shape[1]]
    Q = np.linalg.qr(plain)[0]
    Uc, Vc = U - Q @ (Q.T @ U), V - Q @ (Q.T @ V)
    grown = float((Uc * Vc).sum() / max((Uc * Uc).sum(), 1e-12)) if alike else 0.0
    same = grown * np.eye(U.shape[1], V.shape[1])
    B, left_out = _ridge(Uc, Vc - Uc @ same, Q)
    slope = same + B
    # A bias makes up for the margin at the mean document, wherever that lies exactly: b = log odds - v . there.
    C = b + V @ middle[:, None]
    there = middle[:, None] - _ridge(Vc, C - Q @ (Q.T @ C), Q)[0]
    held_v = np.linalg.lstsq(plain, V - U @ slope, rcond=None)[0]
    held_b = np.linalg.lstsq(plain, b + V @ there, rcond=None)[0]
    guess = V - left_out + (now - plain) @ held_v
    offset, prior = now @ held_v, now @ held_b
    text_map = TextMap(
        centre,
        np.concatenate([slope, -slope @ there], 1).astype(np.float32),
        np.concatenate([offset, prior - offset @ there]).astype(np.float32),
    )
    share = _ordered(Vc - left_out, Vc) if n >= FEWEST else 1.0
    return text_map, share, np.concatenate([guess, prior - guess @ there], 1).astype(np.float32)


def _ridge(U: Any, R: Any, Q: Any) -> tuple[Any, Any]:
    """(coefficients, residuals of each row when it is left out) of R on U at the best strength of the penalty.

    Q spans what was projected out of both. Row i left out: residual / (1 - its own weight in its prediction).
    """
    P, s, Vt = np.linalg.svd(U, full_matrices=False)
    PR, own = P.T @ R, (Q * Q).sum(1)
    best: tuple[float, Any, Any] | None = None
    for strength in STRENGTHS * float((s * s).mean()):
        d = s * s / (s * s + max(strength, 1e-12))
        weight = own + (P * P * d).sum(1)
        residual = (R - P @ (d[:, None] * PR)) / np.maximum(1.0 - weight, 1e-3)[:, None]
        loss = float((residual**2).sum())
        if best is None or loss <= best[0]:
            best = (loss, d, residual)
    if best is None:
        raise ModelError("no penalty strength was tried.")
    return Vt.T @ ((best[1] / np.maximum(s, 1e-12))[:, None] * PR), best[2]


def _ordered(predicted: Any, true: Any) -> float:
    """How often a prediction is nearer in direction to its own vector than to the next row's."""
    P, V = unit(predicted), unit(true)
    gaps = [(P * (V - np.roll(V, shift, axis=0))).sum(1) for shift in range(1, min(len(V), 8))]
    return float(np.mean([(gap > 0) + 0.5 * (gap == 0) for gap in gaps]))


@np.errstate(over="ignore", invalid="ignore")
def encode(model: Model, maps: Sequence[TextMap], texts: Texts) -> dict[str, Part]:
    """Vector, bias and nodes above of each of the labels with these texts, for each member, as parts of an edit."""
    views, part, heads = model.views(texts, {}), {}, heads_of(model)
    halves = _half_vectors(model, heads, views) if len(heads) == 2 and _are_halves(*heads) else []
    for m, (levels, head) in enumerate(zip(model.members, heads, strict=True)):
        if halves:
            weight, bias = halves[m]
        elif isinstance(head, Dual):
            weight, bias = _dual_vectors(model, levels[-1], head, views)
        else:
            weight, bias = maps[m].vectors(_view(levels[-1], head, views))
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ModelError("labels add: the encoder returned a vector that is not finite. The model is damaged.")
        arrays: dict[str, Any] = {"weight": weight, "bias": bias}
        above = nodes_above(levels, views)
        if above is not None:
            best = above.top(PARENTS)
            arrays |= {"parent_ptr": best.indptr.astype(np.int64), "parents": best.ids.astype(np.int32)}
        part[f"member-{m:02d}"] = Part("edit.vectors.1", {}, arrays)
    return part


def _are_halves(one: Head, other: Head) -> bool:
    """Whether two members are the heads of one dual encoder."""
    return (
        isinstance(one, Dual) and isinstance(other, Dual)
        and list(one.widths) == ["dual"] and list(other.widths) == ["classifier"]
    )  # fmt: skip


def _half_vectors(model: Model, heads: Sequence[Head], views: Any) -> list[tuple[Floats, Floats]]:
    """(vectors, biases) of texts as labels, for the dual encoder and for the classifier beside it."""
    dual, classifier = heads
    if not isinstance(dual, Dual) or not isinstance(classifier, Dual):
        raise ModelError("labels add: the members are not the heads of a dual encoder.")
    vectors = _text_view(model.members[0][-1], views)
    weight, bias = dual.beside(classifier).of_new(vectors, np.flatnonzero(model.counts > 0))
    return [(vectors, np.zeros_like(bias)), (weight[:, dual.widths["dual"] :].copy(), bias)]


def _text_view(level: Level, views: Any) -> Floats:
    name = level.view.rpartition("/")[0] + "/dual"
    if name not in views:
        raise ModelError(f"labels add: the model has no view '{name}' of label texts. It is damaged; copy it again.")
    return np.asarray(views[name], np.float32)


def _dual_vectors(model: Model, level: Level, head: Dual, views: Any) -> tuple[Floats, Floats]:
    """(vectors, biases) of texts as labels of a dual encoder."""
    trained = np.flatnonzero(model.counts > 0)
    weight, bias = head.of_new(_text_view(level, views), trained)
    if len(trained) >= FEW or set(head.widths) == {"dual"}:
        return weight, bias
    view = np.asarray(views[level.view])  # a few labels are learned by heart: a new one is first at least on its text
    best = (view @ head.weight.T + head.bias).max(1) + AHEAD
    return weight, np.maximum(bias, best - (view * weight).sum(1))

"""A model is features plus members; a member is a list of levels; prediction is one loop over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from treetop.core import golden, store, target
from treetop.core.abilities import check_device
from treetop.core.card import UNSAVED, Card
from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.errors import ConfigError, choose
from treetop.core.part_checks import check_counts
from treetop.core.sealed import Check
from treetop.core.texts import Texts
from treetop.core.types import Features, Floats, Level, Ranking, Scores, View
from treetop.documents.kept import Documents
from treetop.model.display import ShowsItself
from treetop.model.documents import KeepsTexts
from treetop.model.labels import Relabels
from treetop.model.remarks import Remarks
from treetop.model.views import ReadsTexts, known_in, packed_texts
from treetop.predict.beam import descend, one_ahead
from treetop.predict.blend import KEEP, Blend, blended, check_blend, check_weights, checked_scores
from treetop.predict.calibrate import Calibration
from treetop.predict.chain import check_members
from treetop.predict.fuse.fuse import DEPTH, Fusion
from treetop.predict.overlay import Overlay
from treetop.predict.self_pairs import most_of_a_row, without_pairs
from treetop.predict.shards import ranked
from treetop.predict.unknown import unknown_rows

if TYPE_CHECKING:
    from treetop.edit.replay import LabelHistory
    from treetop.explain.explanation import Explanation


UNCALIBRATED = (
    "threshold, precision: this model is not calibrated, its scores are not probabilities. Calibrate it with held-out "
    "documents (`treetop calibrate MODEL DATA`), or take the best k."
)


class Label(NamedTuple):
    """One predicted label; `probability` is None until the model is calibrated."""

    id: str
    name: str
    score: float
    probability: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Model(ShowsItself, ReadsTexts, Remarks, Relabels, KeepsTexts):
    """Ranks labels for texts; made by `treetop.fit` or `treetop.load`. It is immutable: edits return a new model.

    >>> import treetop
    >>> model = treetop.fit("popular", ["a cat", "a dog"], [["animal", "cat"], ["animal"]])
    >>> [label.name for label in model.predict("a mouse", k=1)]
    ['animal']
    """

    labels: LabelSet
    features: Mapping[str, Features]
    members: Sequence[Sequence[Level]]
    counts: NDArray[np.int64]  # (n_labels,) training texts per label
    n_train: int
    card: Card = UNSAVED
    blend: Blend = "average"
    golden: Sequence[Mapping[str, Any]] = ()
    edits: LabelHistory | None = None  # changes to the labels since training
    seal: str = ""  # hash in the manifest of the folder it lies in
    weights: Sequence[float] = ()  # of the members; empty: all the same
    fusion: Fusion | None = None  # learned; None: the members' scores are averaged by `blend`
    calibration: Calibration | None = None  # None: scores have no probabilities
    documents: Documents | None = None  # training texts, where the user asked to keep them
    bars_self: bool = False  # whether a text that is a label itself never gets this label

    def __post_init__(self) -> None:
        check_members(self.members, self.n_trained)
        check_weights(self.weights, len(self.members))
        joins = [member[-1].join for member in self.members]
        if self.fusion is not None:
            self.fusion.check(joins)
        else:
            check_blend(self.blend, joins if len(joins) > 1 else [])
        check_counts(self.counts, len(self.labels), self.n_train)

    @cached_property
    def overlay(self) -> Overlay | None:
        """What added, retired and merged labels make of the trained levels' answers; None: nothing."""
        return Overlay.hiding(self.labels.status) if self.edits is None else self.edits.overlay

    @classmethod
    def over(
        cls, dataset: Dataset, features: Mapping[str, Features], members: Sequence[Sequence[Level]],
        blend: Blend = "average",
    ) -> Model:  # fmt: skip
        """A model that answers with the labels of `dataset`; what every recipe returns."""
        n_train = int(dataset.documents.sum())
        return cls(dataset.labels, features, members, dataset.label_counts, n_train, blend=blend)

    # --- prediction ---------------------------------------------------------------------------------------------

    def predict(self, texts: str | Sequence[str] | Texts, k: int = 5, threshold: float | None = None) -> Any:
        """The best `k` labels of each text, best first: a list of lists, or one list for a single string.

        `threshold` leaves out labels of a lower probability, which a calibrated model has (`treetop calibrate`), and
        all labels of texts of which it knows nothing (`unknown`).
        """
        if isinstance(texts, str):
            return self.predict([texts], k, threshold)[0]
        return self.predict_known(texts, k, threshold)[0]

    def predict_known(
        self, texts: Sequence[str] | Texts, k: int = 5, threshold: float | None = None, *, ids: Texts | None = None
    ) -> tuple[list[list[Label]], NDArray[np.bool_], Floats]:
        """Like `predict`, with which texts are `unknown` and the share of `known_words`; each text is read once.

        `ids` are those of the texts: one with the id of a label may be that label itself.
        """
        packed, k = packed_texts(texts), self._checked_k(k)
        barred = self.own_labels(packed, ids)
        parts, unknown, known, start = [], [], [], 0
        for views in one_ahead(self.batches(packed, {})):
            parts.append(self._rank_batch(views, self._checked_k(k + most_of_a_row(barred))))
            stop = start + len(parts[-1])
            unknown.append(unknown_rows(self._telling, views, packed.span(start, stop)))
            known.append(known_in(views, stop - start))
            start = stop
        ranking, nothing = without_pairs(Ranking.concat(parts), barred, k), np.concatenate(unknown)
        if threshold is not None:
            if (sure := self.probabilities(ranking)) is None:
                raise ConfigError(UNCALIBRATED)
            ranking = ranking.where((sure >= threshold) & np.repeat(~nothing, np.diff(ranking.indptr)))
        return _named(ranking, self.labels, self.probabilities(ranking, nothing)), nothing, np.concatenate(known)

    def rank(self, texts: Sequence[str] | Texts, k: int = 5) -> Ranking:
        """Like `predict`, as arrays: columns and scores."""
        return self._rank(packed_texts(texts), {}, k)

    def rank_dataset(self, dataset: Dataset, k: int = 5) -> Ranking:
        """Like `rank` for the rows of a Dataset, which may bring precomputed features instead of texts."""
        return self._rank(dataset.texts, dataset.features, k, dataset.ids)

    def _rank(self, texts: Texts, given: Mapping[str, Csr], k: int, ids: Texts | None = None) -> Ranking:
        k, barred = self._checked_k(k), self.own_labels(texts, ids)
        deep = self._checked_k(k + most_of_a_row(barred))
        return without_pairs(ranked(partial(self._rank_rows, k=deep), texts, given), barred, k)

    def _rank_rows(self, texts: Texts, given: Mapping[str, Csr], *, k: int) -> Ranking:
        return Ranking.concat([self._rank_batch(views, k) for views in one_ahead(self.batches(texts, given))])

    def probabilities(self, ranking: Ranking, unknown: NDArray[np.bool_] | None = None) -> Floats | None:
        """P(label is right) of each entry of a ranking by this model; None where it is not calibrated.

        Of texts that are `unknown` a score says nothing: there it is the share of training texts with the label.
        """
        if self.calibration is None:
            return None
        score, counts = ranking.score if self.fusion is None else ranking.own, self.counts[ranking.ids]
        found = self.calibration.probabilities(score, counts)
        if unknown is not None and unknown.any():
            there = np.repeat(unknown, np.diff(ranking.indptr))
            found[there] = counts[there] / max(self.n_train, 1)
        return found

    def member_rankings(self, views: Mapping[str, View]) -> list[Ranking]:
        """What each member says of the labels as they are today: what a fusion joins."""
        k = min(DEPTH, len(self.labels))
        if self.overlay is None:
            return [descend(member, views, k) for member in self.members]
        return [self.overlay.of_member(m).rank([member], self.blend, views, k) for m, member in enumerate(self.members)]

    def _rank_batch(self, views: Mapping[str, View], k: int) -> Ranking:
        if self.fusion is not None:
            return checked_scores(self.fusion.rank(self.member_rankings(views), self.weights, self.counts, k))
        if self.overlay is not None:
            return checked_scores(self.overlay.rank(self.members, self.blend, views, k, self.weights))
        wide = k if len(self.members) == 1 else max(k, min(KEEP, len(self.labels)))
        found = [descend(member, views, wide) for member in self.members]
        return checked_scores(blended(found, self.blend, k, self.weights))

    def evaluate(self, dataset: Dataset, **options: Any) -> Scores:
        """Scores on the rows of a Dataset; labels the model does not know stay in and count as misses."""
        from treetop.evaluate.score import evaluate_model

        return evaluate_model(self, dataset, **options)

    def explain(self, text: str, k: int = 3) -> list[Explanation]:
        """Why the best `k` labels of a text: the way to each, and the words that add up to every margin on it."""
        from treetop.model.explain import explain

        return explain(self, text, k)

    def to(self, device: str = "auto") -> Model:
        """The same model on a device: "cpu", "cuda", "cuda:1", or "auto" (a GPU where there is one and it is of use).

        There it encodes texts, scores labels and selects the best; scores are those of the CPU to the last digits.
        """
        from treetop.predict.placed import device_of, features_on, members_on

        place = device_of(self.features, device)
        if place is None:
            return self
        features, members = features_on(self.features, place), members_on(self.members, place)
        return dataclasses.replace(self, features=features, members=members)

    def fast(self) -> Model:
        """The same model in a faster form for the CPU: encoders with int8 products, label vectors searched as int8.

        Scores differ from the model's by the rounding of the encoder (docs/fast.md); what has no such form stays as it
        is. Saved, it is the model it came from.
        """
        from treetop.predict.placed import fast_features, fast_members

        return dataclasses.replace(self, features=fast_features(self.features), members=fast_members(self.members))

    # --- labels after training ----------------------------------------------------------------------------------

    @property
    def n_trained(self) -> int:
        """Labels the levels were trained on; those added since follow behind."""
        return len(self.labels if self.edits is None else self.edits.trained[0])

    @property
    def trained(self) -> Model:
        """The model as training left it."""
        if self.edits is None:
            return self
        labels, counts = self.edits.trained
        return dataclasses.replace(self, labels=labels, counts=counts, edits=None)

    # --- model folder -------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False, run: Mapping[str, Any] | None = None) -> Model:
        """Write the model folder: data only, hashed, put in place in one step. Returns the model as it lies there.

        Into the folder the model came from only changes to its labels are written, beside what is there. A model that
        was just trained comes from no folder yet: go on with the returned one to change its labels.
        """
        from treetop.model.folder import save

        return save(self, target.without_dots(Path(path)), overwrite=overwrite, run=run or {})

    def with_golden(self, texts: Texts) -> Model:
        """The same model with a few inputs and what it answers, which `treetop verify` asks again."""
        if not self.answers_texts:
            return self
        sample = golden.sample(texts)
        return dataclasses.replace(self, golden=golden.rows_of(sample, self.predict(sample, golden.DEPTH)))

    def check_golden(self) -> None:
        """Ask the golden inputs again; the answers must be the stored ones, scores within 1e-4."""
        trained = self.trained  # changes to labels change answers, and nothing else may
        golden.check(self.golden, lambda texts: trained.predict(texts, golden.DEPTH))


def _named(ranking: Ranking, labels: LabelSet, probabilities: Floats | None) -> list[list[Label]]:
    sure: Iterable[float | None] = repeat(None, len(ranking.ids)) if probabilities is None else probabilities.tolist()
    cells = [
        Label(*labels.shown(column), score, p)
        for column, score, p in zip(ranking.ids.tolist(), ranking.score.tolist(), sure, strict=True)
    ]
    return [cells[a:b] for a, b in pairwise(ranking.indptr.tolist())]


def load(path: str | Path, *, check: Check = "quick", device: str = "cpu", fast: bool = False) -> Model:
    """Open a model folder. "quick" checks sizes, headers, shapes and ranges; "full" also every hash.

    `device` is where it answers (`Model.to`); `fast` takes its faster form for the CPU (`Model.fast`).
    """
    from treetop.model.folder import opened

    choose("check", check, get_args(Check))
    check_device(device)
    if fast and device.startswith("cuda"):
        raise ConfigError(f"fast: is for the CPU, but the device is '{device}'. Leave one of them out.")
    model = store.read_model(Path(path), lambda folder: opened(folder, check))
    if fast:
        return model.fast()
    return model if device == "cpu" else model.to(device)

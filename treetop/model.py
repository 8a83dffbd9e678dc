"""A model is features plus members; a member is a list of levels; prediction is one loop over them."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import edits as changes
from treetop.core import golden as golden_file
from treetop.core import registry, sealed, store, target
from treetop.core.card import UNSAVED, Card, readme
from treetop.core.checked import check_finite
from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError, ModelError, TreetopError, choose
from treetop.core.folder import Folder
from treetop.core.label_part import labels_from_part, labels_part
from treetop.core.level_part import level_from_part, level_part
from treetop.core.sealed import Check
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Features, Level, Ranking, Scores, View
from treetop.core.version import VERSION
from treetop.explain.path import Step, walk
from treetop.explain.words import Word, words
from treetop.features.namespaced import with_terms
from treetop.kernels.runtime import threads
from treetop.predict.beam import descend
from treetop.predict.blend import KEEP, Blend, blended, check_blend, check_weights, proportions
from treetop.predict.chain import check_members
from treetop.predict.overlay import Overlay

if TYPE_CHECKING:
    from treetop.edit.replay import LabelHistory

BATCH = 16384  # documents looked at together; linear results do not depend on it
GOLDEN = 8
MOST_DOCUMENTS = 1 << 40  # a model may be trained on


class Label(NamedTuple):
    """One predicted label; `probability` is None until the model is calibrated."""

    id: str
    name: str
    score: float
    probability: float | None = None


class SeenStep(NamedTuple):
    """One level of the way to a label, and its words by size of contribution."""

    step: Step
    words: list[Word]


@dataclass(frozen=True)
class Explanation:
    """A predicted label with its way through each member."""

    label: Label
    members: list[list[SeenStep]]


@dataclass(frozen=True, eq=False)
class Model:
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

    def __post_init__(self) -> None:
        check_members(self.members, self.n_trained)
        check_weights(self.weights, len(self.members))
        check_blend(self.blend, [member[-1].join for member in self.members] if len(self.members) > 1 else [])
        self._check_counts()

    def _check_counts(self) -> None:
        """Refuse counts that no training could have found; sums of them must not overflow."""
        if not 0 <= self.n_train <= MOST_DOCUMENTS:
            raise ModelError(f"n_train: {self.n_train} is no number of training texts.")
        if len(self.counts) != len(self.labels):
            raise ModelError(f"counts: {len(self.counts)} training counts for {len(self.labels)} labels.")
        low, high = int(self.counts.min(initial=0)), int(self.counts.max(initial=0))
        if low < 0 or high > self.n_train:
            raise ModelError(f"counts: labels of {low} to {high} training texts, but there are {self.n_train}.")

    @cached_property
    def _overlay(self) -> Overlay | None:
        """What added, retired and merged labels make of the trained levels' answers; None: nothing."""
        return Overlay.hiding(self.labels.status) if self.edits is None else self.edits.overlay

    @classmethod
    def over(
        cls,
        dataset: Dataset,
        features: Mapping[str, Features],
        members: Sequence[Sequence[Level]],
        blend: Blend = "average",
    ) -> Model:
        """A model that answers with the labels of `dataset`; what every recipe returns."""
        n_train = int(dataset.documents.sum())
        return cls(dataset.labels, features, members, dataset.label_counts, n_train, blend=blend)

    # --- prediction ---------------------------------------------------------------------------------------------

    def predict(self, texts: str | Sequence[str] | Texts, k: int = 5) -> Any:
        """The best `k` labels of each text, best first: a list of lists, or one list for a single string."""
        if isinstance(texts, str):
            made: list[list[Label]] = self.predict([texts], k)
            return made[0]
        ranking = self.rank(texts, k)
        names, ids = self.labels.names, self.labels.ids
        cells = [
            Label(ids[column], names[column], score)
            for column, score in zip(ranking.ids.tolist(), ranking.score.tolist(), strict=True)
        ]
        ends = ranking.indptr.tolist()
        return [cells[a:b] for a, b in pairwise(ends)]

    def rank(self, texts: Sequence[str] | Texts, k: int = 5) -> Ranking:
        """Like `predict`, as arrays: columns and scores."""
        if isinstance(texts, bytes | Mapping | set) or not isinstance(texts, Iterable):
            raise InputError(f"texts: expected a string or a list of strings, got {type(texts).__name__}.")
        return self._rank(Texts.of(texts), {}, k)

    def rank_dataset(self, dataset: Dataset, k: int = 5) -> Ranking:
        """Like `rank` for the rows of a Dataset, which may bring ready-made features instead of texts."""
        return self._rank(dataset.texts, dataset.features, k)

    def _rank(self, texts: Texts, given: Mapping[str, Csr], k: int) -> Ranking:
        if type(k) is not int or k < 1:
            raise ConfigError(f"k: {k!r} is not a number of labels. Allowed is 1 or more.")
        k = min(k, len(self.labels))
        if len(texts) <= BATCH:
            return self._rank_batch(self.views(texts, given), k)
        parts = []
        for start, stop in threads.blocks(len(texts), BATCH):
            views = self.views(texts.span(start, stop), {name: X[start:stop] for name, X in given.items()})
            parts.append(self._rank_batch(views, k))
        return Ranking.concat(parts)

    def _rank_batch(self, views: Mapping[str, View], k: int) -> Ranking:
        overlay = self._overlay
        wide = k if len(self.members) == 1 else max(k, min(KEEP, len(self.labels)))
        if overlay is not None:
            found = overlay.rank(self.members, self.blend, views, k, self.weights)
        else:
            found = blended([descend(member, views, wide) for member in self.members], self.blend, k, self.weights)
        if not np.isfinite(found.score).all():
            raise ModelError(
                "a score is NaN or infinite: the model, or ready-made features it was given, hold values that are not "
                "finite or too large. Check the model with `treetop verify` and the scale of the features."
            )
        return found

    def views(self, texts: Sequence[str] | Texts, given: Mapping[str, Csr] | None = None) -> Mapping[str, View]:
        """Texts as named matrices, a row each; ready-made ones win, the others are computed when first read."""
        made = self._views(Texts.of(texts), given or {})
        if lacking := sorted(self._read - set(made)):
            raise InputError(
                f"texts: the model was trained on ready-made features ('{lacking[0]}'), and texts have none. Give data "
                "that bring such features (`treetop evaluate`, Model.rank_dataset), or train on texts."
            )
        return made

    def _views(self, texts: Texts, given: Mapping[str, Csr]) -> Mapping[str, View]:
        maps: list[Any] = [dict(given), *(features.views(texts) for features in self.features.values())]
        if "none" in self._read:
            maps.append({"none": sparse.csr_matrix((len(texts), 0), dtype=np.float32)})
        return ChainMap(*maps)

    @property
    def _read(self) -> set[str]:
        """Names of the views that levels read."""
        return {level.view for member in self.members for level in member}

    @property
    def answers_texts(self) -> bool:
        """Whether a text is enough to answer; not where training read ready-made features."""
        return self._read <= set(self._views(Texts.of([]), {}))

    def evaluate(self, dataset: Dataset, **options: Any) -> Scores:
        """Scores on the rows of a Dataset; labels the model does not know stay in and count as misses."""
        from treetop.evaluate.score import evaluate_model

        if not isinstance(dataset, Dataset):
            raise InputError(
                f"evaluate: expected a Dataset, got {type(dataset).__name__}. Make one with Dataset.read or from_frame."
            )
        scores: Scores = evaluate_model(self, dataset, **options)
        return scores

    def explain(self, text: str, k: int = 3) -> list[Explanation]:
        """Why the best `k` labels of a text: the way to each, and the words that add up to every margin on it."""
        views = self.views(Texts.of([text]), {})
        found, weights = [], proportions(self.weights, len(self.members))
        overlay = self._overlay
        for label, column in zip(self.predict(text, k), self.rank([text], k).ids.tolist(), strict=True):
            sources = [column] if overlay is None else overlay.sources(column)
            ways = [[self._walk(m, views, source) for m in range(len(self.members))] for source in sources]
            best = max(ways, key=lambda way: np.dot(weights, [s[-1].score for s in way]))  # whose score the label has
            members = [
                [self._seen(level, step) for level, step in zip(member, steps, strict=True)]
                for member, steps in zip(self.members, best, strict=True)
            ]
            found.append(Explanation(label, members))
        return found

    def _walk(self, m: int, views: Mapping[str, View], column: int) -> list[Step]:
        try:
            return walk(self.members[m], views, column)
        except ConfigError:
            if not self.card.models:
                raise
            recipe = self.card.recipes(len(self.members))[m]
            raise ConfigError(
                f"explain: this is a {self.card.title}, and '{recipe}' has no words to show for its part of a score. "
                "Explain the linear models it was made of."
            ) from None

    def _seen(self, level: Level, step: Step) -> SeenStep:
        features = with_terms(self.features, level.view)
        terms = features.terms if features is not None else lambda columns: [f"feature {c}" for c in columns]
        return SeenStep(step, words(step, terms))

    # --- labels after training ----------------------------------------------------------------------------------

    def add_labels(self, labels: LabelSet | Mapping[str, Any], *, who: str = "", note: str = "") -> Model:
        """A model that also knows these labels by their texts, {id: text} or {id: {"name": ..., "text": ...}}.

        Nothing is trained. Like the methods below it returns a new model and leaves this one as it is; `save` writes
        the change beside what was trained.
        """
        from treetop import edit

        return edit.add(self, labels, edit.By(who, note))

    def retire_labels(self, labels: Iterable[str], *, who: str = "", note: str = "") -> Model:
        """Never return these labels (ids or names) again, until they are restored."""
        from treetop import edit

        return edit.retire(self, labels, edit.By(who, note))

    def restore_labels(self, labels: Iterable[str], *, who: str = "", note: str = "") -> Model:
        """Return these retired or merged labels again."""
        from treetop import edit

        return edit.restore(self, labels, edit.By(who, note))

    def rename_labels(
        self, labels: Mapping[str, Any], *, re_encode: bool = False, who: str = "", note: str = ""
    ) -> Model:
        """Give labels other names, {id: name}, or texts, {id: {"text": ...}}; their scores stay.

        `re_encode` renews the vectors of labels that were added by text.
        """
        from treetop import edit

        return edit.rename(self, labels, edit.By(who, note), re_encode=re_encode)

    def merge_labels(self, labels: Mapping[str, str], *, who: str = "", note: str = "") -> Model:
        """Send the scores of labels to others, {label: label it goes into}, where the highest counts."""
        from treetop import edit

        return edit.merge(self, labels, edit.By(who, note))

    def undo_labels(self, *, who: str = "", note: str = "") -> Model:
        """Take the last change to the labels back."""
        from treetop import edit

        return edit.undo(self, edit.By(who, note))

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
        folder = target.without_dots(Path(path))
        if not overwrite and (saved := self._save_edits(folder)) is not None:
            return saved
        target.check_target(folder, overwrite=overwrite)
        with target.replacing(folder) as fresh:
            self.trained._write(fresh)
            facts = {"saved": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": platform.platform()}
            (fresh / "run.json").write_bytes(sealed.seal({**facts, **(run or {})}))
            seal = store.write_manifest(fresh, self._facts())
            history = self.edits
            if history is not None and history.log:
                history = dataclasses.replace(history, log=changes.write_anew(fresh, seal, history.log))
            self._check_saved(fresh, folder)
        return dataclasses.replace(self, edits=history, seal=seal)

    def _check_saved(self, fresh: Path, folder: Path) -> None:
        """Refuse to put a model in place that does not open again."""
        try:
            readable = list(load(fresh).golden) == list(self.golden)
        except TreetopError as error:
            raise ModelError(f"{folder}: not saved, as the model does not open again: {error}") from error
        if not readable:
            raise ModelError(f"{folder}: not saved, as its golden inputs do not read as they were written.")

    def _save_edits(self, folder: Path) -> Model | None:
        """The saved model where the folder holds this very one and lacked only changes to its labels; else None."""
        if self.edits is None or not self.seal or not (folder / "manifest.json").is_file():
            return None
        log = self.edits.log
        if all("files" in edit.entry for edit in log) or sealed.unseal(folder / "manifest.json")["sha256"] != self.seal:
            return None
        history = dataclasses.replace(self.edits, log=changes.write_edits(folder, self.seal, log))
        return dataclasses.replace(self, edits=history)

    def _facts(self) -> dict[str, Any]:
        packages = ("numpy", "scipy", "numba")
        return {
            "recipe": self.card.recipe,
            "config": self.card.config,
            "seed": self.card.seed,
            "data": self.card.data,
            "versions": {"treetop": VERSION, **{name: version(name) for name in packages}},
        }

    def _write(self, folder: Path) -> None:
        members = {
            f"member-{m:02d}": Part(
                "member.1", {}, {}, {f"level-{t:02d}": level_part(level) for t, level in enumerate(member)}
            )
            for m, member in enumerate(self.members)
        }
        features = Part("features.1", parts={name: item.to_part() for name, item in self.features.items()})
        config: dict[str, Any] = {"n_train": self.n_train, "blend": self.blend, "members": len(self.members)}
        config |= {"weights": [float(weight) for weight in self.weights]} if self.weights else {}
        parts = {"labels": labels_part(self.labels, self.counts), "features": features, **members}
        whole = Part("model.1", config, {}, parts)
        check_finite(whole)
        store.write_part(folder, whole)
        (folder / golden_file.FILE).write_bytes(golden_file.to_lines(self.golden))
        (folder / "README.md").write_text(readme(self.card, len(self.labels), self.n_train), encoding="utf-8")

    def with_golden(self, texts: Texts) -> Model:
        """The same model with a few inputs and what it answers, which `treetop verify` asks again."""
        if not self.answers_texts:
            return self
        rows = np.linspace(0, len(texts) - 1, min(GOLDEN, len(texts))).astype(np.int64)
        sample = [text[:300] for text in texts.take(rows)]
        answers = self.predict(sample, 5)
        golden = [
            {"text": text, "ids": [label.id for label in row], "scores": [label.score for label in row]}
            for text, row in zip(sample, answers, strict=True)
        ]
        return dataclasses.replace(self, golden=golden)

    def check_golden(self) -> None:
        """Ask the golden inputs again; the answers must be the stored ones, scores within 1e-4."""
        if not self.golden:
            return
        trained = self.trained  # changes to labels change answers, and nothing else may
        for row, answer in zip(self.golden, trained.predict([str(r["text"]) for r in self.golden], 5), strict=True):
            same = [label.id for label in answer] == row["ids"]
            if not same or not np.allclose([label.score for label in answer], row["scores"], atol=1e-4):
                raise ModelError(
                    f"golden input {row['text'][:40]!r}: the model answers {[label.id for label in answer]}, "
                    f"it was saved answering {row['ids']}. Another library version or a damaged machine; train again."
                )


def load(path: str | Path, *, check: Check = "quick") -> Model:
    """Open a model folder. "quick" checks sizes, headers, shapes and ranges; "full" also every hash."""
    choose("check", check, get_args(Check))
    return store.read_model(Path(path), lambda folder: _load(folder, check))


def _load(folder: Folder, check: Check) -> Model:
    manifest, listed = store.open_manifest(folder, check=check)
    part = store.part_of(listed)
    try:
        golden = golden_file.from_lines(listed.read(golden_file.FILE), listed.place(golden_file.FILE))
        model = _restored(part, manifest, golden)
        if check == "full":
            check_finite(part)
        part.let_go()
        if log := changes.read_edits(folder, model.seal, check=check):
            from treetop.edit.replay import replayed

            model = replayed(folder.path, model, log)
    except (ModelError, InputError, ConfigError) as error:
        where = "" if str(error).startswith(str(folder.path)) else f"{folder.path}: "
        raise ModelError(f"{where}{error}") from None
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, OSError) as error:
        raise ModelError(
            f"{folder.path}: a part of the model is missing or malformed ({error}). Copy it again."
        ) from None
    return model


def _restored(part: Part, manifest: Mapping[str, Any], golden: Sequence[Mapping[str, Any]]) -> Model:
    labels, counts = labels_from_part(part.parts["labels"])
    n_members, n_train = part.setting("members", int), part.setting("n_train", int)
    if n_members < 1 or n_train < 0:
        raise ModelError(f"{n_members} members, trained on {n_train} texts. The model is damaged; copy it again.")
    members = [
        [level_from_part(level) for _, level in sorted(part.parts[f"member-{m:02d}"].parts.items())]
        for m in range(n_members)
    ]
    features = {name: registry.restore(item, "features") for name, item in part.parts["features"].parts.items()}
    return Model(
        labels,
        features,
        members,
        counts,
        n_train,
        Card.of(manifest),
        part.setting("blend", str),
        golden,
        seal=str(manifest.get("sha256")),
        weights=check_weights(part.config.get("weights", ()), n_members),
    )

"""Training of the lexical matcher: facts about labels, and trees over matches of training texts.

A text must not be judged by facts it contributed to: facts about labels come from the other folds of the texts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.held_out.boosted import bin_edges
from treetop.assemble.inserted_names import with_names
from treetop.core.dataset import Csr, Dataset, Ints, LabelSet
from treetop.core.types import Floats
from treetop.features.lexical.forms import Forms
from treetop.features.lexical.matches import Matches
from treetop.kernels.boosting import Boosting, Trees, binned, boost
from treetop.kernels.text.matched_labels import FREQUENCY, PRECISION, Facts, Table, label_rows
from treetop.kernels.text.matching import EXACT, FOUND, TIGHT, WHOLE
from treetop.rank.lexical import Lexical, matches_of

FOLDS = 5
ENOUGH = 200  # documents from which on trees learn from real ones alone
DOCUMENTS = 5_000  # from which trees learn at most; facts about labels come from all
MANY, EASY = 50_000, 4  # pairs from which on one in EASY of the easily wrong ones is sampled
SMOOTH = 2.0  # texts by which the precision of a label is drawn to the mean
MONOTONE = (FOUND, TIGHT, EXACT, FREQUENCY, PRECISION)


def table_of(forms: Forms, labels: LabelSet, counts: Ints, frequent: int) -> Table:
    """Labels of forms and their relatives; the `frequent` most frequent labels are candidates of every text."""
    best = np.argsort(-counts, kind="stable")[:frequent]
    relatives = _relatives(labels)
    return Table(
        forms.label_ends, forms.labels, forms.source, np.diff(forms.ends).astype(np.uint8), forms.information,
        relatives.indptr.astype(np.int32), relatives.indices.astype(np.int32),
        np.sort(best[counts[best] > 0]).astype(np.int32),
    )  # fmt: skip


def _relatives(labels: LabelSet) -> Csr:
    """(labels, labels) which are broader, narrower or related."""
    n, thesaurus = len(labels), labels.thesaurus
    if thesaurus is None:
        return sparse.csr_matrix((n, n), dtype=np.float32)
    pairs = np.concatenate([thesaurus.broader, thesaurus.related])
    one_way = sparse.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), (n, n))
    both: Csr = (one_way + one_way.T).tocsr()
    both.sort_indices()
    return both


def learn(features: Matches, dataset: Dataset, table: Table, how: Boosting, seed: int) -> Lexical:
    """Facts about labels from all documents, and trees over the candidates of some of them.

    Where there are fewer than `ENOUGH` documents, copies with a label's name put in make up for those that are missing.
    """
    documents = np.flatnonzero(dataset.documents & dataset.learned)
    texts = dataset.texts.take(documents)
    X, Y = features.transform(texts), (dataset.Y[documents] > 0).astype(np.float32)
    ignored = None if dataset.ignored is None else dataset.ignored[documents]
    complete = _complete(X, table, dataset.n_labels)
    complete = complete if ignored is None else complete - complete.multiply(ignored > 0)
    fold = np.random.default_rng(seed).permutation(len(documents)) % FOLDS
    chosen = np.random.default_rng(seed + 1).permutation(len(documents))[:DOCUMENTS]
    rows, hits = [], []
    for f in range(FOLDS):
        facts = facts_of(complete, Y, fold != f, len(documents))
        inner = np.sort(chosen[fold[chosen] == f])
        made = label_rows(*matches_of(Lexical.kind, X[inner], len(table.words)), table, facts)
        row, hit = _judged(made, Y[inner], None if ignored is None else ignored[inner])
        rows.append(row)
        hits.append(hit)
    facts = facts_of(complete, Y, np.ones(len(documents), bool), len(documents))
    more, of_more = with_names(texts, Y, dataset.labels, ENOUGH - len(documents), seed)
    if len(more):
        matches = matches_of(Lexical.kind, features.transform(more), len(table.words))
        row, hit = _judged(label_rows(*matches, table, facts), of_more, None)
        rows.append(row)
        hits.append(hit)
    return Lexical(table, facts, *_trees(np.concatenate(rows), np.concatenate(hits), how, seed))


def _trees(X: Floats, hit: Floats, how: Boosting, seed: int) -> tuple[Floats, Trees]:
    """Bins of features and trees; of many wrong labels without a complete form a part is enough, weighted."""
    weight = np.ones(len(hit), np.float32)
    if len(hit) > MANY:
        easy = (hit == 0) & (X[:, FOUND] < WHOLE)
        weight[easy] = EASY
        kept = ~easy | (np.random.default_rng(seed).random(len(hit)) * EASY < 1)
        X, hit, weight = X[kept], hit[kept], weight[kept]
    edges = bin_edges(X, hit) if len(hit) else np.zeros((X.shape[1], 1), np.float32)
    monotone = np.isin(np.arange(X.shape[1]), MONOTONE)
    return edges, boost(binned(X, edges), hit, weight, monotone, how)


def _judged(made: tuple[Ints, NDArray[np.int32], Floats], Y: Csr, ignored: Csr | None) -> tuple[Floats, Floats]:
    """What trees look at and whether each label is right; pairs that may not be learned are left out."""
    pointers, labels, rows = made
    hit = _stored(pointers, labels, Y)
    kept = np.ones(len(hit), bool) if ignored is None else ~_stored(pointers, labels, ignored)
    return rows[kept], hit[kept].astype(np.float32)


def _stored(pointers: Ints, labels: NDArray[np.int32], matrix: Csr) -> NDArray[np.bool_]:
    """(pairs,) whether each (text, label) has a value above 0 in a matrix."""
    places = sparse.csr_matrix((np.arange(1.0, len(labels) + 1.0), labels, pointers), matrix.shape)
    found = np.zeros(len(labels), bool)
    found[places.multiply(matrix > 0).tocsr().data.astype(np.int64) - 1] = True
    return found


def _complete(X: Csr, table: Table, n_labels: int) -> Csr:
    """(texts, labels) 1 where all of a form of the label is found."""
    pointers, forms, values = matches_of(Lexical.kind, X, len(table.words))
    texts = np.repeat(np.arange(X.shape[0]), np.diff(pointers))
    kept = values[:, FOUND] >= WHOLE
    shape = (X.shape[0], len(table.words))
    found = sparse.csr_matrix((np.ones(int(kept.sum()), np.float32), (texts[kept], forms[kept])), shape)
    owners = np.ones(len(table.labels), np.float32)
    of_labels = found @ sparse.csr_matrix((owners, table.labels, table.ends), (shape[1], n_labels))
    of_labels.data[:] = 1.0
    return of_labels


def facts_of(complete: Csr, Y: Csr, rows: NDArray[np.bool_], n: int) -> Facts:
    """Frequency and precision of labels, from some rows, as if there were `n` of them."""
    matched, right = complete[rows], Y[rows]
    scale = n / max(int(rows.sum()), 1)
    uses = np.asarray(matched.sum(0), np.float64).ravel()
    hits = np.asarray(matched.multiply(right).sum(0), np.float64).ravel()
    mean = (hits.sum() + 0.5) / (uses.sum() + 1.0)
    counts = np.asarray(right.sum(0), np.float64).ravel()
    precision = (hits + SMOOTH * mean) / (uses + SMOOTH)
    return Facts(np.log1p(scale * counts).astype(np.float32), precision.astype(np.float32))

"""What a data set says about pairs."""

import dataclasses

import numpy as np

import toy
from treetop.assemble.dual.pairs import known_of
from treetop.core.texts import Texts

N, LABELS = 30, toy.N_LABELS


def test_what_counts_for_nothing():
    data = toy.dataset(n=N)
    row, label = 0, int(data.Y[0].indices[0])
    other = next(j for j in range(LABELS) if not data.Y[0, j])
    texts = list(data.texts)
    texts[5] = "  " + texts[4].upper()
    data = dataclasses.replace(data, texts=Texts.of(texts), filter_pairs=np.array([[row, label], [row, other]]))
    known = known_of(data)
    mine = known.indices[known.indptr[0] : known.indptr[1]].tolist()
    assert label not in mine and len(mine) == 1
    ends, columns = known.ignored_indptr, known.ignored_indices
    ignored = [set(columns[ends[r] : ends[r + 1]].tolist()) for r in range(N)]
    assert sorted(ignored[0]) == sorted([label, other])
    a, b = (set(data.Y[r].indices.tolist()) for r in (4, 5))
    assert ignored[4:6] == [b - a, a - b]
    assert known.text[0] == known.text[18] == known.text[36] == 0 and len(set(known.text.tolist())) == 18

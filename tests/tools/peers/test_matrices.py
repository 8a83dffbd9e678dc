import json

import numpy as np
import pytest
from scipy import sparse

from tools.peers import matrices, scores
from treetop.core.errors import InputError


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    train = [("red cat", ["a", "b"]), ("red dog", ["b"]), ("green cat", ["c"]), ("green dog", ["c", "a"])]
    test = [("red cat", ["b"]), ("a green fish", ["a", "c"])]
    for split, rows in (("train", train), ("test", test)):
        lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "labels.jsonl").write_text("".join(json.dumps({"id": i, "text": i}) + "\n" for i in "abc"))
    return tmp_path / "data"


def test_texts_become_matrices_once(data, tmp_path):
    made = matrices.prepare("toy", data=data, build=tmp_path / "build")
    X, Y = made.load("X_train"), made.load("Y_test")
    assert X.shape == (4, 4) and X.dtype == np.float32  # red, green, cat, dog: pairs of words occur only once
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(1)), 1, rtol=1e-6)
    assert Y.toarray().tolist() == [[0, 1, 0], [1, 0, 1]]
    assert made.facts["labels_per_text"] == 1.5 and made.facts["labels_seen"] == 3
    again = matrices.prepare("toy", data=tmp_path / "nowhere", build=tmp_path / "build")
    assert again.facts == made.facts and made.filter_pairs is None


def test_another_text_gives_another_fingerprint(data, tmp_path):
    one = matrices.prepare("toy", data=data, build=tmp_path / "one").facts["fingerprint"]
    assert matrices.prepare("toy", data=data, build=tmp_path / "same").facts["fingerprint"] == one
    file = data / "toy" / "test.jsonl"
    file.write_text(file.read_text().replace("red cat", "red dog"))
    assert matrices.prepare("toy", data=data, build=tmp_path / "two").facts["fingerprint"] != one


def test_a_missing_data_set_is_named(tmp_path):
    with pytest.raises(InputError, match="no such data set"):
        matrices.prepare("absent", data=tmp_path, build=tmp_path / "build")


def test_filtered_scores_take_pairs_out_before_the_cut(tmp_path):
    Y = sparse.csr_matrix(np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32))
    for part in ("Y_train", "Y_test"):
        sparse.save_npz(tmp_path / f"{part}.npz", Y)
    ids = np.array([[3, 0, -1], [1, 2, -1]])
    made = matrices.Matrices("toy", tmp_path, {})
    assert set(scores.score_ids(made, ids)) == {"scores"}
    np.save(tmp_path / "filter.npy", np.array([[0, 3]]))
    found = scores.score_ids(made, ids)
    assert found["scores"]["P@1"] == 50.0 and found["scores_filtered"]["P@1"] == 100.0
    assert found["scores"]["C@5"] == 100.0 and found["scores"]["P@5"] == 20.0

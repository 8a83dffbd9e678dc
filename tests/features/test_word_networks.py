"""Word vectors from files and encoders, the bag of words, and both as parts of a model."""

import gzip

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy_encoder
from treetop.core.errors import ConfigError, ModelError
from treetop.core.store import read_part, write_manifest, write_part
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokenizer
from treetop.features.words.bag import COARSE, FINE, NEAR, BagConfig, rarity
from treetop.features.words.inception import TASKS, InceptionConfig
from treetop.features.words.vectors import WordsConfig, find_vectors, narrowed
from treetop.features.words.words import Words
from treetop.kernels.runtime import threads

WORDS = {"cat": 1.0, "dog": 2.0, "stone": 3.0, "river": 4.0}
TEXTS = Texts.of(["Cat, dog; CAT!", "zebra and river", "zebra 42", "", "ein Zürich okapi"])


def lines(width=16):
    return [f"{word} {' '.join(str(value + i / 100) for i in range(width))}" for word, value in WORDS.items()]


@pytest.fixture
def glove(tmp_path):
    file = tmp_path / "glove.txt"
    file.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    return file


def ids(found, text, length=8):
    return Tokenizer(found.tokenizer, length).encode(Texts.of([text])).ids.tolist()


def test_words_of_file_and_texts(glove):
    found = find_vectors(WordsConfig(model=str(glove)), TEXTS)
    cat, dog, *_ = ids(found, "cat dog")
    assert found.vectors[cat][0] == 1.0 and found.vectors[dog][0] == 2.0
    zebra = ids(found, "zebra")[0]  # twice in the texts, not in the file: a vector of its own
    assert zebra != 0 and ids(found, "okapi 42 nobody") == [0, 0, 0]
    assert ids(found, "CAT\tdog_stone cat2") == [cat, dog, ids(found, "stone")[0], cat, 0]
    assert ids(found, "") == [] and ids(found, "!?") == []
    once = find_vectors(WordsConfig(model=str(glove), min_count=1), TEXTS)
    assert 0 not in ids(once, "okapi 42 zürich")
    again = find_vectors(WordsConfig(model=str(glove)), TEXTS)
    assert again.tokenizer == found.tokenizer and np.array_equal(again.vectors, found.vectors)


def test_the_most_common_words_of_a_long_file_are_kept_and_those_of_the_texts(glove):
    found = find_vectors(WordsConfig(model=str(glove), vocab_size=1), TEXTS)
    known = [word for word in WORDS if ids(found, word) != [0]]
    assert known == ["cat", "dog", "river"]  # stone is neither among the first nor in a text


def test_other_shapes_of_the_same_file(glove, tmp_path):
    expected = find_vectors(WordsConfig(model=str(glove)), TEXTS)
    with gzip.open(tmp_path / "glove.txt.gz", "wt", encoding="utf-8") as file:
        file.write("4 16\n" + "\n".join(lines()) + "\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    rows = [[value + i / 100 for i in range(16)] for value in WORDS.values()]
    np.save(folder / "vectors.npy", np.array(rows, np.float32))
    for place in (tmp_path / "glove.txt.gz", folder):
        found = find_vectors(WordsConfig(model=str(place)), TEXTS)
        assert found.tokenizer == expected.tokenizer
        np.testing.assert_allclose(found.vectors, expected.vectors, rtol=1e-6)


def test_bad_files_are_refused(tmp_path, glove, monkeypatch):
    glove.write_text("\n".join([*lines(), "short 1 2"]), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"glove.txt:5 has 2 numbers, others 16"):
        find_vectors(WordsConfig(model=str(glove)), TEXTS)
    glove.write_text("cat 1 nan\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"glove\.txt has numbers that are not finite for the word 'cat'"):
        find_vectors(WordsConfig(model=str(glove)), TEXTS)
    glove.write_text("cat 1 2\ndog 1 two\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="the vector of 'dog' contains something that is not a number"):
        find_vectors(WordsConfig(model=str(glove)), TEXTS)
    for content, message in (
        ("", r"glove\.txt holds no word vectors\. Give lines such as"),
        ("cat 1\ndog 1\n", r"glove\.txt:2 has 1 numbers\. Every word needs equally many, two or more"),
    ):
        glove.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            find_vectors(WordsConfig(model=str(glove)), TEXTS)
    glove.write_text("zebra 1 2\nokapi 1 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"encoder\.vocab_size: with 1 no word of .*glove\.txt is left"):
        find_vectors(WordsConfig(model=str(glove), vocab_size=1), Texts.of(["cat dog river"] * 3))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "words.txt").write_text("cat\n")
    (folder / "vectors.npy").write_bytes(b"no array")
    with pytest.raises(ConfigError, match=r"vectors\.npy is not an array of numbers\. Save it with numpy\.save"):
        find_vectors(WordsConfig(model=str(folder)), TEXTS)
    with pytest.raises(ConfigError, match="no file"):
        find_vectors(WordsConfig(model=str(tmp_path / "nothing.txt")), TEXTS)
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="encoder: '' is not a name"):
        find_vectors(WordsConfig(model=""), TEXTS)


def test_token_vectors_of_an_encoder(tmp_path):
    folder = toy_encoder.write_encoder(tmp_path / "encoder")
    found = find_vectors(WordsConfig(model=str(folder)), TEXTS)
    assert found.vectors.shape[1] == 32 and len(ids(found, "cat dog")) == 2  # no marks around it
    assert len(ids(found, "zebra")) == 5  # in pieces
    narrow = find_vectors(WordsConfig(model=str(folder), pca_dim=16), TEXTS)
    assert narrow.vectors.shape == (len(found.vectors), 16)
    with pytest.raises(ConfigError, match="encoder.pca_dim: 64"):
        find_vectors(WordsConfig(model=str(folder), pca_dim=64), TEXTS)


def test_main_axes_keep_distances():
    rng = np.random.default_rng(0)
    flat = (rng.standard_normal((40, 3)) @ rng.standard_normal((3, 20))).astype(np.float32)
    made = narrowed(flat, 3)
    np.testing.assert_allclose(
        np.linalg.norm(made[:1] - made, axis=1), np.linalg.norm(flat[:1] - flat, axis=1), rtol=1e-4
    )
    assert made[:, 0].std() >= made[:, 1].std() >= made[:, 2].std()


def make(glove, net="inception", views=TASKS, config=None):
    found = find_vectors(WordsConfig(model=str(glove)), TEXTS)
    config = config or InceptionConfig(filters=4)
    return Words.untrained(net, config, found, max_length=8, views=views, seed=0)


def test_bag_equals_sums_by_tf_idf(glove):
    words = make(glove, "bag", (COARSE, FINE, NEAR), BagConfig())
    tokens = words.tokenizer.encode(TEXTS)
    table = rarity(tokens, words.encoder.vocabulary)
    with_cat = 1.0
    cat = tokens.ids[0]
    assert table[cat] == pytest.approx(np.log(6.0 / (1.0 + with_cat)) + 1.0)
    words.encoder.weigh(table)
    with torch.no_grad():
        words.encoder.words[:-1] -= 2.0  # so that ReLU has something to do
    views = words.views(TEXTS)
    E, R = words.encoder.words.detach().numpy(), words.encoder.residual
    sigma = np.linalg.norm(R.weight.detach().numpy(), 2)
    for row in range(len(TEXTS)):
        own = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        length = np.sqrt(sum(table[i] ** 2 for i in own)) or 1.0
        h = np.maximum(sum((table[i] / length * E[i] for i in own), np.zeros(16)), 0)
        fine = h + np.maximum(R.weight.detach().numpy() / sigma @ h + R.bias.detach().numpy(), 0)
        np.testing.assert_allclose(views["words/coarse"][row], h, atol=1e-5)
        np.testing.assert_allclose(views["words/fine"][row], fine, atol=1e-4)
        np.testing.assert_allclose(views["words/near"][row], h / (np.linalg.norm(h) or 1.0), atol=1e-5)


@pytest.mark.parametrize("net", ["inception", "bag"])
def test_parts_round_trip_and_threads_change_nothing(glove, tmp_path, net):
    views, config = (TASKS, InceptionConfig(filters=4)) if net == "inception" else ((FINE, NEAR), BagConfig())
    words = make(glove, net, views, config)
    write_part(tmp_path / "part", words.to_part())
    write_manifest(tmp_path / "part", {})
    again = Words.from_part(read_part(tmp_path / "part"))
    texts = Texts.of([*TEXTS] * 20)
    with threads.limited(2):
        found = again.views(texts)
        for name, view in words.views(texts).items():
            assert np.array_equal(view, found[name]), name


def test_damaged_parts_are_refused(glove):
    part = make(glove).to_part()

    def refused(match, **changes):
        fields = {"kind": part.kind, "config": dict(part.config), "arrays": dict(part.arrays), "files": part.files}
        for key, value in changes.items():
            fields[key] = value
        with pytest.raises(ModelError, match=match):
            Words.from_part(type(part)(**fields))

    refused("network 'x'", config={**part.config, "net": "x"})
    refused("are not views", config={**part.config, "views": ["other"]})
    refused("filters", config={**part.config, "settings": {"filters": "many"}})
    refused("array 'scales'", arrays={**part.arrays, "scales": np.zeros(3, np.float32)})
    refused("array 'words'", arrays={**part.arrays, "words": np.zeros(3, np.float32)})
    refused("tokenizer.json", files={})


def test_a_table_that_is_too_small_is_refused(glove):
    part = make(glove).to_part()
    short = {**part.arrays, "words": part.arrays["words"][:3]}
    with pytest.raises(ConfigError, match="its tokenizer knows"):
        Words.from_part(type(part)(part.kind, part.config, short, files=part.files))


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (1, 4)])
def test_an_empty_table_of_words_is_refused(glove, shape):
    part = make(glove).to_part()
    arrays = {**part.arrays, "words": np.zeros(shape, np.float32)}
    with pytest.raises(ModelError, match="table of words"):
        Words.from_part(type(part)(part.kind, part.config, arrays, files=part.files))

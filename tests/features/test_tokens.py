import numpy as np
import pytest

pytest.importorskip("tokenizers")
import toy
import toy_encoder
from treetop.core.errors import ConfigError, ModelError
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.features.encoder import tokens as tokens_
from treetop.features.encoder.tokens import Tokenizer, log_lengths, tokenise
from treetop.kernels.runtime import threads


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    toy_encoder.write_tokenizer(folder)
    return (folder / "tokenizer.json").read_bytes()


def words(raw, ids):
    from tokenizers import Tokenizer as Library

    made = Library.from_buffer(raw)
    return [made.id_to_token(int(i)) for i in ids]


def test_special_tokens_and_cut(raw):
    made = Tokenizer(raw, 5).encode(Texts.of(["cat dogs", "", "cat dog horse bird fish"]))
    rows = [words(raw, made.ids[a:b]) for a, b in zip(made.offsets[:-1], made.offsets[1:], strict=True)]
    assert rows == [
        ["[CLS]", "cat", "dog", "##s", "[SEP]"],
        ["[CLS]", "[SEP]"],
        ["[CLS]", "cat", "dog", "horse", "[SEP]"],
    ]
    assert made.ids.dtype == np.uint16 and made.lengths.tolist() == [5, 2, 5]


def test_windows_cover_the_whole_text(raw):
    made = Tokenizer(raw, 4, "windows").encode(Texts.of(["cat dog horse bird fish", "cat"]))
    assert made.rows.tolist() == [0, 3, 4]
    rows = [words(raw, made.ids[a:b]) for a, b in zip(made.offsets[:-1], made.offsets[1:], strict=True)]
    assert [row[1:-1] for row in rows] == [["cat", "dog"], ["horse", "bird"], ["fish"], ["cat"]]
    assert made.lengths.tolist() == [4 + 4 + 3, 3]


def test_few_windows_are_spread_over_the_text(raw):
    text = "cat dog horse bird fish tree stone river cloud"
    for most, expected in ((1, ["cat"]), (2, ["cat", "cloud"]), (3, ["cat", "fish", "cloud"]), (0, text.split())):
        made = Tokenizer(raw, 3, "windows", most).encode(Texts.of([text, "cat"]))
        rows = [words(raw, made.ids[a:b])[1:-1] for a, b in zip(made.offsets[:-1], made.offsets[1:], strict=True)]
        assert [row[0] for row in rows] == [*expected, "cat"] and made.rows.tolist() == [0, len(expected), len(rows)]


def test_a_huge_text_costs_its_windows_only(raw, monkeypatch):
    text = "cat " * 200_000 + "dog " * 200_000 + "bird " * 200_000
    tokenizer, read = Tokenizer(raw, 8, "windows", 3), []
    library = tokenizer._library

    class Counting:
        def encode_batch_fast(self, texts):
            read.append(sum(map(len, texts)))
            return library.encode_batch_fast(texts)

    monkeypatch.setattr(tokenizer, "_library", Counting())
    made = tokenizer.encode(Texts.of([text]))
    assert made.rows.tolist() == [0, 3] and sum(read) < 20_000
    rows = [words(raw, made.ids[a:b])[1:-1] for a, b in zip(made.offsets[:-1], made.offsets[1:], strict=True)]
    assert rows == [["cat"] * 6, ["dog"] * 6, ["bird"] * 6]
    monkeypatch.undo()
    tokens, word, spans = tokenizer.places(text)
    assert np.array_equal(tokens.ids, made.ids) and len(spans) == 18
    assert [text[a:b] for a, b in spans] == ["cat"] * 6 + ["dog"] * 6 + ["bird"] * 6
    assert word[word >= 0].tolist() == list(range(18))


def test_cut_texts_are_told(raw, caplog):
    tokenizer = Tokenizer(raw, 4)
    log_lengths(tokenizer.encode(Texts.of(["cat dog horse"] * 3 + ["cat"] * 5)), tokenizer)
    assert "3 of 8 texts have 4 tokens or more, of which only the first 4 are read" in caplog.text
    caplog.clear()
    for quiet in (Tokenizer(raw, 9), Tokenizer(raw, 4, "windows", 2)):
        log_lengths(quiet.encode(Texts.of(["cat dog horse"] * 8)), quiet)
    assert "are read" not in caplog.text


@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_pieces_threads_and_stages_give_the_same(raw, long, tmp_path, monkeypatch):
    texts, tokenizer = toy.dataset().texts, Tokenizer(raw, 6, long)
    whole = tokenizer.encode(texts)
    monkeypatch.setattr(tokens_, "BLOCK", 7)
    monkeypatch.setattr(tokens_, "STAGE", 25)
    with threads.limited(2):
        pieces = tokenise(texts, tokenizer, Job(work=tmp_path))
    assert not pieces.ids.flags.owndata and not pieces.ids.flags.writeable  # the file itself
    for name in ("ids", "offsets", "rows"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name)), name
    made = []
    monkeypatch.setattr(Tokenizer, "encode", lambda self, texts: made.append(1))
    again = tokenise(texts, tokenizer, Job(work=tmp_path))
    assert not made and np.array_equal(again.ids, whole.ids)


def test_a_killed_run_goes_on_behind_the_last_piece(raw, tmp_path, monkeypatch):
    texts, tokenizer = toy.dataset().texts, Tokenizer(raw, 6)
    whole = tokenizer.encode(texts)
    monkeypatch.setattr(tokens_, "STAGE", 25)
    real, calls = Tokenizer.encode, []

    def encode(self, part):
        calls.append(len(part))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, part)

    monkeypatch.setattr(Tokenizer, "encode", encode)
    with pytest.raises(KeyboardInterrupt):
        tokenise(texts, tokenizer, Job(work=tmp_path))
    resumed = tokenise(texts, tokenizer, Job(work=tmp_path))
    assert np.array_equal(resumed.ids, whole.ids) and calls == [25, 25, 25, 10]


def test_lengths_and_files_that_cannot_work_are_refused(raw):
    with pytest.raises(ConfigError, match="max_length: 2 leaves no room for words; this tokenizer needs 3"):
        Tokenizer(raw, 2)
    with pytest.raises(ModelError, match=r"tokenizer.json: cannot be read"):
        Tokenizer(b"{}", 9)

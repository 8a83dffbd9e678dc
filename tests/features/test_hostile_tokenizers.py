"""A `tokenizer.json` from a stranger is refused in one sentence, or costs in proportion to the text."""

import base64
import json

import pytest

pytest.importorskip("tokenizers")
import toy_encoder
from treetop.core.errors import ConfigError, ModelError
from treetop.core.texts import Texts
from treetop.features.encoder.tokenizer_file import library_errors, read_tokenizer
from treetop.features.encoder.tokens import Tokenizer


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    toy_encoder.write_tokenizer(folder)
    return json.loads((folder / "tokenizer.json").read_text())


def raw(values, **changes):
    return json.dumps({**values, **changes}).encode()


def charsmap(*replacements):
    return base64.b64encode((8).to_bytes(4, "little") + bytes(8) + b"\0".join(replacements) + b"\0").decode()


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


HOSTILE = {
    "growing": ({"normalizer": replace({"String": "a"}, "a" * 9)}, "can make a text more than 8 times longer"),
    "growing from nothing": ({"normalizer": replace({"String": ""}, "")}, "not among the known ones"),
    "growing pattern": ({"normalizer": replace({"Regex": r"\s+"}, "a" * 9)}, "more than 8 times longer"),
    "hidden in a sequence": (
        {"normalizer": {"type": "Sequence", "normalizers": [replace({"String": "a"}, "aa")] * 40}},
        "more than 8 times longer",
    ),
    "regex bomb": ({"normalizer": replace({"Regex": "(a+)+$"}, "x")}, "not among the known ones"),
    "regex bomb that splits": (
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a?)+$"}, "behavior": "Isolated", "invert": False}},
        r"Split has the pattern .*'\(a\|a\?\)\+\$'.*, which is not among the known ones",
    ),
    "long prefix": ({"normalizer": {"type": "Prepend", "prepend": "x" * 1000}}, "Prepend puts more than 16"),
    "growing map": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(b"x", b"y" * 99)}},
        "replaces a character by more than 64 bytes",
    ),
    "no map": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "map .* cannot be read"),
    "panic": ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "FixedLength has length 0"),
    "unknown": ({"normalizer": {"type": "Evil"}}, "normalizer 'Evil' is not allowed; known are BertNormalizer"),
    "many": ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 99}}, "more than 64 components"),
    "no unknown token": (
        {"model": {"type": "WordLevel", "vocab": {"b": 0}, "unk_token": "[UNK]"}},
        "cannot be used",
    ),
    "template without its token": (
        {"post_processor": {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}], "pair": [],
            "special_tokens": {},
        }},
        "cannot be used",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tokenizer_is_refused(values, name):
    changes, message = HOSTILE[name]
    with pytest.raises(ModelError, match=rf"^tokenizer\.json: .*{message}"):
        Tokenizer(raw(values, **changes), 16)


def test_a_deep_tokenizer_is_refused(values):
    deep = '{"type":"Sequence","normalizers":[' * 5000 + '{"type":"NFC"}' + "]}" * 5000
    with pytest.raises(ModelError, match="cannot be read .too deeply nested"):
        Tokenizer(raw(values, normalizer="HERE").replace(b'"HERE"', deep.encode()), 16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_input_chars_per_word": 10**9}, "max_input_chars_per_word is 1000000000, allowed: 1 to 256"),
        ({"type": "Python"}, "model 'Python' is not allowed; known are BPE, Unigram, WordLevel, WordPiece"),
        ({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a" * 300, -1.0]]}, "more than 256 characters"),
        ({"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}, "not always have the same tokens"),
    ],
)
def test_words_without_end_are_refused(values, changes, message):
    with pytest.raises(ModelError, match=message):
        Tokenizer(raw(values, model={**values["model"], **changes}), 16)


def test_a_key_that_stands_twice_is_refused(values):
    twice = raw(values)[:-1] + b', "normalizer": {"type": "NFC"}}'
    with pytest.raises(ModelError, match="a key appears twice"):
        Tokenizer(twice, 16)


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe\x00random", b"[1, 2]", b'{"model": 1}', b"null"])
def test_junk_is_refused(junk):
    with pytest.raises(ModelError, match=r"tokenizer.json: cannot be read"):
        Tokenizer(junk, 16)


def test_ids_of_special_tokens_count(values, encoder):
    from treetop.features.encoder.transformer import Transformer, TransformerConfig

    beyond = {"type": "BertProcessing", "sep": ["[SEP]", 4_000_000_000], "cls": ["[CLS]", 2]}
    tokenizer = Tokenizer(raw(values, post_processor=beyond), 16)
    assert tokenizer.size == 4_000_000_001
    sound = Transformer.load(TransformerConfig(model=encoder, max_length=16))
    with pytest.raises(ConfigError, match="its tokenizer knows 4,000,000,001 tokens but the encoder only"):
        Transformer(sound.encoder, tokenizer, sound.poolings)


def test_a_panic_of_the_library_is_a_model_error():
    from tokenizers import Regex, normalizers

    with pytest.raises(ModelError, match=r"tokenizer.json: cannot be used \(Onig: .*retry-limit"), library_errors():
        normalizers.Replace(Regex("(a+)+$"), "x").normalize_str("a" * 40 + "b")
    with pytest.raises(KeyboardInterrupt), library_errors():
        raise KeyboardInterrupt


class Counting:
    """A tokenizer library that counts the characters it is given."""

    def __init__(self, library):
        self.library, self.characters = library, 0

    def encode_batch_fast(self, texts, **options):
        self.characters += sum(map(len, texts))
        return self.library.encode_batch_fast(texts, **options)


def test_a_long_text_costs_no_more_than_its_beginning_and_has_the_same_tokens(values):
    tokenizer = Tokenizer(raw(values), 16)
    kinds = [
        "cat dogs horse, bird. " * 20_000,
        "中文字符" * 20_000,
        " " * 20_000 + "cat dog",
        "x" * 20_000 + " cat",
        "cat",
    ]
    whole = [i for found in tokenizer._library.encode_batch_fast(kinds) for i in found.ids]
    assert tokenizer.encode(Texts.of(kinds)).ids.tolist() == whole
    tokenizer._library = Counting(tokenizer._library)
    tokenizer.encode(Texts.of(["cat dogs " * 600_000]))
    assert tokenizer._library.characters <= 4096
    tokenizer.encode(Texts.of(["x" * 5_000_000]))  # one token, however long
    assert tokenizer._library.characters <= 3 * 4096 + (1 << 17)


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        ({"type": "Sequence", "normalizers": [replace({"String": "``"}, '"'), {"type": "NFKD"}, {"type": "Strip",
          "strip_left": True, "strip_right": True}]}, {"type": "Metaspace", "replacement": "▁",
          "prepend_scheme": "always", "split": True}),  # ALBERT
        (replace({"String": "…"}, "..."), {"type": "WhitespaceSplit"}),
        (replace({"Regex": " {2,}"}, "▁"), {"type": "WhitespaceSplit"}),  # XLM-R, DeBERTa
        ({"type": "NFC"}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}),
        ({"type": "Precompiled", "precompiled_charsmap": charsmap(b"a", "ﷺ".encode() * 11)}, None),
        ({"type": "Prepend", "prepend": "▁"}, {"type": "Punctuation", "behavior": "Isolated"}),
    ],
)  # fmt: skip
def test_what_real_tokenizers_use_is_allowed(values, normalizer, pre_tokenizer):
    assert read_tokenizer(raw(values, normalizer=normalizer, pre_tokenizer=pre_tokenizer))

"""What a `tokenizer.json` may hold: known components whose time and output stay proportional to the text.

The file comes from whoever made the encoder. A replacement that grows the text, a pattern that backtracks without end
or a word without a limit would let a short text take hours; what real tokenizers use stays below all bounds.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from treetop.core.errors import ModelError, TreetopError
from treetop.core.folder import LARGEST

COMPONENTS = 64  # of one kind, those inside a Sequence counted
WORD = 256  # characters of a word that WordPiece cuts (its time grows with their cube), or of a Unigram piece
PREPENDED = 16  # characters before a text
LONGER = 8  # times the characters of a text, after all its replacements
GROWN = 64  # bytes that may replace one character in a precompiled map; NFKC needs 33

# The inner list of a Sequence, and the types allowed.
KINDS: dict[str, tuple[str, frozenset[str]]] = {
    "normalizer": ("normalizers", frozenset({
        "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
        "Replace", "Strip", "StripAccents",
    })),
    "pre_tokenizer": ("pretokenizers", frozenset({
        "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace", "Punctuation",
        "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit",
    })),
    "post_processor": ("processors", frozenset({
        "BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing",
    })),
    "decoder": ("decoders", frozenset({
        "BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Strip", "WordPiece",
    })),
}  # fmt: skip
MODELS = frozenset({"BPE", "Unigram", "WordLevel", "WordPiece"})
_ENGLISH = r"'s|'t|'re|'ve|'m|'ll|'d"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = frozenset(
    {
        r" {2,}", r"\s+", r"\s{2,}", r"\n", r"\n+", r"[\r\n]", r"[\r\n]+", r"[\n\r\t]", r"\s{2,}|[\n\r\t]", r"^▁+$",
        r"\d", r"\d+", r"\p{N}",
        r"\p{N}+", r"\p{N}{1,3}", r"\p{L}+", r"\w+|[^\w\s]+",
        r"[\p{L}\p{M}]+|\p{N}+",  # word vectors
        rf"{_ENGLISH}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",  # GPT-2
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        rf"{_ENGLISH}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",  # CLIP
        rf"<\|startoftext\|>|<\|endoftext\|>|{_ENGLISH}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",
        rf"(?i:{_ENGLISH})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}",  # Llama 3
        rf"(?i:{_ENGLISH})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}",  # Qwen
        r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
    }
)  # fmt: skip


def read_tokenizer(raw: bytes) -> dict[str, Any]:
    """The values of a `tokenizer.json`, after checking that every part of it is known and bounded."""
    if len(raw) > LARGEST:
        raise _refusal(f"{len(raw):,} bytes, at most {LARGEST:,} are allowed")
    try:
        values = json.loads(raw.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"tokenizer.json: cannot be read ({reason}). Copy the encoder again.") from None
    if not isinstance(values, dict) or not isinstance(values.get("model"), dict):
        raise ModelError("tokenizer.json: cannot be read (it describes no tokenizer). Copy the encoder again.")
    growth = 1.0
    for place, (inner, allowed) in KINDS.items():
        for component in _flat(place, values.get(place), inner):
            kind = component.get("type")
            if kind not in allowed:
                raise _refusal(f"{place} {kind!r} is not allowed; known are {', '.join(sorted(allowed))}")
            growth *= _check_component(component)
    if growth > LONGER:
        raise _refusal(f"its replacements can make a text more than {LONGER} times longer")
    _check_model(values["model"])
    return values


@contextlib.contextmanager
def library_errors() -> Iterator[None]:
    """Turn what the tokenizers library raises into a ModelError; a panic of its Rust code is not an Exception."""
    try:
        yield
    except (TreetopError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"tokenizer.json: cannot be used ({reason}). Copy the encoder again.") from None


def _refusal(what: str) -> ModelError:
    return ModelError(f"tokenizer.json: {what}. Use an encoder with a common tokenizer.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys, of which this check and the library might read different ones."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return unique


def _flat(place: str, value: Any, inner: str) -> list[dict[str, Any]]:
    """The components of one kind, those of a Sequence one by one."""
    components: list[dict[str, Any]] = []
    waiting = [] if value is None else [value]
    while waiting:
        component = waiting.pop()
        if not isinstance(component, dict):
            raise _refusal(f"{place} holds {type(component).__name__} where a component belongs")
        if component.get("type") == "Sequence" and isinstance(component.get(inner), list):
            waiting += component[inner]
        else:
            components.append(component)
        if len(components) + len(waiting) > COMPONENTS:
            raise _refusal(f"{place} has more than {COMPONENTS} components")
    return components


def _check_component(component: dict[str, Any]) -> float:
    """How many times longer a component can make a text, apart from a bounded prefix; refused where it is unsafe."""
    kind = component["type"]
    if kind in ("Replace", "Split"):
        return _growth(kind, component.get("pattern"), component.get("content", ""))
    if kind == "Prepend" and len(str(component.get("prepend"))) > PREPENDED:
        raise _refusal(f"Prepend puts more than {PREPENDED} characters before each text")
    if kind == "FixedLength" and not _within(component.get("length"), 1, 1 << 20):
        raise _refusal(f"FixedLength has length {component.get('length')!r}")
    if kind == "Precompiled":
        _check_charsmap(component.get("precompiled_charsmap"))
    return 1.0


def _growth(kind: str, pattern: Any, content: Any) -> float:
    """How many times longer a replacement is than what it replaces: a plain string, or a known regular expression."""
    plain = pattern.get("String") if isinstance(pattern, dict) else None
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    if regex not in PATTERNS and not (isinstance(plain, str) and plain):
        raise _refusal(f"{kind} has the pattern {pattern!r}, which is not among the known ones")
    return max(1.0, len(str(content)) / len(plain or " "))


def _check_charsmap(value: Any) -> None:
    """A precompiled map is the size of a trie, the trie, and the replacements, each ended by a zero byte."""
    try:
        data = base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise _refusal("its precompiled map of characters cannot be read") from None
    replacements = data[4 + int.from_bytes(data[:4], "little") :]
    if len(data) < 8 or not replacements:
        raise _refusal("its precompiled map of characters cannot be read")
    if max(map(len, replacements.split(b"\0"))) > GROWN:
        raise _refusal(f"its precompiled map replaces a character by more than {GROWN} bytes")


def _check_model(model: dict[str, Any]) -> None:
    kind = model.get("type")  # absent in old files: the library tells by the other keys
    if kind is not None and kind not in MODELS:
        raise _refusal(f"model {kind!r} is not allowed; known are {', '.join(sorted(MODELS))}")
    longest = model.get("max_input_chars_per_word")
    if longest is not None and not _within(longest, 1, WORD):
        raise _refusal(f"max_input_chars_per_word is {longest!r}, allowed: 1 to {WORD}")
    if model.get("dropout"):
        raise _refusal(f"dropout is {model['dropout']!r}, so that a text would not always have the same tokens")
    pieces = model.get("vocab")
    if isinstance(pieces, list) and any(isinstance(p, list) and p and len(str(p[0])) > WORD for p in pieces):
        raise _refusal(f"a piece of its vocabulary has more than {WORD} characters")


def _within(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high

"""One valid folder becomes a broken one: bytes, lines, tokens, JSON values, array parts, whole files."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from .corpus import Files

INTS = (-1, 0, 1, 7, 127, 255, 65535, 2**24, 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63), 2**63 - 1)
NUMBERS = (
    *map(str, INTS), "1_0", "٣", "1e999", "-0", "+3", "nan", "inf", "0x1", "1.5", "1e5", "9" * 30, "1" * 5000, "²", "",
)  # fmt: skip
STRINGS = (
    "\0", "\r", "\n", "\r\n", "\t", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffd", '"', "'", "\\",
    "|", ",", ";", ":", "#", "<", ">", "[", "]", "{", "}", "&", "&x;", "@en", "^^", "__label__", "/SEP/", "=1+1", " ",
    '"\\UFFFFFFFF"', '"\\uD800"', "\\U00110000", "<urn:x:\\UFFFFFFFF>", "_:b", "l:", "<!DOCTYPE a [<!ENTITY x 'y'>]>",
    'encoding="utf-7"', 'encoding="nope"', 'encoding="utf-16"', "<a>" * 3000, "(" * 2000, "[" * 2000, "x" * 70000,
)  # fmt: skip
RAW_JSON = (
    "[" * 100_000 + "]" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 900 + "]" * 900, "1" * 5000, "NaN", "1e999",
    "-Infinity", '"\\ud800"', '"\\udfff\\ud800"', '"\\ud83d\\ude00"', "-1", "0", "1.5", "2147483648", "1" * 30, "true",
    "null", '""', '"x"', '"1_0"', "[]", "[[]]", "[null]", "[1, \"a\"]", "{}", '{"a": 1}', '{"names": 3}', '[{"a": []}]',
    '"../train.jsonl"', '"a\\u2028b"', '"\\u0000"',
)  # fmt: skip
PLACE = "\x01place\x01"


def mutate(files: Files, rng: Random) -> Files:
    """The files after one to three changes."""
    files = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not files or rng.random() < 0.03:
            _change_folder(files, rng)
            continue
        name = rng.choice(sorted(files))
        files[name] = change_file(name, files[name], rng)
    return files


def _change_folder(files: Files, rng: Random) -> None:
    if not files:
        return
    name, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    kind = rng.randrange(4)
    if kind == 0:
        del files[name]
    elif kind == 1:
        files[name] = b""
    elif kind == 2:
        files[name] = files[other]
    else:
        files[name] = gzip.compress(files[name], mtime=0)


def change_file(name: str, content: bytes, rng: Random) -> bytes:
    """One change that suits the kind of file, or now and then one of plain bytes."""
    if content[:2] == b"\x1f\x8b" and rng.random() < 0.8:
        try:
            inside = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return change_bytes(content, rng)
        return gzip.compress(change_file(name.removesuffix(".gz"), inside, rng), 1, mtime=0)
    suffix = name.rpartition(".")[2]
    if suffix in ("arrow", "parquet"):
        return rng.choice((change_numbers, change_bytes, change_arrow))(content, rng)
    if suffix == "npz":
        return rng.choice((change_npz, change_npz, change_bytes))(content, rng)
    changes: list[Callable[[bytes, Random], bytes]] = [change_bytes, change_lines, change_tokens, insert_string]
    if suffix in ("json", "jsonl"):
        changes += [change_json] * 4
    return rng.choice(changes)(content, rng)


def change_bytes(content: bytes, rng: Random) -> bytes:
    """Flip, set, insert, cut, repeat or drop a few bytes."""
    data = bytearray(content or b"x")
    at = rng.randrange(len(data))
    span = min(len(data) - at, rng.choice((1, 1, 2, 4, 16, 100)))
    kind = rng.randrange(6)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at : at + span] = rng.randbytes(span)
    elif kind == 2:
        data[at:at] = rng.choice((b"\0", b"\xff", b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", rng.randbytes(span)))
    elif kind == 3:
        del data[at:]
    elif kind == 4:
        data[at:at] = data[at : at + span] * rng.choice((1, 3, 1000))
    else:
        del data[at : at + span]
    return bytes(data)


def change_numbers(content: bytes, rng: Random) -> bytes:
    """An aligned 32- or 64-bit number becomes one at an edge."""
    data, width = bytearray(content), rng.choice((4, 4, 8))
    if len(data) < width:
        return content
    at = rng.randrange(len(data) // width) * width
    data[at : at + width] = _packed(rng.choice(INTS), width)
    return bytes(data)


def _packed(value: int, width: int) -> bytes:
    return struct.pack("<q", value if -(2**63) <= value < 2**63 else 0)[:width]


def change_arrow(content: bytes, rng: Random) -> bytes:
    """A number in a buffer of one column of an Arrow stream, where offsets and values lie."""
    import pyarrow

    try:
        with pyarrow.ipc.open_stream(content) as stream:
            batch = stream.read_next_batch()
    except (pyarrow.ArrowException, OSError, StopIteration):
        return change_numbers(content, rng)
    buffers = [part for part in batch.column(rng.randrange(batch.num_columns)).buffers() if part and part.size >= 4]
    if not buffers:
        return change_numbers(content, rng)
    inside = rng.choice(buffers).to_pybytes()
    start = content.find(inside)
    if start < 0:
        return change_numbers(content, rng)
    return content[:start] + change_numbers(inside, rng) + content[start + len(inside) :]


def change_lines(content: bytes, rng: Random) -> bytes:
    """Drop, repeat, swap, empty, join or cut a line."""
    rows = content.split(b"\n")
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    kind = rng.randrange(6)
    if kind == 0:
        del rows[i]
    elif kind == 1:
        rows[i:i] = [rows[j]] * rng.choice((1, 2, 200))
    elif kind == 2:
        rows[i], rows[j] = rows[j], rows[i]
    elif kind == 3:
        rows[i] = rng.choice((b"", b" ", b"\r", b"\t"))
    elif kind == 4 and i + 1 < len(rows):
        rows[i : i + 2] = [rows[i] + rows[i + 1]]
    else:
        rows[i] = rows[i][: rng.randrange(len(rows[i]) + 1)]
    return rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r")).join(rows)


def change_tokens(content: bytes, rng: Random) -> bytes:
    """A number becomes another one, or a word another word of the file."""
    text = content.decode("utf-8", "surrogateescape")
    places = list(re.finditer(rng.choice((r"-?\d+(\.\d+)?", r"[^\s,:;|<>\"]+")), text))
    if not places:
        return insert_string(content, rng)
    here = rng.choice(places)
    new = rng.choice((*NUMBERS, rng.choice(places)[0]))
    return (text[: here.start()] + new + text[here.end() :]).encode("utf-8", "surrogateescape")


def insert_string(content: bytes, rng: Random) -> bytes:
    """A string that means something to some format, at any place."""
    text = content.decode("utf-8", "surrogateescape")
    at = rng.randrange(len(text) + 1)
    end = at + rng.choice((0, 0, 0, 1, 5))
    return (text[:at] + rng.choice(STRINGS) + text[end:]).encode("utf-8", "surrogateescape")


def change_json(content: bytes, rng: Random) -> bytes:
    """A value of a JSON document (or of one line) becomes another, goes away or changes its key."""
    rows = content.split(b"\n")
    whole = len(rows) > 1 and rows[0].strip() in (b"{", b"[")
    i = rng.randrange(len(rows))
    try:
        value = json.loads(content if whole else rows[i])
    except (ValueError, RecursionError):
        return change_tokens(content, rng)
    holder: Any = [value]
    places = list(_places(holder))
    parent, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.3 and isinstance(parent, dict):
        parent[rng.choice(("text", "labels", "id", "targets", "a", ""))] = parent.pop(key)
    elif kind < 0.4:
        parent[key] = [parent[key]]
    else:
        parent[key] = PLACE
    made = json.dumps(holder[0] if holder else {}, ensure_ascii=rng.random() < 0.5)
    made = made.replace(json.dumps(PLACE), rng.choice(RAW_JSON))
    if whole:
        return made.encode()
    rows[i] = made.encode("utf-8", "surrogatepass")
    return b"\n".join(rows)


def _places(value: Any) -> Any:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


DTYPES = ("<U3", "S2", "c16", "M8[D]", "m8[s]", "?", "f2", "f8", "i1", "u8", ">i4", "f16", "V4")


def change_npz(content: bytes, rng: Random) -> bytes:
    """A part of a sparse matrix gets another type, other values, another shape or goes away."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            parts = dict(archive)
    except Exception:  # it is broken already
        return change_bytes(content, rng)
    if not parts:
        return change_bytes(content, rng)
    name = rng.choice(sorted(parts))
    part, kind = parts[name], rng.randrange(6)
    if kind == 0:
        parts[name] = np.zeros(part.shape, rng.choice(DTYPES))
    elif kind == 1 and part.dtype.kind in "if" and part.size:
        part = part.astype(np.float64 if part.dtype.kind == "f" else np.int64)
        part.flat[rng.randrange(part.size)] = rng.choice(
            (np.nan, np.inf, 1e300) if part.dtype.kind == "f" else INTS[:-4]
        )
        parts[name] = part
    elif kind == 2:
        parts[name] = rng.choice((part[:-1] if part.ndim else part, part.reshape(-1, 1), np.array(5), np.empty((0, 2))))
    elif kind == 3:
        del parts[name]
    elif kind == 4 and "format" in parts:
        parts["format"] = np.array(rng.choice((b"csc", b"coo", b"dia", b"bsr", b"lil", b"", "csr")))
    elif "shape" in parts:
        parts["shape"] = np.array([rng.choice((*INTS[:10], 24)), rng.choice((*INTS[:10], 7))])
    out = io.BytesIO()
    np.savez(out, **parts)
    return out.getvalue()

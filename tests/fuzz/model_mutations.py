"""Changes to a model folder as somebody would make them who knows its format; the manifest is written anew after them.

`mutate(folder, random)` makes one to three changes and says in words what they were: values in `part.json`, elements,
types and headers of arrays, lines of `golden.jsonl`, files in the place of others, levels listed twice.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core import registry, store
from treetop.core.arrays import read_arrays, write_arrays
from treetop.core.edits import FORMAT
from treetop.core.sealed import seal
from treetop.core.types import TRANSFORMS

Random = np.random.Generator
WORDS = (
    "zzz", "", "own", "parent", "path", "score", "average", "rank_average", "softmax_average", "none", "given", "tfidf",
    "encoder/mean", "words/fine", "float32", "float16", "int8", "truncate", "windows", "cls", "mean", "bag", "decaf",
    "inception", "relu", "dual", "classifier", "search", "smooth", "L00", "bert", "../..", "\x00", "💥", "x" * 3000,
    *TRANSFORMS,
    *(f"{question}.{name}.1" for question in ("features", "shortlist", "rank") for name in registry.TABLE[question]),
)  # fmt: skip
ODD = (
    None, True, False, 0, 1, -1, 2, 3, 255, 256, 65536, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**70, -(2**63), 0.0,
    1.0, -1.0, 0.5, 1e-320, 3e38, -3e38, 1e308, float("nan"), float("inf"), float("-inf"), "", "zzz", "1", [], {}, [0],
    [-1], [[]], [None], ["a", 1], {"a": 1},
)  # fmt: skip
INTEGERS = (-1, 0, 1, 2, 3, 7, 39, 40, 41, 60, 127, 128, 255, 256, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, -1e30, 1e-45, 0.0, -0.0, 1.0, -1.0, 1e300)
DTYPES = ("<f4", "<f8", "<f2", "<i4", "<i8", "<u2", "<u4", "|u1", "|i1", "|b1")


def mutate(folder: Path, random: Random) -> list[str]:
    """Change one to three things and seal the folder again."""
    facts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if random.random() < 0.03:
        keys = ("recipe", "config", "seed", "data", "versions")
        said = _change_json({key: facts[key] for key in keys}, random, lambda values: _put_facts(facts, values))
        done = [f"manifest: {said}"]
    else:
        changes = [CHANGES[random.choice(len(CHANGES), p=SHARES)] for _ in range(1 + int(random.random() ** 3 * 3))]
        done = [change(folder, random) for change in changes]
    reseal(folder, facts)
    return done


def _put_facts(facts: dict[str, Any], values: Any) -> None:
    """Take changed facts, but for numbers that a sealed file cannot hold."""
    if isinstance(values, dict) and not any(mark in json.dumps(values) for mark in ("NaN", "Infinity")):
        for key in set(facts) - set(values) - {"format", "files", "sha256"}:
            del facts[key]
        facts.update(values)


def reseal(folder: Path, facts: dict[str, Any]) -> None:
    """Write a manifest, and a log of label changes where there is one, that fit the files as they are."""
    made = store.write_manifest(folder, {key: facts[key] for key in facts if key not in ("files", "format", "sha256")})
    log = folder / "edits/log.json"
    if not log.is_file():
        return
    entries = json.loads(log.read_text(encoding="utf-8"))["edits"]
    for number, entry in enumerate(entries, 1):
        home = log.parent / f"{number:04d}"
        entry["files"] = {
            f"{home.name}/{name}": {"size": (home / name).stat().st_size, "sha256": store.sha256(home / name)}
            for name in store.files_below(home)
        }
    log.write_bytes(seal({"format": FORMAT, "model": made, "edits": entries}))


def _pick(random: Random, items: Any) -> Any:
    items = list(items)
    return items[int(random.integers(len(items)))]


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(file for file in folder.rglob(name) if file.is_file())


# --- JSON -----------------------------------------------------------------------------------------------------------


def change_part(folder: Path, random: Random) -> str:
    """One value of a `part.json`."""
    file = _pick(random, _files(folder, "part.json"))
    said = _change_json(json.loads(file.read_bytes()), random, lambda values: file.write_text(json.dumps(values)))
    return f"{file.relative_to(folder)}: {said}"


def change_config(folder: Path, random: Random) -> str:
    """One value among the settings of a part."""
    files = [file for file in _files(folder, "part.json") if json.loads(file.read_bytes()).get("config")]
    file = _pick(random, files)
    values = json.loads(file.read_bytes())
    said = _change_json(
        values["config"], random, lambda config: file.write_text(json.dumps(values | {"config": config}))
    )
    return f"{file.relative_to(folder)}: config {said}"


def change_golden(folder: Path, random: Random) -> str:
    """One line of the golden inputs."""
    file = folder / "golden.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines:
        file.write_text(_pick(random, ["{}\n", "[]\n", "1\n", "{", "NaN\n", '{"text": 1}\n']))
        return "golden.jsonl: a line"
    at = int(random.integers(len(lines)))

    def put(value: Any) -> None:
        lines[at] = json.dumps(value)
        file.write_text("\n".join(lines) + "\n")

    return f"golden.jsonl:{at + 1}: " + _change_json(json.loads(lines[at]), random, put)


def change_tokenizer(folder: Path, random: Random) -> str:
    """One value of a tokenizer.json."""
    if not (files := _files(folder, "tokenizer.json")):
        return change_config(folder, random)
    file = _pick(random, files)
    said = _change_json(json.loads(file.read_bytes()), random, lambda values: file.write_text(json.dumps(values)))
    return f"{file.relative_to(folder)}: {said}"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inner)[:200]:
        yield from _places(item, (*path, key))


def _change_json(values: Any, random: Random, put: Callable[[Any], object]) -> str:
    """Change one place and hand the result to `put`."""
    places = list(_places(values))
    if not places or random.random() < 0.02:
        put(odd := _pick(random, ODD))
        return f"all of it -> {odd!r:.40}"
    values, path = copy.deepcopy(values), _pick(random, places)
    owner = values
    for key in path[:-1]:
        owner = owner[key]
    here = owner[path[-1]]
    chance = random.random()
    if chance < 0.15:
        del owner[path[-1]]
        said = "dropped"
    elif chance < 0.25:
        if isinstance(owner, list):
            owner.insert(int(path[-1]), here)
        else:
            owner[f"{path[-1]}-x"] = here
        said = "twice"
    elif chance < 0.5 and isinstance(here, str):
        owner[path[-1]] = _pick(random, WORDS)
        said = f"-> {owner[path[-1]]!r:.40}"
    elif chance < 0.7 and type(here) is int:
        owner[path[-1]] = here + _pick(random, (-1, 1, 2, -2, 40))
        said = f"-> {owner[path[-1]]!r}"
    elif chance < 0.7 and isinstance(here, list) and len(here) > 1:
        random.shuffle(here)
        said = "shuffled"
    else:
        owner[path[-1]] = _pick(random, ODD)
        said = f"-> {owner[path[-1]]!r:.40}"
    put(values)
    return f"{'/'.join(map(str, path))} {said}"


# --- arrays ---------------------------------------------------------------------------------------------------------


def change_array(folder: Path, random: Random) -> str:
    """Elements, type or shape of one array."""
    file = _pick(random, _files(folder, "arrays.safetensors"))
    arrays = {name: np.array(array) for name, array in read_arrays(file).items()}
    name = _pick(random, sorted(arrays))
    way = _pick(random, (_elements,) * 8 + (_whole,) * 4)
    arrays[name], said = way(arrays[name], random)
    write_arrays(file, arrays)
    return f"{file.relative_to(folder)}: {name} {said}"


def _elements(array: Any, random: Random) -> tuple[Any, str]:
    """A few elements become odd values."""
    if not array.size:
        return np.zeros((1,) * array.ndim, array.dtype), "-> one zero"
    flat = array.reshape(-1)
    count = 1 if random.random() < 0.7 else int(random.integers(1, flat.size + 1))
    places = random.choice(flat.size, count, replace=False) if random.random() < 0.7 else _pick(random, (0, -1))
    value = _odd_value(flat, random)
    with np.errstate(all="ignore"):
        flat[places] = value
    return flat.reshape(array.shape), f"{count} elements -> {value}"


def _odd_value(flat: Any, random: Random) -> Any:
    if flat.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(_pick(random, FLOATS)).astype(flat.dtype)
    if random.random() < 0.4:
        return flat[int(random.integers(flat.size))]  # another one's: in range, but twice
    if flat.dtype.kind == "b":
        return bool(random.integers(2))
    most = max(abs(int(flat.max())), 1)
    wish = _pick(random, (*INTEGERS, most + 1, most + 2, most - 1, 2 * most))
    return np.array(wish % (1 << (8 * flat.itemsize)), np.uint64).astype(flat.dtype)


def _whole(array: Any, random: Random) -> tuple[Any, str]:
    """Order, length, type or shape."""
    ways: dict[str, Callable[[], Any]] = {
        "shuffled": lambda: random.permutation(array),
        "reversed": lambda: array[::-1],
        "one less": lambda: array[:-1],
        "empty": lambda: array[:0],
        "one more": lambda: np.concatenate([array, array[-1:]]),
        "flat": lambda: array.reshape(-1),
        "two-dimensional": lambda: array[:, None],
        "of another type": lambda: array.astype(_pick(random, DTYPES)),
        "read as another type": lambda: array.view(_pick(random, [d for d in DTYPES if d[-1] == array.dtype.str[-1]])),
        "sorted": lambda: np.sort(array, axis=0),
        "all the same": lambda: np.full_like(array, array.reshape(-1)[0]),
        "transposed": lambda: np.ascontiguousarray(array.T),
    }
    said = _pick(random, sorted(ways))
    try:
        with np.errstate(all="ignore"):
            return ways[said](), said
    except (IndexError, ValueError, TypeError):
        return array, "as it was"


def change_header(folder: Path, random: Random) -> str:
    """What the header of a file says of its arrays."""
    file = _pick(random, _files(folder, "arrays.safetensors"))
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")

    def put(header: Any) -> None:
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])

    return f"{file.relative_to(folder)}: header " + _change_json(json.loads(raw[8 : 8 + size]), random, put)


def swap_arrays(folder: Path, random: Random) -> str:
    """An array under the name of another, or gone."""
    file = _pick(random, _files(folder, "arrays.safetensors"))
    arrays = {name: np.array(array) for name, array in read_arrays(file).items()}
    one, other = _pick(random, sorted(arrays)), _pick(random, sorted(arrays))
    if one == other:
        del arrays[one]
    else:
        arrays[one], arrays[other] = arrays[other], arrays[one]
    write_arrays(file, arrays)
    return f"{file.relative_to(folder)}: {one} and {other} exchanged"


# --- files and levels -----------------------------------------------------------------------------------------------


def swap_files(folder: Path, random: Random) -> str:
    """Two files of the same name in each other's place."""
    name = _pick(random, ("part.json", "arrays.safetensors"))
    files = _files(folder, name)
    one, other = _pick(random, files), _pick(random, files)
    held = one.read_bytes()
    if random.random() < 0.5:
        one.write_bytes(other.read_bytes())
    other.write_bytes(held)
    return f"{one.relative_to(folder)} in the place of {other.relative_to(folder)}"


def damage_file(folder: Path, random: Random) -> str:
    """A file cut, emptied, removed, or with one bit the other way."""
    file = _pick(random, [file for file in _files(folder, "*") if file.name not in ("manifest.json", "log.json")])
    raw = bytearray(file.read_bytes())
    how = _pick(random, ("bit", "bit", "bit", "cut", "removed"))
    if how == "removed" or not raw:
        file.unlink()
    elif how == "cut":
        file.write_bytes(raw[: int(random.integers(len(raw)))])
    else:
        raw[int(random.integers(len(raw)))] ^= 1 << int(random.integers(8))
        file.write_bytes(raw)
    return f"{file.relative_to(folder)}: {how}"


def change_levels(folder: Path, random: Random) -> str:
    """A part (a level, a member, a feature) once more, left out, or in the place of its neighbour."""
    homes = [file.parent for file in _files(folder, "part.json") if json.loads(file.read_bytes()).get("parts")]
    home = _pick(random, homes)
    values = json.loads((home / "part.json").read_bytes())
    name, other = _pick(random, sorted(values["parts"])), _pick(random, sorted(values["parts"]))
    how = _pick(random, ("again", "again", "gone", "swapped"))
    if how == "again":
        stem, _, number = name.rpartition("-")
        new = f"{stem}-{int(number) + 1:02d}" if number.isdecimal() else f"{name}-1"
        shutil.rmtree(home / new, ignore_errors=True)
        shutil.copytree(home / name, home / new)
        values["parts"][new] = values["parts"][name]
        if name.startswith("member"):
            values["config"]["members"] = len([part for part in values["parts"] if part.startswith("member")])
    elif how == "gone":
        del values["parts"][name]
    elif name != other:
        (home / name).rename(home / "~")
        (home / other).rename(home / name)
        (home / "~").rename(home / other)
    (home / "part.json").write_text(json.dumps(values))
    return f"{home.relative_to(folder)}: {name} {how}"


WEIGHTS = {
    change_array: 10, change_config: 5, change_part: 2, change_header: 1.5, swap_arrays: 1.5, swap_files: 1.5,
    change_levels: 2, damage_file: 1, change_golden: 0.5, change_tokenizer: 0.5,
}  # fmt: skip
CHANGES = list(WEIGHTS)
SHARES = np.array(list(WEIGHTS.values())) / sum(WEIGHTS.values())

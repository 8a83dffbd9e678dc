"""Write what the GPU runs need into one small folder: an encoder in float16, bytes sorted so that zip bites, and data.

python benchmarks/gpu/pack.py OUT DATA... [--encoder NAME] [--words FOLDER]
python benchmarks/gpu/pack.py OUT --unpack
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from treetop.features.encoder.sources import find_encoder


def pack(out: Path, data: list[Path], encoder: str, words: Path | None = None) -> None:
    source = find_encoder(encoder)
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(source.weights)
    flat = np.concatenate([source.weights[name].astype(np.float16).ravel() for name in names]).view(np.uint8)
    shapes = json.dumps({name: source.weights[name].shape for name in names})
    np.savez_compressed(
        out / "encoder.npz", low=flat[0::2], high=flat[1::2], shapes=shapes, config=json.dumps(source.config),
        tokenizer=np.frombuffer(source.tokenizer, np.uint8),
    )  # fmt: skip
    if words is not None:
        pack_words(out, words)
    for folder in data:
        (out / folder.name).mkdir(exist_ok=True)
        for file in folder.glob("*.jsonl.gz"):
            shutil.copyfile(file, out / folder.name / file.name)
    print({str(file.relative_to(out)): file.stat().st_size for file in out.rglob("*") if file.is_file()})


def pack_words(out: Path, words: Path) -> None:
    """Word vectors (words.txt and one .npy) as eight bits a number, scaled by row."""
    vectors = np.load(next(words.glob("*.npy"))).astype(np.float32)
    scale = np.abs(vectors).max(1) / 127
    codes = np.rint(vectors / np.where(scale > 0, scale, 1)[:, None]).astype(np.int8)
    text = np.frombuffer((words / "words.txt").read_bytes(), np.uint8)
    np.savez_compressed(out / "words.npz", codes=codes, scale=scale.astype(np.float32), words=text)


def unpack_words(out: Path) -> None:
    """The folder of word vectors, made where it is wanted and not there yet."""
    folder = out / "words"
    if folder.is_dir() or not (out / "words.npz").is_file():
        return
    folder.mkdir()
    held = np.load(out / "words.npz")
    np.save(folder / "vectors.npy", (held["codes"] * held["scale"][:, None]).astype(np.float16))
    (folder / "words.txt").write_bytes(held["words"].tobytes())


def unpack(out: Path) -> Path:
    """The encoder's folder, made where it is not there yet; and that of word vectors."""
    from safetensors.numpy import save_file

    unpack_words(out)
    folder = out / "encoder"
    if folder.is_dir():
        return folder
    folder.mkdir()
    held = np.load(out / "encoder.npz")
    flat = np.stack([held["low"], held["high"]], 1).ravel().view(np.float16)
    weights, start = {}, 0
    for name, shape in json.loads(str(held["shapes"])).items():
        size = int(np.prod(shape))
        weights[name] = np.ascontiguousarray(flat[start : start + size].reshape(shape))
        start += size
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(str(held["config"]))
    (folder / "tokenizer.json").write_bytes(held["tokenizer"].tobytes())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--words", type=Path, help="a folder of words.txt and .npy")
    parser.add_argument("--unpack", action="store_true")
    options = parser.parse_args()
    if options.unpack:
        unpack(options.out)
    else:
        pack(options.out, options.data, options.encoder, options.words)


if __name__ == "__main__":
    main()

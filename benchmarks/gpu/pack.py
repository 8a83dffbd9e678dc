"""Write what the GPU runs need into one small folder: an encoder in float16, bytes sorted so that zip bites, and data.

python benchmarks/gpu/pack.py OUT DATA... [--encoder NAME]
python benchmarks/gpu/pack.py OUT --unpack
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from treetop.features.encoder.sources import find_encoder


def pack(out: Path, data: list[Path], encoder: str) -> None:
    source = find_encoder(encoder)
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(source.weights)
    flat = np.concatenate([source.weights[name].astype(np.float16).ravel() for name in names]).view(np.uint8)
    shapes = json.dumps({name: source.weights[name].shape for name in names})
    np.savez_compressed(
        out / "encoder.npz", low=flat[0::2], high=flat[1::2], shapes=shapes, config=json.dumps(source.config),
        tokenizer=np.frombuffer(source.tokenizer, np.uint8),
    )  # fmt: skip
    for folder in data:
        (out / folder.name).mkdir(exist_ok=True)
        for file in folder.glob("*.jsonl.gz"):
            shutil.copyfile(file, out / folder.name / file.name)
    print({str(file.relative_to(out)): file.stat().st_size for file in out.rglob("*") if file.is_file()})


def unpack(out: Path) -> Path:
    """The encoder's folder, made where it is not there yet."""
    from safetensors.numpy import save_file

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
    parser.add_argument("--unpack", action="store_true")
    options = parser.parse_args()
    if options.unpack:
        unpack(options.out)
    else:
        pack(options.out, options.data, options.encoder)


if __name__ == "__main__":
    main()

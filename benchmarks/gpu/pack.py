"""Write what the GPU runs need into one small folder: encoder in float16, tokens and targets of a data set.

python benchmarks/gpu/pack.py DATA OUT [--encoder NAME] [--max-length 128]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.features.sources import find_encoder
from treetop.features.tokens import Tokenizer, tokenise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--max-length", type=int, default=128)
    options = parser.parse_args()
    from safetensors.numpy import save_file

    source = find_encoder(options.encoder)
    folder = options.out / "encoder"
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value.astype(np.float16) for key, value in source.weights.items()}
    save_file(kept, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(source.config))
    (folder / "tokenizer.json").write_bytes(source.tokenizer)
    tokenizer = Tokenizer(source.tokenizer, options.max_length)
    train = Dataset.read(options.data, "train")
    test = Dataset.read(options.data, "test").align(train.labels)
    arrays = {"n_labels": np.array(train.n_labels)}
    for name, part in (("train", train), ("test", test)):
        tokens = tokenise(part.texts, tokenizer, Job())
        arrays |= {f"{name}_ids": tokens.ids, f"{name}_lengths": tokens.lengths.astype(np.uint16)}
        arrays |= {f"{name}_columns": part.Y.indices.astype(np.int32), f"{name}_counts": np.diff(part.Y.indptr)}
    label_tokens = tokenise(train.labels.texts, tokenizer, Job())
    arrays |= {"label_ids": label_tokens.ids, "label_lengths": label_tokens.lengths.astype(np.uint16)}
    np.savez_compressed(options.out / "data.npz", **arrays)
    print({file.name: file.stat().st_size for file in options.out.rglob("*") if file.is_file()})


if __name__ == "__main__":
    main()

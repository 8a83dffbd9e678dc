"""Writes an encoder as transformers would (`save_pretrained`): settings, weights, tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treetop.core.errors import extra
from treetop.core.store import Part

DROPPED = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")  # of another place and time


def write_encoder(folder: Path, part: Part) -> None:
    """Files of the encoder in a saved `Transformer`, which `find_encoder` and transformers read."""
    safetensors = extra("safetensors.numpy", "torch")
    settings: dict[str, Any] = {k: v for k, v in part.setting("encoder", dict).items() if k not in DROPPED}
    weights = {key: array for key, array in part.arrays.items() if not key.startswith("windows.")}
    _write_json(folder / "config.json", settings)
    safetensors.save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "tokenizer.json").write_bytes(part.files["tokenizer.json"])
    most = part.setting("max_length", int)
    _write_json(
        folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": most}
    )


def _write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")

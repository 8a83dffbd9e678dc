"""The files of an encoder, checked before transformers opens or builds anything from them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from treetop.core.errors import ConfigError, ModelError, TreetopError, extra
from treetop.core.sealed import read_bytes

DEEPEST = 16  # levels of nesting in settings
LARGEST, LONGEST = 1 << 40, 1 << 24  # any whole number; a number of positions, for which tables are made
MOST_LAYERS = 1000  # where the weights were not counted
AGAIN = "Copy the encoder again, or choose another."
# Settings that name code or other files; never followed.
UNSAFE = (
    "auto_map", "fusion_config", "transformers_weights", "attn_implementation", "_attn_implementation",
    "experts_implementation", "_experts_implementation",
)  # fmt: skip


def check_files(folder: Path) -> None:
    """Refuse a folder that lacks a file, or where a file to be opened is not a regular one."""
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).exists():
            raise ConfigError(
                f"encoder: {folder} has no {name}. Give a folder saved by transformers (save_pretrained)."
            )
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".safetensors") and not file.is_file():
            raise ConfigError(f"encoder: {file} is not a regular file. Give a folder saved by transformers.")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"encoder: {folder} has no safetensors weights; pickled weights can run code and are never opened. "
            "Save the encoder again with transformers."
        )
    if (folder / "adapter_config.json").exists():
        raise ConfigError(f"encoder: {folder} holds an adapter. Merge it into its encoder and save that.")


def read_settings(file: Path) -> dict[str, Any]:
    """A `config.json` whose numbers and nesting stay within bounds."""
    if not file.is_file():
        raise ConfigError(f"encoder: {file} is not a regular file. Give a folder saved by transformers.")
    try:
        values = json.loads(read_bytes(file).decode())
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"encoder: {file} cannot be read ({reason}). {AGAIN}") from None
    if not isinstance(values, dict):
        raise ModelError(f"encoder: {file} holds {type(values).__name__}, expected a JSON object. {AGAIN}")
    check_settings(values, MOST_LAYERS)
    return values


def check_settings(settings: Mapping[str, Any], weights: int) -> None:
    """Refuse settings from which no encoder, or an unreasonably large one, would be built."""
    waiting: list[tuple[str, Any, int]] = [("settings", settings, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ModelError(f"encoder: its settings are nested deeper than {DEEPEST} levels. {AGAIN}")
        if isinstance(value, Mapping):
            waiting += [(str(key), item, depth + 1) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(name, item, depth + 1) for item in value]
        elif isinstance(value, int):
            most = weights if "layer" in name else LONGEST if "position" in name else LARGEST
            if abs(value) > most:
                raise ModelError(f"encoder: its settings say {name} = {value}, at most {most:,} is allowed. {AGAIN}")
    if settings.get("quantization_config"):
        raise ModelError("encoder: its weights are quantised, which is not supported. Choose one that is not.")


def known_config(settings: Mapping[str, Any]) -> Any:
    """The settings as transformers holds them; code they may name is left out."""
    transformers = extra("transformers", "torch")
    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise ModelError(
            f"encoder: unknown model type {kind!r}; code that comes with an encoder is never run. Install a newer "
            "transformers, or choose another encoder."
        )
    with model_errors():
        return transformers.CONFIG_MAPPING[kind].from_dict({k: v for k, v in settings.items() if k not in UNSAFE})


@contextlib.contextmanager
def model_errors() -> Iterator[None]:
    """Whatever transformers raises for settings or weights that do not fit, as one sentence."""
    try:
        yield
    except (TreetopError, MemoryError):
        raise
    except Exception as error:  # the library has many kinds
        said = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = said[0][:300].rstrip(".")
        raise ModelError(f"encoder: its settings or weights cannot be used ({reason}). {AGAIN}") from None


def count_weights(folder: Path) -> tuple[int, int]:
    """How many weights the safetensors files of a folder hold, and how many numbers these are together."""
    safetensors = extra("safetensors", "torch")
    names, numbers = 0, 0
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safetensors.safe_open(str(file), framework="np") as opened:
                shapes = [opened.get_slice(name).get_shape() for name in opened.keys()]  # noqa: SIM118
        except Exception as error:  # SafetensorError derives from Exception alone
            raise ModelError(f"encoder: {file} cannot be read ({error}). {AGAIN}") from None
        names += len(shapes)
        numbers += sum(map(prod, shapes))
    return names, numbers

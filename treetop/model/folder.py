"""The model folder: a model written, and opened again (`Model.save`, `treetop.load`)."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from treetop.core import edits as changes
from treetop.core import golden, registry, sealed, store, target
from treetop.core.card import Card, readme
from treetop.core.errors import ConfigError, InputError, ModelError, TreetopError
from treetop.core.folder import Folder
from treetop.core.label_part import labels_from_part, labels_part
from treetop.core.level_part import level_from_part, level_part
from treetop.core.part_checks import check_finite
from treetop.core.sealed import Check
from treetop.core.store import Part
from treetop.core.version import VERSION
from treetop.documents.kept import Documents
from treetop.model.model import Model, load
from treetop.predict.blend import check_weights
from treetop.predict.calibrate import Calibration
from treetop.predict.fuse.fuse import Fusion


def save(model: Model, folder: Path, *, overwrite: bool, run: Mapping[str, Any]) -> Model:
    """See `Model.save`."""
    if not overwrite and (saved := _save_edits(model, folder)) is not None:
        return saved
    target.check_target(folder, overwrite=overwrite)
    with target.replacing(folder) as fresh:
        _write(model.trained, fresh)
        facts = {"saved": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": platform.platform()}
        (fresh / "run.json").write_bytes(sealed.seal({**facts, **run}))
        seal = store.write_manifest(fresh, _facts(model))
        history = model.edits
        if history is not None and history.log:
            history = dataclasses.replace(history, log=changes.rewrite_edits(fresh, seal, history.log))
        _check_saved(model, fresh, folder)
    return dataclasses.replace(model, edits=history, seal=seal)


def _check_saved(model: Model, fresh: Path, folder: Path) -> None:
    """Refuse to put a model in place that does not open again."""
    try:
        readable = list(load(fresh).golden) == list(model.golden)
    except TreetopError as error:
        raise ModelError(f"{folder}: not saved, as the model does not open again: {error}") from error
    if not readable:
        raise ModelError(f"{folder}: not saved, as its golden inputs do not read as they were written.")


def _save_edits(model: Model, folder: Path) -> Model | None:
    """The saved model where the folder holds this very one and lacked only changes to its labels; else None."""
    if model.edits is None or not model.seal or not (folder / "manifest.json").is_file():
        return None
    log = model.edits.log
    if all("files" in edit.entry for edit in log) or sealed.unseal(folder / "manifest.json")["sha256"] != model.seal:
        return None
    history = dataclasses.replace(model.edits, log=changes.write_edits(folder, model.seal, log))
    return dataclasses.replace(model, edits=history)


def _facts(model: Model) -> dict[str, Any]:
    return {
        "recipe": model.card.recipe,
        "config": model.card.config,
        "seed": model.card.seed,
        "data": model.card.data,
        "versions": {"treetop": VERSION, **{name: version(name) for name in ("numpy", "scipy", "numba")}},
    }


def _write(model: Model, folder: Path) -> None:
    members = {
        f"member-{m:02d}": Part(
            "member.1", {}, {}, {f"level-{t:02d}": level_part(level) for t, level in enumerate(member)}
        )
        for m, member in enumerate(model.members)
    }
    features = Part("features.1", parts={name: item.to_part() for name, item in model.features.items()})
    config: dict[str, Any] = {"n_train": model.n_train, "blend": model.blend, "members": len(model.members)}
    config |= {"weights": [float(weight) for weight in model.weights]} if model.weights else {}
    config |= {"bars_self": True} if model.bars_self else {}
    parts = {"labels": labels_part(model.labels, model.counts), "features": features, **members}
    parts |= {} if model.fusion is None else {"fusion": model.fusion.to_part()}
    parts |= {} if model.calibration is None else {"calibration": model.calibration.to_part()}
    parts |= {} if model.documents is None else {"documents": model.documents.to_part()}
    whole = Part("model.1", config, {}, parts)
    check_finite(whole)
    store.write_part(folder, whole)
    (folder / golden.FILE).write_bytes(golden.to_lines(model.golden))
    (folder / "README.md").write_text(readme(model.card, len(model.labels), model.n_train), encoding="utf-8")


def opened(folder: Folder, check: Check) -> Model:
    """The model of a folder, with the changes made to its labels since."""
    manifest, listed = store.open_manifest(folder, check=check)
    part = store.part_of(listed)
    try:
        model = _restored(part, manifest, golden.from_lines(listed.read(golden.FILE), listed.place(golden.FILE)))
        if check == "full":
            check_finite(part)
        part.release()
        if log := changes.read_edits(folder, model.seal, check=check):
            from treetop.edit.replay import replayed

            model = replayed(folder.path, model, log)
    except (ModelError, InputError, ConfigError) as error:
        where = "" if str(error).startswith(str(folder.path)) else f"{folder.path}: "
        raise ModelError(f"{where}{error}") from None
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, OSError) as error:
        raise ModelError(
            f"{folder.path}: a part of the model is missing or malformed ({error}). Copy it again."
        ) from None
    return model


def _restored(part: Part, manifest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Model:
    labels, counts = labels_from_part(part.parts["labels"])
    n_members, n_train = part.setting("members", int), part.setting("n_train", int)
    if n_members < 1 or n_train < 0:
        raise ModelError(f"{n_members} members, trained on {n_train} texts. The model is damaged; copy it again.")
    members = [
        [level_from_part(level) for _, level in sorted(part.parts[f"member-{m:02d}"].parts.items())]
        for m in range(n_members)
    ]
    features = {name: registry.restore(item, "features") for name, item in part.parts["features"].parts.items()}
    weights = check_weights(part.config.get("weights", ()), n_members)
    card, blend, seal = Card.of(manifest), part.setting("blend", str), str(manifest.get("sha256"))
    fusion, calibration, documents = (part.parts.get(name) for name in ("fusion", "calibration", "documents"))
    return Model(
        labels, features, members, counts, n_train, card, blend, rows, seal=seal, weights=weights,
        fusion=None if fusion is None else Fusion.from_part(fusion),
        calibration=None if calibration is None else Calibration.from_part(calibration),
        documents=None if documents is None else Documents.from_part(documents, len(labels)),
        bars_self=part.setting("bars_self", bool) if "bars_self" in part.config else False,
    )  # fmt: skip

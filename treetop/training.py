"""From a recipe's name and data to a model: settings resolved, needs forecast, stages kept, result saved."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from treetop.assemble.char_ngrams import lengths_of, settle
from treetop.assemble.encoders import pin
from treetop.assemble.held_out.baseline import warn_if_linear_is_better
from treetop.assemble.held_out.folds import FOLDS, fitted_by_folds, may_fold
from treetop.assemble.held_out.fusion import Aim
from treetop.assemble.held_out.hold_out import OFF, HoldOut, Split, enough
from treetop.assemble.held_out.scores import fitted_to_held_out
from treetop.assemble.on_cluster import check_recipe, on_cluster
from treetop.assemble.probe import probed
from treetop.assemble.self_pairs import Rule, barred, check_rule, with_self_pairs
from treetop.augment.compose import (
    Augmentation,
    augmentation,
    augmented,
    check_hooks,
    constant,
    current_names,
    split_name,
    with_augmentations,
)
from treetop.core import curve, deadline, registry, spill
from treetop.core.abilities import check_device
from treetop.core.card import Card
from treetop.core.config import build, merged, override, read_yaml, to_dict
from treetop.core.dataset import ACTIVE, Dataset
from treetop.core.early_stop import check_patience
from treetop.core.errors import (
    ConfigError,
    InputError,
    TreetopError,
    WorkError,
    did_you_mean,
    shortened,
    shown,
    visible,
)
from treetop.core.executor import executor
from treetop.core.forecast import (
    COMPILED,
    PROCESS,
    Forecast,
    available_memory,
    for_device,
    parse_budget,
    size,
    with_documents,
)
from treetop.core.log import each_once, logger
from treetop.core.sealed import unseal
from treetop.core.version import FORMAT_VERSION
from treetop.core.work import KEY, Job, beyond, is_finished, open_work, remove_work, target_of, work_lock
from treetop.data.frame import from_lists
from treetop.data.parse.space import alike, alike_sentence
from treetop.edit import carry
from treetop.kernels.runtime import cache
from treetop.kernels.runtime import threads as pool
from treetop.model import Model, load

STEPS = 0.85  # of a time budget, until which networks train: labels are read, scores judged and files written after it


@dataclass(frozen=True)
class Plan:
    """A recipe with its settings, ready to run."""

    recipe: str
    module: Any
    config: Any
    augmentations: tuple[Augmentation, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """All settings as plain values; an augmentation's stand under its name."""
        return to_dict(self.config) | {a.name: to_dict(a.config) for a in self.augmentations}

    def check_device(self, device: str) -> None:
        """Refuse a GPU that is not there before any work, where an encoder would run on it."""
        configs = (self.config, *(a.config for a in self.augmentations))
        if any(to_dict(config).get("encoder") for config in configs):  # the name of this setting wherever there is one
            from treetop.tensors import devices

            devices.pick(device)

    def settled(self, dataset: Dataset, *, say: bool = False) -> Plan:
        """The same recipe with settings that ask for the data (`auto`) settled on these, encoders of a hub pinned."""
        config = pin(settle(self.config, dataset, say=say), say=say)
        added = tuple(dataclasses.replace(a, config=pin(a.config, say=say)) for a in self.augmentations)
        return dataclasses.replace(self, config=config, augmentations=added)

    def forecast(
        self, dataset: Dataset, *, probe: bool = False, held: HoldOut = OFF, keep_texts: bool = False,
        device: str = "auto",
    ) -> Forecast:  # fmt: skip
        """What training would need: by the shape of the data, or, some seconds later, by a probe on samples of it."""
        config = settle(self.config, dataset)
        with for_device(device):
            made: Forecast = self.module.forecast(dataset, config)
        made = probed(lambda sample: self.module.fit(sample, config, Job()), dataset, made) if probe else made
        if self.learns_by_folds(dataset, held):
            made = dataclasses.replace(made, time=FOLDS * made.time)
        if held.holds_out(dataset):  # a copy of the rows to train on, and kernels where a recipe has none
            more = (
                float(len(dataset.texts.blob)) + 8.0 * dataset.Y.nnz + (made.memory < COMPILED) * (COMPILED - PROCESS)
            )
            again = 2 if self.refits else 1
            spilled = made.spilled and made.spilled + 12.0 * dataset.Y.nnz
            made = dataclasses.replace(
                made, memory=made.memory + more, floor=made.floor + more, time=again * made.time, spilled=spilled
            )
        if keep_texts:
            encoded = bool(to_dict(self.config).get("encoder"))
            made = with_documents(made, dataset, encoded=encoded, char_ngrams=lengths_of(config))
        return with_augmentations(made, self.augmentations, dataset)

    @property
    def compiling(self) -> float:
        """Seconds of compiling kernels that this machine has not compiled yet."""
        solves = constant(self.recipe.rpartition("+")[2], "GROUP", "") == "linear, trees"
        kernel, seconds = ("descent-solve_group", 35.0) if solves else ("", 13.0)
        return 0.0 if cache.holds(kernel) else seconds

    @property
    def refits(self) -> bool:
        """Whether calibration and fusion from held-out documents are kept for a second model, trained on all."""
        return bool(constant(self.recipe.rpartition("+")[2], "REFITS", False))

    def learns_by_folds(self, dataset: Dataset, held: HoldOut) -> bool:
        """Whether models of parts of the documents teach fusion and probabilities, as documents are few."""
        folds = self.refits or constant(self.recipe.rpartition("+")[2], "FOLDS", False)
        return bool(folds) and held.calibrate and held.given is None and may_fold(dataset)

    def fit(self, dataset: Dataset, job: Job) -> Model:
        """The model, labels and training counts those of `dataset`, whatever rows are added to it."""
        rows, job = augmented(self.augmentations, dataset, job)
        return self.module.fit(rows, self.config, job)


def plan(recipe: str, *, preset: str = "default", settings: Mapping[str, Any] | Iterable[str] = ()) -> Plan:
    """A recipe's settings: its defaults, then the preset, then single settings (a dict, or 'a.b=c' strings).

    `recipe` may have augmentations before it, as in gandalf+lightxml, and a preset behind it, as in unidec:cpu; presets
    are the recipe's, and what augmentations need is set under their names, as in gandalf.delta.
    """
    for what, name in (("recipe", recipe), ("preset", preset)):
        if not isinstance(name, str):
            raise ConfigError(f"{what}: expected a name, got {shown(name)}. `treetop recipes` lists all.")
    recipe, colon, named = recipe.partition(":")
    if colon and preset not in ("default", named):
        raise ConfigError(f"preset: '{preset}', but {recipe}:{named} names one already. Give one of them.")
    preset = named if colon else preset
    before, base = split_name(recipe)
    module = registry.find("recipe", base)
    values: dict[str, Any] = {} if preset == "default" else read_yaml(preset_file(base, preset))
    if isinstance(settings, Mapping):
        values = merged(values, settings)
    else:
        values = override(values, settings)
    for name in values.keys() & {*registry.names("augment")} - {*before}:
        raise ConfigError(f"{name}: settings of an augmentation that '{recipe}' does not have. Train {name}+{recipe}.")
    own = {name: values.pop(name, {}) for name in before}
    made = tuple(augmentation(name, own[name]) for name in before)
    check_hooks(made, base)
    config = build(module.Config, values)
    check_patience(to_dict(config))
    return Plan("+".join([*before, base]), module, config, made)


def presets(recipe: str) -> list[str]:
    """Names of a recipe's presets."""
    folder = files("treetop") / "presets" / recipe
    found = sorted(p.name.removesuffix(".yaml") for p in folder.iterdir()) if folder.is_dir() else []
    return ["default", *found]


def preset_file(recipe: str, preset: str) -> Path:
    """The YAML file of a preset of a recipe, by its name or its path."""
    known = presets(recipe)
    if preset.endswith(".yaml"):  # a file of one's own, such as `treetop tune` writes
        return Path(preset)
    if preset not in known:
        listed = ", ".join(known)
        raise ConfigError(
            f"preset '{preset}': unknown for {recipe}. Choose one of {listed}.{did_you_mean(preset, known)}"
        )
    return Path(str(files("treetop") / "presets" / recipe / f"{preset}.yaml"))


def fit(
    recipe: str,
    texts: Any,
    labels: Any = None,
    *,
    preset: str = "default",
    settings: Mapping[str, Any] | Iterable[str] = (),
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    budget: str = "",
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    calibrate: bool = True,
    aim: Aim = "balanced",
    held_out: Dataset | None = None,
    keep_texts: bool = False,
    self_pairs: Rule = "auto",
    drop_edits: bool = False,
) -> Model:
    """Train a recipe on texts and labels (lists of names, or a csr matrix), or on a Dataset.

    With `out` the model is saved there, and a killed run goes on with `resume=True`, which is also content with the
    model of a finished run of the same job. `calibrate` holds documents out of training (or takes those of `held_out`):
    on them the scores of a recipe's parts are fused to serve `aim`, and scores get probabilities; linear recipes are
    then trained once more, on all documents. With `calibrate=False` all documents are trained on once. `keep_texts`
    puts the training texts into the model, which then finds those nearest to a text (`Model.nearest`). `self_pairs`
    says whether documents that are labels themselves may have their own label: "keep" (yes), "bar" (no) or "auto" (no,
    where no training document does). Changes to the labels of a model that is overwritten are carried over to the new
    one, unless `drop_edits`.
    """
    check_run(seed, device, threads)
    check_rule(self_pairs)
    started, dataset = time.monotonic(), _dataset(texts, labels)
    planned = plan(recipe, preset=preset, settings=settings).settled(dataset, say=True)
    folder = None if out is None else Path(out)
    limits, held = parse_budget(budget), HoldOut(calibrate, aim, enough(held_out) if calibrate else held_out)
    if (
        folder is not None
        and resume
        and not overwrite
        and _is_there(
            folder,
            _key(planned, dataset, held, Job(seed, device, None, limits, keep_texts=keep_texts, self_pairs=self_pairs)),
        )
    ):
        logger.info("%s: the model of this job exists already", folder)
        return load(folder)
    planned.check_device(device)
    if executor.current().remote:
        check_recipe(planned.recipe)
    carries = folder is not None and overwrite and not drop_edits
    if folder is not None and carries:
        carry.check(folder, dataset.labels, planned.recipe)
    if groups := alike(dataset.labels.ids):
        logger.info("%s", alike_sentence(dataset.name, groups))
    probe = bool(limits.keys() & {"memory", "time"})
    needs = on_cluster(planned.forecast(dataset, probe=probe, held=held, keep_texts=keep_texts, device=device))
    needs = dataclasses.replace(needs, time=needs.time + planned.compiling)
    logger.info("%s on %s: %s", recipe, describe(dataset), needs.describe())
    in_files = needs.needs_files(limits, folder) and not executor.current().remote
    if in_files:
        needs = needs.in_files()
        logger.info("memory: large arrays lie in files beside %s, about %s", folder, size(needs.disk))
    needs.check(limits, folder)
    if needs.memory > limits.get("memory", np.inf):
        limits["weights"] = needs.model_within(limits["memory"])
    job = Job(seed, device, None, limits, ends=started + limits.get("time", np.inf), keep_texts=keep_texts)
    job = dataclasses.replace(job, self_pairs=self_pairs)
    ends = started + STEPS * limits.get("time", np.inf)
    room = limits.get("memory", available_memory())
    files_at = folder if in_files else None
    with pool.limited(threads), deadline.ending(steps=ends), spill.beside(files_at, room), each_once():
        if folder is None:
            return _train(planned, dataset, held, job)
        return _train_into(folder, planned, dataset, held, job, resume, overwrite, carries)


def check_run(seed: int, device: str, threads: int | None = None) -> None:
    """Refuse a seed, a device or a number of threads that no recipe could use."""
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ConfigError(f"seed: {shown(seed)} is out of range. Allowed: whole numbers from 0 to 2**63 - 1.")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ConfigError(
            f"threads: {shown(threads)} is out of range. Allowed: whole numbers from 1, or None for all cores."
        )
    check_device(device)


def _dataset(texts: Any, labels: Any) -> Dataset:
    if isinstance(texts, Dataset):
        if labels is not None:
            raise InputError("labels: a Dataset brings its own labels; leave this argument out.")
        dataset = texts
    elif labels is None:
        raise InputError("labels: missing. Pass one list of label names per text, or a Dataset instead of texts.")
    else:
        dataset = from_lists(texts, labels)
    check_trainable(dataset)
    return dataset


def check_trainable(dataset: Dataset) -> None:
    """Refuse data of which no recipe could learn anything to answer."""
    if not dataset.label_counts.any():
        others = len(dataset) - int(dataset.documents.sum())
        beside = f" and {others:,} rows of other roles" if others else ""
        raise InputError(
            f"{dataset.name}: {len(dataset) - others:,} texts with 0 labels{beside}. Training needs at least one text "
            "with one label (and a target above 0), in the role of a document. Fill in labels, or name the column that "
            "has them with --label-column (label_field=)."
        )
    if not (dataset.labels.status == ACTIVE).any():
        raise InputError(
            f"{dataset.name}: all {dataset.n_labels:,} labels are retired, so none could be predicted. Make "
            "at least one active in the labels file."
        )


def _train(planned: Plan, dataset: Dataset, held: HoldOut, job: Job) -> Model:
    facts: dict[str, Any] = {"name": dataset.name, "texts": len(dataset), "labels": dataset.n_labels}
    bars_self = barred(dataset, job.self_pairs)
    rows, documents = dataset, held
    if bars_self:
        rows, documents = with_self_pairs(dataset), held.changed(with_self_pairs, dataset.labels)
    by_folds = planned.learns_by_folds(rows, documents)
    split = None if by_folds else documents.split(rows, job.seed)
    if held.calibrate:
        facts |= {"hold_out": held.key, "held_out": 0 if split is None else len(split.held_out)}
    if split is None:
        model = with_folds(planned, rows, dataclasses.replace(job, folds=by_folds, aim=held.aim))
    else:
        model = _taught(planned, split, held, job)
    facts |= {"sha256": dataset.fingerprint, **model.card.data}
    if limits := _limits(job.budget):
        facts["budget"] = limits
    facts |= {"keep_texts": True} if job.keep_texts else {}
    facts |= {} if job.self_pairs == "auto" else {"self_pairs": job.self_pairs}
    card = Card(planned.recipe, planned.settings, job.seed, facts)
    model = dataclasses.replace(model, card=card, bars_self=bars_self)
    if job.keep_texts:
        model = dataclasses.replace(model, documents=model.to(job.device).with_documents(dataset).documents)
    return model.with_golden(dataset.texts) if dataset.texts.offsets[-1] else model


def with_folds(planned: Plan, dataset: Dataset, job: Job) -> Model:
    """A model of all documents; of a quick recipe with probabilities from models of folds, if the job says so."""
    if not (job.folds and planned.refits):
        return planned.fit(dataset, job)
    started, job = time.monotonic(), dataclasses.replace(job, folds=False, reads={})
    model = planned.fit(dataset, job)
    return fitted_by_folds(model, planned.fit, dataset, job, time.monotonic() - started) or model


def _taught(planned: Plan, split: Split, held: HoldOut, job: Job) -> Model:
    """Train without the held-out documents, learn on them, and where it is quick train on all once more."""
    again = split.everything if planned.refits else None
    first = job if again is None else job.within("held-out")
    first = dataclasses.replace(first, held_out=split.held_out, everything=split.everything, aim=held.aim)
    if again is not None and job.reads is None:  # a frozen encoder reads no text twice
        job = dataclasses.replace(job, reads={})
        first = dataclasses.replace(first, reads=job.reads)
    started = time.monotonic()
    model = planned.fit(split.train, first)
    if model.calibration is None:
        try:
            model = fitted_to_held_out(model, split.held_out, held.aim, job.seed, job.device)
            logger.info("probabilities: calibrated on %s held-out documents", f"{len(split.held_out):,}")
        except InputError as error:  # the model itself is sound
            logger.warning("scores without probabilities: %s", error)
    if again is None and not constant(planned.recipe.rpartition("+")[2], "COMPARES", False):
        warn_if_linear_is_better(planned.recipe, model, split.train, split.held_out, job)
    if again is None or not job.may_repeat(time.monotonic() - started):
        return model
    logger.info("training again, on all %s documents", f"{int(again.documents.sum()):,}")
    return dataclasses.replace(planned.fit(again, job), fusion=model.fusion, calibration=model.calibration)


def _limits(budget: Mapping[str, float]) -> str:
    """What a model's card says of the budget that its training had."""
    names = [name for name, kept in (("memory", "weights"), ("model", "model")) if kept in budget]
    limits = ", ".join(f"{name} {size(budget[name])}" for name in names)
    return f"{limits}, so weights may be fewer and narrower than the settings say" if limits else ""


def _key(planned: Plan, dataset: Dataset, held: HoldOut, job: Job) -> dict[str, Any]:
    """All that decides a model."""
    return {
        "data": dataset.fingerprint,
        "settings": planned.settings,
        "recipe": planned.recipe,
        "seed": job.seed,
        "hold_out": held.key,
        "keep_texts": job.keep_texts,
        "self_pairs": job.self_pairs,
        "budget": {name: limit for name, limit in job.budget.items() if name in {"model", "memory"}},
        "format": FORMAT_VERSION,
    }


def _is_there(folder: Path, key: Mapping[str, Any]) -> bool:
    """Whether a finished run of the same job left its model in `folder`; a model of another job is refused."""
    if not (folder / "manifest.json").is_file():
        return False
    manifest = unseal(folder / "manifest.json")
    data = manifest.get("data")
    data = data if isinstance(data, dict) else {}
    run = unseal(folder / "run.json") if (folder / "run.json").is_file() else {}
    rounded = key["budget"] if data.get("budget", "") == _limits(key["budget"]) else data.get("budget")
    said = {name: manifest.get(name) for name in ("recipe", "seed", "format")}
    said |= {"data": data.get("sha256"), "settings": current_names(str(key["recipe"]), manifest.get("config"))}
    said |= {"budget": run.get("budget", rounded), "hold_out": data.get("hold_out", "off")}
    said |= {"keep_texts": data.get("keep_texts", False), "self_pairs": data.get("self_pairs", "auto")}
    return is_finished(folder, key, said)


def _train_into(
    folder: Path, planned: Plan, dataset: Dataset, held: HoldOut, job: Job, resume: bool, overwrite: bool, carries: bool
) -> Model:
    key = _key(planned, dataset, held, job)
    rank, size = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    work = open_work(target_of(folder, rank), key, resume=resume, overwrite=overwrite)
    started, used = time.monotonic(), time.process_time()
    with work_lock(work):
        try:
            model = _train(planned, dataset, held, dataclasses.replace(job, work=work))
        except TreetopError:  # settings that do not fit the data: nothing is kept that would bar the next command
            with contextlib.suppress(OSError):
                if {file.name for file in work.rglob("*") if file.is_file()} == {KEY}:
                    shutil.rmtree(work)
            raise
        except KeyboardInterrupt:
            logger.warning("%s: finished stages are kept here; continue with the same command and --resume", work)
            raise
        spent = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - used}
        if rank == 0:
            run = {**spent, "threads": pool.count(), "budget": key["budget"]}
            if points := curve.gather(work):
                run["curve"] = points
            if carries:
                model, lost = carry.onto(folder, model)
                run |= {"label_changes_lost": lost} if lost else {}
            model = model.save(folder, overwrite=overwrite, run=run)
        try:
            for done in (work, *(beyond(folder, size) if rank == 0 else ())):
                remove_work(done)
        except WorkError as error:
            logger.warning("%s The model is complete.", error)
    return model


def describe(dataset: Dataset) -> str:
    """One line a person reads before training."""
    name = visible(shortened(dataset.name))
    return f"{name} ({len(dataset):,} texts, {dataset.n_labels:,} labels, {dataset.Y.nnz:,} assignments)"

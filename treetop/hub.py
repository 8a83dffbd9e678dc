"""Models on a hub that speaks Hugging Face's protocol: pushed file by file, put in place only if every byte is right.

A folder is verified before it is pushed. Of a repository only the files that the manifest names are pulled, into a
folder beside the target; sizes are compared before anything large is downloaded, and every hash before it is opened.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treetop.core.edits import FOLDER as EDITS
from treetop.core.edits import LOCK
from treetop.core.errors import ConfigError, InputError, ModelError, ResourceError, TreetopError, WorkError, extra
from treetop.core.folder import LARGEST, MANIFEST, check_name
from treetop.core.forecast import size
from treetop.core.sealed import unseal
from treetop.core.store import OUTSIDE, files_below
from treetop.core.target import FULL, check_target, replacing
from treetop.core.version import VERSION
from treetop.model import load

_LOCK = f"{EDITS}/{LOCK}"
_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_TOKEN = "Give a token with that right (--token-file, HF_TOKEN or `hf auth login`)"


@dataclass(frozen=True)
class Place:
    """A commit of a repository."""

    repository: str
    revision: str  # the hash of the commit
    files: int
    bytes: int


def push(
    folder: str | Path,
    repository: str,
    *,
    branch: str = "main",
    private: bool = False,
    with_texts: bool = False,
    token: str | None = None,
) -> Place:
    """Verify a model folder and make it the content of a repository, which is created where it is missing.

    Files of an earlier model there are removed in the same commit; others, such as pictures of the card, stay.
    Training texts that the model keeps are pushed with it only if `with_texts`.
    """
    hub, folder = _hub(repository), Path(folder)
    model = load(folder, check="full")
    model.check_golden()
    if model.documents is not None and not with_texts:
        raise ConfigError(
            f"{folder}: keeps its training texts, which everybody who may read {repository} could read. Push it "
            "with --with-texts, or train it without --keep-texts."
        )
    names = [name for name in files_below(folder) if name not in OUTSIDE - {MANIFEST} and name != _LOCK]
    with _answered(repository, "write to"):
        api = _api(hub, token)
        api.create_repo(repository, private=private, exist_ok=True)
        if branch != "main":
            api.create_branch(repository, branch=branch, exist_ok=True)
        old = _earlier(api, repository, branch) - set(names)
        operations = [hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in names]
        operations += [hub.CommitOperationDelete(path_in_repo=name) for name in sorted(old)]
        message = f"{model.card.recipe} over {len(model.labels):,} labels"
        done = api.create_commit(repository, operations, commit_message=message, revision=branch)
    return Place(repository, str(done.oid), len(names), sum((folder / name).stat().st_size for name in names))


def pull(
    repository: str, out: str | Path, *, revision: str = "main", overwrite: bool = False, token: str | None = None
) -> Place:
    """Download the model of a repository to a new folder; nothing is put in place before all of it is verified."""
    hub, out = _hub(repository), Path(out)
    check_target(out, overwrite=overwrite)
    with _answered(repository, "read"):
        info = _api(hub, token).model_info(repository, revision=revision, files_metadata=True)
    there = {item.rfilename: item.size for item in info.siblings or []}
    place = f"{repository} at {info.sha[:12]}"
    with replacing(out) as fresh:
        fetch = _Fetch(_api(hub, token), repository, info.sha, fresh)
        _check_size(place, MANIFEST, there, LARGEST)
        fetch(MANIFEST)
        listed = _listed(place, fresh, there)
        edits = [name for name in there if name.startswith(f"{EDITS}/") and name != _LOCK]
        needed = sum(listed.values()) + sum(there[name] or 0 for name in edits)
        _check_disk(out, needed)
        for name in [*listed, *edits]:
            check_name(fresh, name)
            fetch(name)
        shutil.rmtree(fresh / ".cache", ignore_errors=True)  # the client's notes on what it downloaded
        try:
            load(fresh, check="full").check_golden()
        except TreetopError as error:
            raise ModelError(
                f"{place}: refused, nothing was put in place: {str(error).replace(str(fresh), repository)}"
            ) from None
    return Place(repository, str(info.sha), len(listed) + len(edits) + 1, int(needed))


@dataclass(frozen=True)
class _Fetch:
    """Downloads a file of one commit into a folder."""

    api: Any
    repository: str
    revision: str
    folder: Path

    def __call__(self, name: str) -> None:
        with _answered(self.repository, "read"):
            self.api.hf_hub_download(self.repository, name, revision=self.revision, local_dir=self.folder)


def _hub(repository: str) -> Any:
    """The client, once the repository's name makes sense."""
    if not _REPOSITORY.fullmatch(repository):
        raise ConfigError(f"{repository!r:.200}: is not a repository of the hub. Give OWNER/NAME, such as me/subjects.")
    return extra("huggingface_hub", "hub")


def _api(hub: Any, token: str | None) -> Any:
    extra("huggingface_hub.utils.logging", "hub").set_verbosity_error()
    extra("huggingface_hub.utils", "hub").disable_progress_bars()
    return hub.HfApi(
        endpoint=os.environ.get("HF_ENDPOINT"), token=token, library_name="treetop", library_version=VERSION
    )


def _earlier(api: Any, repository: str, branch: str) -> set[str]:
    """Files of the model that a branch holds now."""
    there = set(api.list_repo_files(repository, revision=branch))
    if MANIFEST not in there:
        return set()
    folders = {name.split("/")[0] for name in there if name.endswith("/part.json")}
    return {name for name in there if name == "part.json" or name.split("/")[0] in {*folders, EDITS}}


def _listed(place: str, fresh: Path, there: Mapping[str, int | None]) -> dict[str, int]:
    """Name and size of the manifest's files, all of which the repository has at that size."""
    try:
        files = unseal(fresh / MANIFEST).get("files")
    except TreetopError as error:
        raise ModelError(f"{place}: {str(error).replace(str(fresh), place)}") from None
    if not isinstance(files, dict) or not all(
        isinstance(facts, dict) and type(facts.get("size")) is int for facts in files.values()
    ):
        raise ModelError(f"{place}: manifest.json has no list of files with their sizes. Push the model again.")
    for name, facts in files.items():
        check_name(fresh, name)
        _check_size(place, name, there, facts["size"], exact=True)
    return {name: facts["size"] for name, facts in files.items()}


def _check_size(place: str, name: str, there: Mapping[str, int | None], most: int, *, exact: bool = False) -> None:
    if name not in there:
        known = ", ".join(sorted(there)[:5]) or "no file at all"
        why = "so it is not a treetop model" if name == MANIFEST else "which its manifest names"
        raise ModelError(f"{place}: has no {name}, {why} (it has {known}). Nothing was downloaded.")
    found = there[name]
    if found is not None and (found > most or (exact and found != most)):
        raise ModelError(
            f"{place}: {name} has {found:,} bytes, {'expected' if exact else 'at most'} {most:,}. Nothing of it was "
            "downloaded; push the model again."
        )


def _check_disk(out: Path, needed: float) -> None:
    above = next(up for up in out.absolute().parents if up.exists())
    if (free := shutil.disk_usage(above).free) < needed:
        raise ResourceError(f"{out}: the model has {size(needed)}, the disk {size(free)} free. Free some space.")


@contextlib.contextmanager
def _answered(repository: str, act: str) -> Iterator[None]:
    """What the hub refuses or leaves unanswered, as one sentence."""
    hub_errors, httpx = extra("huggingface_hub.errors", "hub"), extra("httpx", "hub")
    try:
        yield
    except hub_errors.GatedRepoError:
        raise InputError(f"{repository}: asks its readers to accept terms first. Do so on the hub. {_TOKEN}.") from None
    except hub_errors.RevisionNotFoundError:
        raise InputError(f"{repository}: has no such branch, tag or commit. Name another with --revision.") from None
    except hub_errors.HfHubHTTPError as error:
        raise _refused(repository, act, error) from None
    except (hub_errors.HFValidationError, hub_errors.LocalTokenNotFoundError) as error:
        raise ConfigError(f"{repository}: {' '.join(str(error).split())[:300]}") from None
    except hub_errors.OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE is set, so the hub is not asked. Unset it.") from None
    except (httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, TreetopError) or (isinstance(error, OSError) and error.errno in FULL):
            raise
        cut = "could not be opened" if isinstance(error, httpx.ConnectError) else "was cut off"
        reason = type(error.__cause__ or error).__name__
        raise WorkError(
            f"{repository}: the connection to the hub {cut} ({reason}). Nothing was changed; try again, and see that "
            "HF_ENDPOINT is right if it is set."
        ) from None


def _refused(repository: str, act: str, error: Any) -> TreetopError:
    status = getattr(error.response, "status_code", None)
    if status in {401, 403}:
        return InputError(f"{repository}: the hub does not let you {act} it (status {status}). {_TOKEN}.")
    if status == 404:
        return InputError(
            f"{repository}: no such repository, or it is private and you may not {act} it. Check the name. {_TOKEN}."
        )
    if status in {413, 507}:
        return ResourceError(f"{repository}: the hub has no room for the model (status {status}). Ask its keeper.")
    return WorkError(f"{repository}: the hub answered with status {status}. Nothing was changed; try again later.")

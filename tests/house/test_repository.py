"""What the repository promises of itself: pins without addresses, no machine's paths, a whole staircase."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = sorted((ROOT / "requirements").glob("*.txt"))
# Written with brackets so that this file does not find itself.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:wor[k]|roo[t]|hom[e]|far[m]|User[s])/[\w.-]+")


def source_files() -> list[Path]:
    """The tracked files; in an unpacked archive, which has no history, those of the source folders."""
    if (ROOT / ".git").exists():
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]
    folders = ("src", "tests", "scripts", "docs", "bench", "requirements")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]


def contract(name: str) -> dict[str, list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found: dict[str, list[str]] = next(each for each in contracts if each["id"] == name)
    return found


@pytest.mark.parametrize(
    "path",
    [
        *PINS,
        ROOT / "requirements/js/package-lock.json",
        ROOT / "src/mediamill/agents/pi_package/package-lock.json",
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_file_of_pins_names_no_address(path: Path) -> None:
    assert not re.search(r"\w+://|--(?:extra-)?index-url|--find-links", path.read_text())


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_pinned_package_has_a_version_and_a_hash(path: Path) -> None:
    packages = [each for each in re.split(r"\n(?=\S)", path.read_text().strip()) if not each.startswith("#")]
    assert packages
    for package in packages:
        assert "==" in package.splitlines()[0], package
        assert "--hash=sha256:" in package, package


def test_the_files_of_pins_agree_on_every_version() -> None:
    """A package may have one version for old Pythons and one for new; then all files have both."""
    found: dict[str, set[frozenset[str]]] = {}
    for path in PINS:
        if path.name in ("postgres16.txt", "clients.txt", "litellm.txt"):  # in folders of their own
            continue
        pins: dict[str, set[str]] = {}
        for name, pin in re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;]+)", path.read_text(), re.MULTILINE):
            pins.setdefault(name, set()).add(pin)
        for name, versions in pins.items():
            found.setdefault(name, set()).add(frozenset(versions))
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}


def test_an_installed_mediamill_fetches_the_node_that_is_pinned() -> None:
    carried = ROOT / "src" / "mediamill" / "node_requirements.txt"
    assert carried.read_text() == (ROOT / "requirements" / "node.txt").read_text(), "run make lock"


def test_everything_that_the_project_depends_on_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {
        "runtime": project["project"]["dependencies"],
        "dev": project["project"]["dependencies"] + project["dependency-groups"]["dev"],
        "bench": project["project"]["dependencies"] + project["dependency-groups"]["bench"],
        "build": project["build-system"]["requires"],
    }
    for name, requirements in wanted.items():
        pinned = set(
            re.findall(r"^[\w.-]+", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE)
        )
        missing = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements} - pinned
        assert not missing, f"requirements/{name}.txt lacks {missing}: run make lock"


def test_no_tracked_text_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in source_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {hit}" for hit in MACHINE_PATHS.findall(text)]
    assert found == []


def test_every_folder_and_file_of_the_package_stands_on_the_staircase() -> None:
    steps = {name.strip(" ()") for layer in contract("staircase")["layers"] for name in layer.split("|")}
    package = ROOT / "src" / "mediamill"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert (folders | files) - steps == set()


def test_every_folder_with_code_is_a_package_that_the_contract_can_see() -> None:
    package = ROOT / "src" / "mediamill"
    with_code = {path.parent for path in package.rglob("*.py") if "migrations" not in path.parts}
    assert {
        str(folder.relative_to(ROOT)) for folder in with_code if not (folder / "__init__.py").exists()
    } == set()

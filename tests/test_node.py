"""Node.js is found or fetched, and packages for it are installed whole, once, by one process at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mediamill.node import NodeError, NodeTools, find_node, npm_ci, version_of
from tests.agents.conftest import PI_DATA

# Stands in for npm where what matters is how it ends: it notes its call, writes half, and does as it is told.
NPM = """
import os, pathlib, sys, time
here = pathlib.Path.cwd()
plan = pathlib.Path(__file__).parent
with (plan / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
(here / "node_modules").mkdir()
(here / "node_modules" / "half").write_text("half")
if (plan / "die").exists():
    (plan / "die").unlink()
    os.kill(os.getppid() if (plan / "parent").exists() else os.getpid(), 9)
if (plan / "fail").exists():
    sys.exit("npm error code ENETUNREACH")
(here / "node_modules" / "whole").write_text("whole")
"""


@pytest.fixture
def npm(tmp_path: Path) -> Path:
    plan = tmp_path / "npm"
    plan.mkdir()
    (plan / "npm.py").write_text(NPM)
    return plan


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "p", "private": true}')
    (folder / "package-lock.json").write_text('{"name": "p", "lockfileVersion": 3, "packages": {}}')
    return folder


def tools(npm: Path) -> NodeTools:
    return NodeTools(Path("node"), (sys.executable, str(npm / "npm.py")))


def calls(npm: Path) -> list[str]:
    return (npm / "calls").read_text().splitlines() if (npm / "calls").exists() else []


def program(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
    (folder / name).chmod(0o755)


def test_a_node_of_the_machine_that_is_new_enough_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "node", "v22.19.0")
    program(tmp_path / "bin", "npm", "10.9.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = find_node(tmp_path / "tools", (22, 19))
    assert found.node == tmp_path / "bin" / "node"
    assert found.npm == (str(tmp_path / "bin" / "npm"),)
    assert not (tmp_path / "tools").exists()


@pytest.mark.parametrize(
    ("node", "npm"),
    [("v22.18.9", "10.9.0"), ("v9.99.0", "10.9.0"), ("v24.0.0", "6.14.0"), ("what?", "10.9.0")],
)
def test_a_node_that_is_too_old_is_passed_over_for_the_pinned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, npm: str
) -> None:
    program(tmp_path / "bin", "node", node)
    program(tmp_path / "bin", "npm", npm)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = find_node(PI_DATA / "tools", (22, 19), lambda _: pytest.fail("make .tools/.stamp-pi fetches it"))
    assert version_of([str(found.node)]) >= (22, 19)
    assert version_of(found.npm) >= (7, 0)


def test_a_node_that_cannot_be_fetched_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(NodeError) as caught:
        find_node(tmp_path / "tools", (22, 19))
    assert "network" in (caught.value.fix or "")
    assert [path.name for path in (tmp_path / "tools" / "node").iterdir()] == [".lock"]


def test_a_package_is_installed_once(tmp_path: Path, npm: Path, package: Path) -> None:
    lines: list[str] = []
    first = npm_ci(tools(npm), tmp_path / "into", package, lines.append)
    assert (first / "node_modules" / "whole").is_file()
    assert json.loads((first / "package.json").read_text())["name"] == "p"
    assert npm_ci(tools(npm), tmp_path / "into", package) == first
    assert len(calls(npm)) == 1
    assert "--ignore-scripts" in calls(npm)[0]
    assert len(lines) == 2


def test_other_pins_are_another_installation_and_the_old_one_goes(
    tmp_path: Path, npm: Path, package: Path
) -> None:
    old = npm_ci(tools(npm), tmp_path / "into", package)
    (package / "package-lock.json").write_text('{"name": "p", "lockfileVersion": 3, "packages": {"": {}}}')
    new = npm_ci(tools(npm), tmp_path / "into", package)
    assert new != old
    assert (old.exists(), new.exists()) == (False, True)


def test_an_installation_that_failed_is_not_there_and_is_done_again(
    tmp_path: Path, npm: Path, package: Path
) -> None:
    (npm / "fail").touch()
    with pytest.raises(NodeError, match="ENETUNREACH"):
        npm_ci(tools(npm), tmp_path / "into", package)
    assert [path.name for path in (tmp_path / "into").iterdir()] == [".lock"]
    (npm / "fail").unlink()
    assert (npm_ci(tools(npm), tmp_path / "into", package) / "node_modules" / "whole").is_file()


def test_what_somebody_damaged_is_done_again(tmp_path: Path, npm: Path, package: Path) -> None:
    made = npm_ci(tools(npm), tmp_path / "into", package)
    (made / "node_modules" / ".package-lock.json").unlink()
    assert npm_ci(tools(npm), tmp_path / "into", package) == made
    assert len(calls(npm)) == 2


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path, npm: Path, package: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mediamill.node import *;"
        "npm_ci(NodeTools(Path('node'), (sys.executable, sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    (npm / "die").touch()
    (npm / "parent").touch()
    command = [sys.executable, "-c", code, str(npm / "npm.py"), str(tmp_path / "into"), str(package)]
    assert subprocess.run(command, check=False).returncode == -9
    assert any(path.name.startswith(".installing-") for path in (tmp_path / "into").iterdir())
    made = npm_ci(tools(npm), tmp_path / "into", package)
    assert {path.name for path in (tmp_path / "into").iterdir()} == {".lock", made.name}


def test_of_several_at_once_one_installs_and_the_others_wait(
    tmp_path: Path, npm: Path, package: Path
) -> None:
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(npm_ci(tools(npm), tmp_path / "into", package)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1
    assert len(calls(npm)) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, npm: Path, package: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NodeError, match="file"):
        npm_ci(tools(npm), tmp_path / "file" / "into", package)

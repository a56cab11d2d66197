"""The guide to plugins, from a folder to a running mill: built, installed into an environment of its own, and used."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.crash.processes import Mill
from tests.installed import install

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "how-to" / "plugins.md"
EXAMPLE = re.compile(r"<!-- example: (\S+)\.py -->\n```python\n(.*?)```", re.DOTALL)
PART = re.compile(r"<!-- part of: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
POINTS = re.compile(r'entry-points\."(mediamill\.(?:kinds|providers))"\]\n([\w-]+) = "(\S+)"')


def run(*command: object, folder: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_environment(folder: Path) -> Path:
    """A fresh one that sees what is installed here, and is written to without a trace there; its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    [packages] = folder.glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    (packages / "sees_mediamill.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return folder / "bin" / "python"


@pytest.fixture
def mill(new_url: str, tmp_path: Path) -> Iterator[Mill]:
    """Run by a Python of its own."""
    mill = Mill(tmp_path, new_url, python=str(make_environment(tmp_path / "environment")))
    yield mill
    mill.close()


def test_what_the_guide_shows_is_what_the_example_has() -> None:
    parts = PART.findall(GUIDE.read_text())
    assert len(parts) == 2
    for path, code in parts:
        assert code in (ROOT / path).read_text(), path


@pytest.mark.spec("C25")
async def test_a_plugin_is_built_installed_and_used_as_the_guide_says(mill: Mill, tmp_path: Path) -> None:
    package = tmp_path / "midi"
    shutil.copytree(ROOT / "examples" / "midi", package)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", folder=package)
    [wheel] = (package / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", mill.python, "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-index", wheel, folder=tmp_path)
    shutil.rmtree(package / "src")  # from here on only what was installed counts
    run(
        sys.executable,
        "-c",
        "import importlib.util as u; assert not u.find_spec('mediamill_midi')",
        folder=tmp_path,
    )

    said = run(mill.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=package)
    assert "16 passed" in said

    await mill.started("up")
    code, said = await mill.say("check")
    assert code == 0, said
    assert "processor midi of mediamill-midi 1.0" in said
    code, said = await mill.say(
        "pools", "set", "midi", "matches=audio/midi", "processor=midi", "concurrency=2", "timeout_seconds=30"
    )
    assert "set: midi; workers go by it from now on" in said
    code, said = await mill.say("pools", "set", "more", "matches=audio/x-more", "processor=mide")
    assert code == 1
    assert "midi" in said.split("mide", 1)[1], said

    song = tmp_path / "song.mid"
    write = f"import pathlib, test_midi; test_midi.write_song(pathlib.Path({str(song)!r}))"
    run(mill.python, "-c", write, folder=package / "tests")
    code, said = await mill.say("process", song, "--json")
    assert code == 0, said
    told = json.loads(said)
    assert told["mime_type"] == "audio/midi"
    assert told["text"].startswith("Ode to Joy: 0:02 of music at 120 beats a minute, in D major")
    mill.assert_no_traceback()


async def test_the_kind_and_the_network_of_the_guide_work_beside_a_broken_plugin(
    mill: Mill, tmp_path: Path
) -> None:
    guide = GUIDE.read_text()
    modules = dict(EXAMPLE.findall(guide))
    points = {group: {name: value} for group, name, value in POINTS.findall(guide)}
    del modules["captions"]  # see tests/contracts/test_how_to.py
    assert set(modules) == {"folder_sizes", "folder_chat"}
    assert len(points) == 2
    place = Path(mill.python).parent.parent / "guests"
    install(place, "guide", modules, points)
    broken = {"mediamill.kinds": {"torn": "torn:KIND"}, "mediamill.providers": {"torn": "torn:Network"}}
    install(place, "torn", {"torn": "raise RuntimeError('no luck today')"}, broken)
    [packages] = place.parent.glob("lib/python*/site-packages")
    (packages / "guests.pth").write_text(f"{place}\n")

    up = await mill.started("up")
    assert (
        "the job kind torn of the package torn is left out: torn:KIND cannot be loaded: RuntimeError: no luck"
        in up.said
    )

    folder = tmp_path / "measured"
    folder.mkdir()
    (folder / "file").write_bytes(b"x" * 1234)
    code, said = await mill.say(
        "jobs", "add", "folder.measure", json.dumps({"folder": str(folder)}), "--wait"
    )
    assert code == 0, said
    assert await mill.one("select bytes from folder_sizes where folder = $1", str(folder)) == 1234
    code, said = await mill.say("jobs", "add", "folder.measure", '{"folder": "/nowhere/at/all"}', "--wait")
    assert code == 1
    assert await mill.one("select count(*) from folder_sizes") == 1

    letters = tmp_path / "letters"
    config = {"providers": {"folder": {"folder": str(letters)}}, "reply": {"by": "echo"}}
    (tmp_path / "bot.json").write_text(json.dumps(config))
    code, said = await mill.say("bots", "create", "letters", "--config", tmp_path / "bot.json", "--open")
    assert "letters is created and started" in said

    async def connected() -> bool:
        return (letters / "in").is_dir()

    await wait_until(connected)
    (letters / "draft").write_text("hello")
    (letters / "draft").rename(letters / "in" / "ann.1.txt")

    async def answered() -> bool:
        return [path.read_text() for path in (letters / "out").glob("ann.*.txt")] == ["You said: hello"]

    await wait_until(answered)
    assert list((letters / "in").iterdir()) == []

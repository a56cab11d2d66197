"""The examples for authors of processors run as they stand in the guides."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.models import calls
from mediamill.processors.models.endpoint import ModelNotSetError
from mediamill.settings import Settings
from mediamill.testing.conformance import MediaConformance
from mediamill.testing.model_server import ModelServer, Reply
from tests.processors.remote_models import calling

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "processor.md"
PLUGINS = GUIDE.with_name("plugins.md")
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.spec("C25")
def test_the_processor_of_the_guide_passes_the_suite(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(GUIDE.read_text())
    assert [name for name, _ in examples] == ["subtitles.py", "test_subtitles.py"]
    for name, code in examples:
        (tmp_path / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_subtitles.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    cases = [name for name in dir(MediaConformance) if name.startswith("test_")]
    assert f"{len(cases) + 1} passed" in done.stdout


def make_input(folder: Path) -> ProcessorInput:
    Image.new("RGB", (40, 30), "red").save(folder / "image.png")
    return ProcessorInput({}, "image/png", folder / "image.png", folder, None, 1, lambda *_, **__: None)


def make_captioner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The processor of the guide that asks a server."""
    code = dict(EXAMPLE.findall(PLUGINS.read_text()))["captions.py"]
    (folder / "captions.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "captions", raising=False)
    return importlib.import_module("captions").CaptionProcessor(("image/*",), 60)


def caption(_: object) -> Reply:
    return Reply.json({"caption": "a red square"})


@pytest.mark.spec("C25")
def test_the_processor_of_the_guide_asks_its_server_through_a_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(caption) as server:
        monkeypatch.setenv("CAPTIONS_URL", f"{server.url}/api")
        with calling(Settings(model_servers=f"{server.url}/api, http://gpu:9000"), monkeypatch):
            processor = make_captioner(tmp_path, monkeypatch)
            assert processor.process(make_input(tmp_path)).result["content"] == "a red square"
        assert server.seen[0].path == "/api/caption"


def test_a_server_that_the_settings_do_not_name_is_refused_with_the_setting_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(caption) as server:
        monkeypatch.setenv("CAPTIONS_URL", f"{server.url}/api")
        with calling(Settings(model_servers=f"{server.url}/other"), monkeypatch):
            processor = make_captioner(tmp_path, monkeypatch)
            with pytest.raises(ModelNotSetError) as failure:
                processor.process(make_input(tmp_path))
        assert failure.value.fix == f"add {server.url}/api to MEDIAMILL_MODEL_SERVERS"
        assert server.seen == []


def test_a_processor_that_did_not_declare_the_network_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTIONS_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr(calls, "_inherited_calls", calls.NoCalls)
    with pytest.raises(ModelNotSetError, match="does not declare `network = True`"):
        make_captioner(tmp_path, monkeypatch).process(make_input(tmp_path))


@pytest.mark.parametrize(
    "listed", ["gpu:9000", "ftp://gpu/x", "http://user:password@gpu/", "http://gpu/?key=1", "http://a b/"]
)
def test_a_setting_that_names_no_servers_is_refused(listed: str) -> None:
    with pytest.raises(ValueError, match="separated by commas"):
        Settings(model_servers=listed)

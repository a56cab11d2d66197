"""Processors are found by name among the installed entry points."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mediamill.errors import NotFoundError
from mediamill.processors.load import BrokenProcessorError
from mediamill.processors.registry import (
    GROUP,
    UnknownProcessorError,
    load_processor,
    processor_names,
)
from mediamill.testing.scripted import ScriptedProcessor
from tests.installed import install

PLUGIN = """
class Good:
    def __init__(self, mime_types, timeout_seconds): ...
    def process(self, given): ...

def make_good(mime_types, timeout_seconds):
    return Good(mime_types, timeout_seconds)

class Mute:
    def __init__(self, mime_types, timeout_seconds): ...

def explode(mime_types, timeout_seconds):
    raise RuntimeError("no model here")
"""

ENTRY_POINTS = """
[mediamill.processors]
good = plugin_for_registry:Good
factory = plugin_for_registry:make_good
mute = plugin_for_registry:Mute
explodes = plugin_for_registry:explode
absent = plugin_for_registry_that_is_absent:Good
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with processors, as pip would have installed it."""
    (tmp_path / "plugin_for_registry.py").write_text(PLUGIN)
    info = tmp_path / "plugin_for_registry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-for-registry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plugin_for_registry", raising=False)


def test_a_built_in_processor_loads_like_a_plugin() -> None:
    assert "scripted" in processor_names()
    assert isinstance(load_processor("scripted"), ScriptedProcessor)


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["good", "factory"])
def test_a_plugin_may_declare_a_class_or_a_factory(name: str) -> None:
    assert name in processor_names()
    assert type(load_processor(name)).__name__ == "Good"


def test_a_plugin_that_is_installed_while_we_run_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(tmp_path, (0, 0))  # a while ago
    assert "late" not in processor_names()
    install(tmp_path, "late-plugin", {}, {GROUP: {"late": "late_plugin:Late"}})
    assert "late" in processor_names()


def test_an_unknown_name_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownProcessorError, match="did you mean 'scripted'") as caught:
        load_processor("scriptd")
    assert isinstance(caught.value, NotFoundError)
    assert caught.value.fix is not None
    assert "scripted" in caught.value.fix


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(UnknownProcessorError) as caught:
        load_processor("zzzzzzzz")
    assert "did you mean" not in caught.value.message


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("name", "why"),
    [("mute", "no method process"), ("explodes", "no model here"), ("absent", "ModuleNotFoundError")],
)
def test_a_processor_that_cannot_be_loaded_is_named_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(BrokenProcessorError, match=why) as caught:
        load_processor(name)
    assert repr(name) in caught.value.message

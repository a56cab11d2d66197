"""What packages bring beyond processors, and what becomes of those that are broken."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from mediamill.app import PROVIDER_NAMES, all_kinds, our_kinds, provider_names
from mediamill.plugins import KINDS, PROVIDERS, list_plugins
from mediamill.processors.registry import GROUP, load_processor
from mediamill.settings import Settings
from mediamill.testing.scripted import ScriptedProcessor
from tests.cli.conftest import Mediamill, environment, mediamill  # noqa: F401
from tests.installed import install

CODE = """
from mediamill.engine.kinds import JobKind

async def handle(run): return {}

GOOD = JobKind("guest.greet", handler=handle, description="Greets somebody.")
SILENT = JobKind("guest.hide", handler=handle)
TAKEN = JobKind("scripted.run", handler=handle, description="Would replace one of ours.")
TORN = JobKind("guest.tear", handler=handle, on_completed=print, reaped=True, description="Goes two ways.")
NUMBER = 42

class Network:
    def __init__(self, context): pass

class Processor:
    def __init__(self, mime_types, timeout_seconds): pass
    def process(self, given): pass
"""
POINTS = {
    KINDS: {
        "guest-greet": "guest:GOOD",
        "guest-hide": "guest:SILENT",
        "guest-take": "guest:TAKEN",
        "guest-tear": "guest:TORN",
        "guest-number": "guest:NUMBER",
        "guest-absent": "guest_that_is_absent:GOOD",
        "guest-quits": "guest_that_quits:GOOD",
        "guest-slips": "guest_that_slips:GOOD",
    },
    PROVIDERS: {"post": "guest:Network", "chat": "guest:Network", "number": "guest:NUMBER"},
    GROUP: {"welcome": "guest:Processor", "scripted": "guest:Processor", "lost": "guest:Lost"},
}
LEFT_OUT = {
    "guest-hide": "its description is empty",
    "guest-take": "the job kind scripted.run is declared twice",
    "guest-tear": "the job kind guest.tear has more than one of deliver, on_completed and reaped",
    "guest-number": "it is a int, and should be a JobKind",
    "guest-absent": "cannot be loaded: ModuleNotFoundError",
    "guest-quits": "cannot be loaded: SystemExit: 3",
    "guest-slips": "cannot be loaded: SyntaxError",
    "chat": "the name chat is taken",
    "number": "it is a int, and should be called with a BotContext",
    "scripted": "the name scripted is taken",
    "lost": "cannot be loaded: AttributeError",
}


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with good things and with everything that can be wrong."""
    place = tmp_path / "guest"
    modules = {"guest": CODE, "guest_that_quits": "raise SystemExit(3)", "guest_that_slips": "def ("}
    install(place, "guest-package", modules, POINTS)
    monkeypatch.syspath_prepend(str(place))
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
    return place


@pytest.mark.usefixtures("guest")
def test_good_kinds_and_networks_are_there_beside_ours_and_the_rest_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        kinds = all_kinds(Settings())
    assert set(kinds.names()) - set(our_kinds(Settings()).names()) == {"guest.greet"}
    assert kinds.get("guest.greet").handler is not None
    assert "Would replace" not in kinds.get("scripted.run").description
    told = [record.getMessage() for record in caplog.records]
    assert (
        "the job kind guest-number of the package guest-package is left out: it is a int, and should be a JobKind"
        in told
    )
    assert len(told) == 7
    assert provider_names() == sorted([*PROVIDER_NAMES, "post"])


@pytest.mark.usefixtures("guest")
def test_every_plugin_is_listed_with_its_package_and_its_fault() -> None:
    found = list_plugins(our_kinds(Settings()), PROVIDER_NAMES)
    assert {each.package for each in found} == {"guest-package"}
    good = {(each.sort, each.name) for each in found if each.fault is None}
    assert good == {("job kind", "guest-greet"), ("chat network", "post"), ("processor", "welcome")}
    faults = {each.name: each.fault for each in found if each.fault is not None}
    assert set(faults) == set(LEFT_OUT)
    for name, words in LEFT_OUT.items():
        assert words in (faults[name] or ""), name


@pytest.mark.usefixtures("guest")
def test_a_plugin_cannot_take_the_name_of_a_processor_of_ours() -> None:
    assert isinstance(load_processor("scripted"), ScriptedProcessor)
    assert type(load_processor("welcome")).__name__ == "Processor"


def test_without_plugins_nothing_is_listed() -> None:
    assert list_plugins(our_kinds(Settings()), PROVIDER_NAMES) == []


@pytest.mark.usefixtures("guest")
async def test_check_and_doctor_list_plugins_with_what_is_wrong(mediamill: Mediamill) -> None:  # noqa: F811
    said = await mediamill("check", "--json")
    assert said.code == 1
    findings = [each for each in json.loads(said.out)["findings"] if each["about"] == "plugins"]
    assert len(findings) == 14
    assert {each["status"] for each in findings} == {"ok", "fault"}
    [slip] = [each for each in findings if "guest-slips" in each["message"]]
    assert slip["fix"] == "mend or uninstall guest-package; until then mediamill goes on without it"
    plain = await mediamill("doctor")
    assert "processor welcome" in plain.out
    assert "guest-package 1.0" in plain.out
    assert "left out: the name chat is taken" in plain.out.replace("\n", " ")

"""What the documents show can be typed: every command with its options, every setting, every route."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from mediamill.api.scopes import API, PAGES
from mediamill.cli.command import build_app
from mediamill.cli.findings import OTHER_VARIABLES
from mediamill.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
)
BLOCK = re.compile(r"^ *```(?:console|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[|&;(]|\$\() *(?:\w+=\S+ +)*(mediamill(?: +[^|&;<>#\n)]*)?)")
SETTING = re.compile(r"\bMEDIAMILL_[A-Z0-9_]+\b")
ROUTE = re.compile(r"\b(GET|POST|PATCH|PUT|DELETE) (/(?:api|v1)/[^\s`?'\"…]*)(?![…\w])")
ELSEWHERE = {"MEDIAMILL_TEST_DATABASE_URL"}  # of the tests
TREE = typer.main.get_command(build_app())


def calls(page: Path) -> list[str]:
    """Every call of mediamill that a block of the page shows."""
    found = []
    for block in BLOCK.findall(page.read_text()):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        typed = [
            line for line in lines if line.startswith("$ ")
        ]  # where there is none, there is no output either
        for line in typed or lines:
            shown = line.removeprefix("$ ").partition(" #")[0]
            shown = re.sub(r"'[^']*'|\"[^\"]*\"", lambda quoted: re.sub(r"[|&;<>()#]", "_", quoted[0]), shown)
            found += [call.strip() for call in CALL.findall(shown)]
    return found


def fault(call: str) -> str | None:
    """What is wrong with it, if the command or one of its options is not there."""
    command: Any = TREE
    words = shlex.split(call)[1:]
    if words[:1] == ["backup"] and words[1:2] != ["verify"]:
        words.insert(1, "create")  # the short form of it
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return f"there is no {words[0]!r}"
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "--debug",
    }
    for word in words:
        option = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in known:
            return f"there is no option {option}"
    return None


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_is_there(page: Path) -> None:
    wrong = {call: said for call in calls(page) if (said := fault(call))}
    assert wrong == {}


def test_a_command_or_an_option_that_is_not_there_is_found() -> None:
    assert fault("mediamill jobs list --json") is None
    assert fault("mediamill jobs lost") == "there is no 'lost'"
    assert fault("mediamill process x --ouf y") == "there is no option --ouf"
    assert len([call for page in DOCUMENTS for call in calls(page)]) > 150


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_that_a_page_names_is_there(page: Path) -> None:
    known = {f"MEDIAMILL_{name.upper()}" for name in Settings.model_fields} | set(OTHER_VARIABLES) | ELSEWHERE
    named = set(SETTING.findall(page.read_text()))
    gone = (
        set() if page.name == "CHANGELOG.md" else {name for name in named - known if not name.endswith("_")}
    )
    assert gone == set()


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_route_that_a_page_names_is_there(page: Path) -> None:
    shapes = [
        (
            route.partition(" ")[0],
            re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(route.partition(" ")[2]))),
        )
        for route in (*API, *PAGES)
    ]
    wrong = []
    for method, path in ROUTE.findall(page.read_text()):
        shown = path.rstrip(".,;:)/")
        if not any(method == each and shape.fullmatch(shown) for each, shape in shapes):
            wrong.append(f"{method} {shown}")
    assert wrong == []

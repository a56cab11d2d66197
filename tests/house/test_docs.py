"""Whatever a user can set, call or enqueue has a word about it, and docs/reference/ says what the code says."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.app import all_kinds
from mediamill.settings import Settings
from scripts.reference import FOLDER, all_commands, all_pages, left_over

COMMANDS = dict(all_commands())
# As they are in the repository: what the code would write takes a while, and every process would compute it to collect.
WRITTEN = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md"))
CALLABLE = {name: command for name, command in COMMANDS.items() if not hasattr(command, "commands")}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_described(name: str) -> None:
    assert len(Settings.model_fields[name].description or "") > 10


@pytest.mark.parametrize("name", all_kinds(Settings()).names())
def test_every_job_kind_is_described(name: str) -> None:
    assert len(all_kinds(Settings()).get(name).description) > 10


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(name: str) -> None:
    assert len(COMMANDS[name].help or "") > 10


@pytest.mark.parametrize("name", CALLABLE)
def test_every_command_shows_an_example_of_itself(name: str) -> None:
    assert name in (CALLABLE[name].epilog or "")


@pytest.mark.parametrize("name", CALLABLE)
def test_every_option_and_argument_has_a_help_text(name: str) -> None:
    bare: list[Any] = [each.name for each in CALLABLE[name].params if not each.help and each.name != "help"]
    assert bare == []


@pytest.mark.parametrize(
    "name", sorted(set(CALLABLE) - {"mediamill up", "mediamill worker", "mediamill mcp"})
)
def test_every_command_that_ends_has_json(name: str) -> None:
    assert "--json" in [option for each in CALLABLE[name].params for option in each.opts]


@pytest.mark.parametrize("page", WRITTEN)
def test_the_reference_is_what_the_code_says(page: str) -> None:
    assert (FOLDER / page).read_text() == all_pages()[page](), "run .venv/bin/python scripts/reference.py"


def test_every_page_of_the_reference_is_written() -> None:
    assert all_pages().keys() <= set(WRITTEN), "run .venv/bin/python scripts/reference.py"


def test_no_page_of_the_reference_is_left_over() -> None:
    assert left_over() == []

"""What is refused has a code that scripts can rely on, and a sentence with what was wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.errors import MediamillError
from mediamill.intake.again import delete_file, reprocess_project
from mediamill.intake.fields import set_fields
from mediamill.intake.look import file_states, find_file, list_files, show_file
from mediamill.intake.model import Field
from mediamill.intake.projects import add_project, check_folder, delete_project, edit_project, find_project
from mediamill.intake.proposals import accept, accept_all, enter_value, list_proposals
from tests.intake.played import Ground

Call = Callable[[Ground, Connection, int], Awaitable[Any]]

REFUSED: dict[str, tuple[Call, str, str]] = {
    "a project": (lambda _, c, __: find_project(c, "none"), "unknown_project", "'none'"),
    "a project to delete": (lambda _, c, __: delete_project(c, "none"), "unknown_project", "'none'"),
    "a project to edit": (lambda _, c, __: edit_project(c, "none", name="x"), "unknown_project", "'none'"),
    "fields of no project": (lambda _, c, __: set_fields(c, "none", []), "unknown_project", "'none'"),
    "a second project of a name": (lambda _, c, __: add_project(c, "Invoices"), "project_exists", "invoices"),
    "an edited name": (lambda _, c, __: edit_project(c, "invoices", name=" "), "bad_project", "200"),
    "an edited text": (lambda _, c, __: edit_project(c, "invoices", description="\0"), "bad_project", "2000"),
    "a path of no project": (lambda _, c, __: check_folder("here"), "bad_project", "no absolute path"),
    "a path that is no text": (lambda _, c, __: check_folder("/\ud800"), "bad_project", "must be UTF-8"),
    "a path with NUL": (lambda _, c, __: check_folder("/\0"), "bad_project", "no absolute path"),
    "a path of nothing": (lambda _, c, __: check_folder("/none/at/all"), "bad_project", "/none/at/all"),
    "two fields of a name": (
        lambda _, c, __: set_fields(c, "invoices", [Field("a"), Field("a")]),
        "bad_field",
        "twice",
    ),
    "a file": (lambda _, c, __: find_file(c, 10**9), "unknown_file", "1000000000"),
    "a file to show": (lambda g, c, __: show_file(c, g.settings, 10**9), "unknown_file", "1000000000"),
    "a file to delete": (lambda _, c, __: delete_file(c, 10**9), "unknown_file", "1000000000"),
    "a value for no file": (
        lambda _, c, __: enter_value(c, 10**9, "total", "1"),
        "unknown_file",
        "1000000000",
    ),
    "a value for no field": (lambda _, c, f: enter_value(c, f, "colour", "1"), "unknown_field", "'colour'"),
    "a value that is none": (lambda _, c, f: enter_value(c, f, "total", "x"), "bad_value", "'x'"),
    "a proposal": (lambda _, c, __: accept(c, 10**9), "unknown_proposal", "1000000000"),
    "a file of another project": (
        lambda _, c, f: accept_all(c, "others", file_id=f),
        "unknown_file",
        "in others",
    ),
    "files of a state that is none": (
        lambda g, c, __: list_files(c, g.settings, "invoices", state="asleep"),
        "bad_list",
        "'asleep'",
    ),
    "proposals of a state that is none": (
        lambda _, c, __: list_proposals(c, "invoices", state="asleep"),
        "bad_list",
        "'asleep'",
    ),
    "a place that is none": (lambda _, c, __: list_proposals(c, "invoices", after="x"), "bad_list", "place"),
    "files to analyse of no state": (
        lambda g, _, __: reprocess_project(g.database, g.enqueuer, g.settings, "invoices", state="asleep"),
        "bad_list",
        "'asleep'",
    ),
}


@pytest.mark.spec("P1", "P6")
async def test_what_is_refused_has_its_code_and_says_what_is_wrong(ground: Ground) -> None:
    await ground.project()
    await ground.project("Others")
    file_id = (await ground.add())["id"]
    found = {}
    for name, (call, _, words) in REFUSED.items():
        async with ground.database.connection() as connection:
            with pytest.raises(MediamillError) as refused:
                await call(ground, connection, file_id)
        error = refused.value
        found[name] = (error.code, words if words in f"{error.message} {error.fix}" else error.message)
    assert found == {name: (code, words) for name, (_, code, words) in REFUSED.items()}
    async with ground.database.connection() as connection:
        assert await file_states(connection, [file_id]) == {file_id: {"state": "queued", "error": None}}

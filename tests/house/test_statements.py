"""SQL is fixed text with parameters: nothing that somebody sent can become part of a statement."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import aiosql
import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mediamill"
# Those of migrations are made of names in the same file.
APART = ("migrations", "testing")
CALLS = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "cursor", "prepare", "copy_from_query"}
PUT_TOGETHER = (ast.JoinedStr, ast.BinOp, ast.Call)
ALLOWED = {"text"}  # of SQLAlchemy, around a fixed text


def statements(path: Path) -> Iterator[ast.expr]:
    """The first argument of every call that runs SQL."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in CALLS and node.args:
            yield node.args[0]


def is_put_together(statement: ast.expr) -> bool:
    if isinstance(statement, ast.Call) and getattr(statement.func, "id", None) in ALLOWED:
        return any(map(is_put_together, statement.args))
    return isinstance(statement, PUT_TOGETHER)


def test_no_statement_is_put_together_at_run_time() -> None:
    files = [path for path in SOURCE.rglob("*.py") if not set(APART) & set(path.parts)]
    found = {path: list(statements(path)) for path in files}
    assert sum(map(len, found.values())) > 20
    assert [str(path) for path, each in found.items() if any(map(is_put_together, each))] == []


def test_a_statement_that_is_put_together_would_be_found() -> None:
    for text in (
        'f"select {name}"',
        '"select " + name',
        '"select {}".format(name)',
        'text(f"select {name}")',
    ):
        assert is_put_together(ast.parse(text, mode="eval").body), text
    assert not is_put_together(ast.parse('text("select 1")', mode="eval").body)


def test_aiosql_warns_of_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    """It warns at run time, into the middle of log lines that scripts read."""
    with caplog.at_level(logging.WARNING):
        for path in sorted(SOURCE.rglob("*.sql")):
            aiosql.from_path(path, "asyncpg", mandatory_parameters=False)
    assert caplog.messages == []

"""Nobody adds a route without saying who may call it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI

from mediamill.access.model import Scope
from mediamill.api.route_map import declared_names
from mediamill.api.scopes import ROUTES, UndeclaredRouteError, access_of, check_declared
from mediamill.api.server import Server
from mediamill.db.connection import Database
from tests.api.serving import make_app

SAFE = ("GET", "HEAD", "OPTIONS")
OF_A_MOUNT = {"GET /static/mediamill.css", "GET /static/favicon.svg", "GET /static/passkeys.js"}


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    """With all doors, as `mediamill up` has it."""
    return make_app(database, tmp_path, pages=True)


def test_every_route_is_in_the_table_of_who_may_call_it(app: FastAPI) -> None:
    missing = [name for name in declared_names(app) if access_of(name) is None]
    assert missing == [], "say who may call them in src/mediamill/api/scopes.py"


def test_the_table_names_no_route_that_is_gone(app: FastAPI) -> None:
    assert sorted(ROUTES.keys() - set(declared_names(app)) - OF_A_MOUNT) == []


def test_a_server_with_an_undeclared_route_does_not_start(app: FastAPI) -> None:
    check_declared(app)

    @app.get("/api/new")
    async def new() -> None: ...

    with pytest.raises(UndeclaredRouteError, match="GET /api/new") as caught:
        Server(app, app.state.deps.settings)
    assert "src/mediamill/api/scopes.py" in (caught.value.fix or "")


def test_what_only_an_administrator_may_change_has_a_name_in_the_audit_log() -> None:
    for name, access in ROUTES.items():
        if access.who is Scope.ADMIN and not name.startswith(SAFE):
            assert access.audit, name


def test_nothing_that_only_reads_is_noted_and_nothing_changes_with_the_scope_to_read() -> None:
    for name, access in ROUTES.items():
        if name.startswith(SAFE):
            assert access.audit is None, name
        else:
            assert access.who is not Scope.READ, name

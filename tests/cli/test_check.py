"""`mediamill check` and `mediamill doctor`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mediamill.access.places import is_loopback
from mediamill.cli.doctor import find_tool
from mediamill.cli.findings import find_unknown_variables
from mediamill.db.connection import Database
from mediamill.settings import Settings
from tests.cli.conftest import Mediamill, Said
from tests.plain_database import plain_database
from tests.ports import free_port


def _faults(said: Said) -> dict[str, str]:
    """The message of each fault, with its fix."""
    found = [each for each in json.loads(said.out)["findings"] if each["status"] == "fault"]
    assert said.code == (1 if found else 0)
    return {each["message"]: each["fix"] for each in found}


async def test_a_good_configuration_has_no_faults(mediamill: Mediamill) -> None:
    said = await mediamill("check", "--json")
    assert _faults(said) == {}
    about = [each["about"] for each in said.json["findings"]]
    assert about == ["settings", "data folder", "database", "schema", "search", "pools", "server", "models"]
    assert "all is well" in (await mediamill("check")).out


async def test_every_fault_is_told_at_once_with_its_fix(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken_port: int
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Settings.model_fields["port"], "default", taken_port)
    for name, value in {
        "PORT": "99999",
        "HEARTBEAT_SECONDS": "soon",
        "PROT": "1",
        "HOST": "0.0.0.0",
        "DATA": str(tmp_path / "file"),
        "ALERT_WEBHOOK_URL": "https://example.org/hook",
        "WORKER_POOLS": "scriptd,default",
    }.items():
        monkeypatch.setenv(f"MEDIAMILL_{name}", value)
    faults = _faults(await mediamill("check", "--json"))
    told = " ".join(faults)
    for part in (
        "MEDIAMILL_PORT should be",
        "MEDIAMILL_HEARTBEAT_SECONDS should be",
        "is a file",
        "no secret to sign",
    ):
        assert part in told
    assert "listen on 0.0.0.0 without an admin secret" in told
    assert faults["there is no setting MEDIAMILL_PROT"] == "did you mean MEDIAMILL_PORT?"
    assert (
        faults["MEDIAMILL_WORKER_POOLS names scriptd, and there is no such pool"] == "did you mean scripted?"
    )
    assert len(faults) == 7
    assert all(faults.values())


async def test_pools_in_the_database_are_judged(mediamill: Mediamill, database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("update pools set processor = 'gone' where name = 'scripted'")
        await connection.execute("update pools set matches = '{x/y}' where name = 'default'")
    told = " ".join(_faults(await mediamill("check", "--json")))
    assert "there is no processor 'gone'" in told
    assert "no pool is the catch-all" in told


async def test_a_schema_of_a_newer_version_is_a_fault(mediamill: Mediamill, database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("update alembic_version set version_num = '9999'")
    assert "is 9999, newer than this mediamill" in " ".join(_faults(await mediamill("check", "--json")))
    refused = await mediamill("jobs", "list")
    assert refused.code == 1
    assert "schema 9999, newer than this mediamill" in refused.err


async def test_a_database_without_a_schema_is_no_fault_and_gets_none_by_looking(
    mediamill: Mediamill, database: Database
) -> None:
    async with database.connection() as connection:
        await connection.execute("drop table alembic_version")
    said = await mediamill("check", "--json")
    assert _faults(said) == {}
    assert "the first start makes it" in said.out
    async with database.connection() as connection:
        assert await connection.fetchval("select to_regclass('alembic_version')") is None


@pytest.mark.spec("L20")
async def test_a_database_without_pgvector_is_no_fault_and_what_to_run_is_named(
    mediamill: Mediamill, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plain_database(server_url) as plain:
        monkeypatch.setenv("MEDIAMILL_DATABASE_URL", plain.url)
        for step in ("the database server has no pgvector", "pgvector is installed, but not created"):
            said = await mediamill("check", "--json")
            assert _faults(said) == {}
            (search,) = (each for each in said.json["findings"] if each["about"] == "search")
            assert search["status"] == "note"
            assert step in search["message"]
            assert (
                "a superuser run this in the database of mediamill, once: create extension vector;"
                in search["fix"]
            )
            assert step in (await mediamill("doctor")).out
            await plain.install_pgvector()


async def test_a_data_folder_that_is_not_there_yet_is_not_made_by_looking(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MEDIAMILL_DATABASE_URL")
    said = await mediamill("check", "--json")
    assert _faults(said) == {}
    assert "it will be made at the first start" in said.out
    assert (await mediamill("doctor", "--json")).json["database"] == {"embedded": True, "exists": False}
    assert not (tmp_path / "data").exists()


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b'{"status": "unavailable", "pending_jobs": null}')

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@pytest.fixture
def our_port() -> Iterator[int]:
    """A server that answers as ours does, even when its database is away."""
    server = HTTPServer(("127.0.0.1", 0), _Health)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def taken_port() -> Iterator[int]:
    """Another program listens on it and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


async def test_a_port_that_is_ours_is_good(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, our_port: int
) -> None:
    monkeypatch.setenv("MEDIAMILL_PORT", str(our_port))
    said = await mediamill("check", "--json")
    assert _faults(said) == {}
    assert f"mediamill answers on 127.0.0.1:{our_port}" in said.out


async def test_a_port_of_another_program_is_a_fault(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, taken_port: int
) -> None:
    monkeypatch.setenv("MEDIAMILL_PORT", str(taken_port))
    faults = _faults(await mediamill("check", "--json"))
    assert "cannot listen on" in " ".join(faults)
    assert "MEDIAMILL_PORT" in " ".join(faults.values())


@pytest.mark.parametrize(
    ("url", "secret", "fault"),
    [
        ("https://example.org/h", None, "no secret"),
        ("https://example.org/h", "whsec_!", "is not a signing secret"),
        ("https://example.org/h", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None),
        ("https://hooks.slack.com/services/x", None, None),
        ("ftp://example.org", None, "is not an http(s) address"),
    ],
)
async def test_an_alert_webhook_needs_a_good_address_and_secret(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch, url: str, secret: str | None, fault: str | None
) -> None:
    monkeypatch.setenv("MEDIAMILL_ALERT_WEBHOOK_URL", url)
    if secret:
        monkeypatch.setenv("MEDIAMILL_ALERT_WEBHOOK_SECRET", secret)
    said = await mediamill("check", "--json")
    assert (fault or "") in " ".join(_faults(said))
    assert bool(_faults(said)) == bool(fault)
    assert url not in said.out


async def test_bad_values_of_secrets_are_not_shown(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", "mysql://user:hunter2@nowhere/x")
    said = await mediamill("check", "--json")
    assert "the address of the database is not valid" in " ".join(_faults(said))
    assert "hunter2" not in said.out + said.err


def test_only_variables_with_our_prefix_are_judged() -> None:
    found = find_unknown_variables(
        {"MEDIAMILL_DEBUG": "1", "PATH": "x", "MEDIAMILL_XYZZY": "", "mediamill_port": "1"}
    )
    assert [each.message for each in found] == ["there is no setting MEDIAMILL_XYZZY"]


def test_loopback_is_known_by_its_address() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org", "")))


async def test_the_doctor_tells_versions_machine_and_database(mediamill: Mediamill) -> None:
    facts = (await mediamill("doctor", "--json")).json
    assert facts["versions"]["mediamill"] == "0.1.0"
    assert facts["disk"]["free_bytes"] > 0
    assert facts["database"]["schema"] == facts["database"]["schema_wanted"]
    assert facts["database"]["size_bytes"] > 0
    assert "whisper-base" in [model.partition("@")[0] for model in facts["models"]]
    assert [warning for warning in facts["warnings"] if warning["about"] != "disk"] == []
    shown = (await mediamill("doctor")).out
    assert "PostgreSQL" in shown
    assert "efficientnet-lite0@" in shown


def test_a_tool_is_found_with_its_version_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "ffmpeg"
    tool.write_text("#!/bin/sh\necho 'ffmpeg version 7.1-static Copyright (c)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_tool("ffmpeg", "-version") == {"path": str(tool), "version": "7.1-static"}
    assert find_tool("no-such-tool", "-version") is None
    tool.write_bytes(b"\x00not a program")
    found = find_tool("ffmpeg", "-version")
    assert found is not None
    assert "does not run" in found["version"]


async def test_single_sign_on_that_is_set_up_by_halves_is_a_fault(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> list[str]:
        findings = json.loads((await mediamill("check", "--json")).out)["findings"]
        found = [each for each in findings if each["about"] == "single sign-on"]
        assert all(each["status"] == "fault" and each["fix"] for each in found)
        return [each["message"] for each in found]

    assert await told() == []
    monkeypatch.setenv("MEDIAMILL_OIDC_CLIENT_ID", "mill")
    assert await told() == ["MEDIAMILL_OIDC_ISSUER is not set, but MEDIAMILL_OIDC_CLIENT_ID"]
    monkeypatch.setenv("MEDIAMILL_OIDC_ISSUER", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("MEDIAMILL_OIDC_SCOPES", "email")
    monkeypatch.setenv("MEDIAMILL_HOST", "0.0.0.0")
    assert await told() == [
        "nobody may log in by it",
        "MEDIAMILL_OIDC_SCOPES lacks openid",
        "the provider cannot send browsers back",
    ]
    monkeypatch.setenv("MEDIAMILL_OIDC_SCOPES", "openid")
    monkeypatch.setenv("MEDIAMILL_OIDC_USERS", "family")
    monkeypatch.setenv("MEDIAMILL_PUBLIC_URL", "https://mill.example")
    (silent,) = await told()
    assert "does not answer" in silent

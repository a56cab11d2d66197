"""The proxies of deploy/proxy in front of a server; and the barest that somebody may put there without reading on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mediamill.db.connection import Database
from mediamill.local_key import local_key, sign_pass
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until
from tests.deploy.proxying import ROOT, caddy, certificate, nginx
from tests.ports import free_port

NAME = "mill.example"
BARE = {
    "nginx": (nginx, "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; }} }}"),
    "nginx with HTTP/1.1": (
        nginx,
        "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; proxy_http_version 1.1; "
        'proxy_set_header Connection ""; }} }}',
    ),
    "caddy": (caddy, ":{port} {{\n\tbind 127.0.0.1\n\treverse_proxy {url}\n}}"),
    "caddy that tells nothing": (
        caddy,
        ":{port} {{\n\tbind 127.0.0.1\n\treverse_proxy {url} {{\n\t\theader_up -X-Forwarded-*\n\t\theader_up -Via\n"
        "\t\theader_up Host {{upstream_hostport}}\n\t}}\n}}",
    ),
}


@pytest.mark.parametrize("somebody_else", [False, True], ids=["as our own user", "as another user"])
@pytest.mark.parametrize("kind", BARE)
async def test_a_bare_proxy_on_the_machine_opens_nothing_to_its_visitors(
    database: Database, tmp_path: Path, kind: str, somebody_else: bool
) -> None:
    if somebody_else and os.geteuid() != 0:
        pytest.skip("only root can start a proxy as another user; as our own it is tested")
    run, block = BARE[kind]
    port = free_port()
    async with (
        serve(database, tmp_path, login="always", admin_secret=None) as served,
        run(block.format(port=port, url=served.url), port, somebody_else=somebody_else),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as visitor,
    ):
        assert (await visitor.get("/health")).status_code == 200
        project = {"name": "theirs", "folder": "/root"}
        for shown in (
            {},
            {"Host": "localhost"},
            {"X-Forwarded-For": "127.0.0.1"},
            {"X-Real-IP": "127.0.0.1"},
        ):
            for answer in (
                await visitor.get("/api/jobs", headers=shown),
                await visitor.get("/metrics", headers=shown),
                await visitor.post("/api/projects", json=project, headers=shown),
            ):
                assert answer.status_code in (401, 421), (shown, answer.text)
        page = await visitor.get("/", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"].rpartition("/")[2]) == (303, "login")
        known = {"Authorization": f"Bearer {sign_pass(local_key(tmp_path))}"}
        assert (await visitor.get("/api/jobs", headers=known)).status_code == 200  # so it was no other fault


@asynccontextmanager
async def behind(
    kind: str, database: Database, folder: Path
) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    """A server behind the proxy of deploy/proxy, with the settings that it names; and somebody beyond it."""
    port = free_port()
    async with serve(
        database, folder, login="always", hosts=NAME, trusted_proxies="127.0.0.1", ingest_seconds=0.05
    ) as served:
        there = str(urlsplit(served.url).port)
        if kind == "nginx":
            cert, key = await certificate(folder, NAME)
            block = (ROOT / "deploy" / "proxy" / "nginx.conf").read_text()
            block = block.replace("listen 443", f"listen 127.0.0.1:{port}").replace("8420", there)
            block = block.replace("/etc/ssl/mill.example.pem", str(cert)).replace(
                "/etc/ssl/mill.example.key", str(key)
            )
            running = nginx(block, port)
        else:
            block = (ROOT / "deploy" / "proxy" / "Caddyfile").read_text()
            running = caddy(block.replace("mill.example {", f"{NAME}:{port} {{").replace("8420", there), port)
        client = httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            verify=False,
            trust_env=False,
            timeout=60,
            headers={"Host": NAME},
        )
        client.event_hooks["request"] = [_name_the_server]
        async with running, client:

            async def has_certificate() -> bool:
                with suppress(httpx.ConnectError):
                    return (await client.get("/health")).status_code == 200
                return False

            await wait_until(has_certificate)
            yield served, client


async def _name_the_server(request: httpx.Request) -> None:
    request.extensions["sni_hostname"] = NAME


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
async def test_behind_a_proxy_of_deploy_people_log_in_and_programs_show_their_token(
    kind: str, database: Database, tmp_path: Path
) -> None:
    async with behind(kind, database, tmp_path) as (served, visitor):
        assert (await visitor.get("/api/jobs")).status_code == 401
        answer = await visitor.post(
            "/login", data={"name": "", "password": SECRET}, headers={"Origin": f"https://{NAME}"}
        )
        assert answer.status_code == 303
        assert answer.headers["set-cookie"].startswith("__Host-mediamill_session=")
        assert "max-age=31536000" in answer.headers["strict-transport-security"]
        assert await served.one("select address from audit where action = 'login'") == "127.0.0.1"
        known = {"Authorization": f"Bearer {SECRET}"}
        assert (await visitor.get("/api/jobs", headers=known)).status_code == 200
        async with visitor.stream("GET", "/api/events", headers=known) as events:
            assert events.status_code == 200
            assert await anext(events.aiter_lines()) == "retry: 3000"  # at once, not when a buffer is full
        forged = {**known, "X-Forwarded-For": "203.0.113.9"}
        body = {"name": "far", "capabilities": {}}
        assert (await visitor.post("/api/worker/register", json=body, headers=forged)).status_code == 201
        noted = await served.one("select address from audit where action = 'worker.register'")
        assert noted == "127.0.0.1"  # what a visitor says of their address is not believed
        large = await visitor.post(
            "/api/projects/none/files?name=x.pdf", content=b"x" * 3_000_000, headers=known
        )
        assert large.status_code == 404  # our answer, not the proxy's


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
async def test_behind_a_proxy_of_deploy_other_names_are_not_answered(
    kind: str, database: Database, tmp_path: Path
) -> None:
    async with behind(kind, database, tmp_path) as (_, visitor):
        answer = await visitor.get("/api/jobs", headers={"Host": "evil.example"})
        assert answer.status_code in (
            200,
            421,
        )  # Caddy itself has an empty answer for a name that it does not know
        assert "jobs" not in answer.text

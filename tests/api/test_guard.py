from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from mediamill.api.guard import SecretMissingError, SecretShortError
from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, make_app, serve


def test_a_server_beyond_loopback_is_not_made_without_a_secret(database: Database, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "mill.example"):
        for secret in (None, ""):
            with pytest.raises(
                SecretMissingError, match="nobody could log in from beyond this machine"
            ) as caught:
                make_app(database, tmp_path, host=host, admin_secret=secret)
            assert caught.value.fix is not None
            assert "MEDIAMILL_ADMIN_SECRET" in caught.value.fix


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_server_is_not_made_with_a_secret_that_can_be_guessed(
    database: Database, tmp_path: Path, host: str
) -> None:
    for secret in ("a", "x" * 15):
        with pytest.raises(SecretShortError, match="fewer than 16 characters") as caught:
            make_app(database, tmp_path, host=host, admin_secret=secret)
        assert "openssl rand -hex 32" in str(caught.value.fix)
    make_app(database, tmp_path, host=host, admin_secret="x" * 16)


async def test_a_route_added_later_is_guarded_without_saying_so(
    public: FastAPI, stranger: httpx.AsyncClient
) -> None:
    @public.get("/api/new")
    async def new() -> str:
        return "inside"

    assert (await stranger.get("/api/new")).status_code == 401
    assert (await stranger.get("/api/new", headers={"Authorization": f"Bearer {SECRET}"})).json() == "inside"


@pytest.mark.pages
async def test_health_is_open_and_the_secret_opens_the_rest(stranger: httpx.AsyncClient) -> None:
    assert (await stranger.get("/health")).status_code == 200
    right = {"Authorization": f"Bearer {SECRET}"}
    assert (await stranger.get("/api/jobs", headers=right)).status_code == 200
    assert (await stranger.get("/", headers=right)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "", "[bad"])
async def test_on_loopback_a_foreign_host_name_is_refused(served: Served, host: str) -> None:
    for headers in ({"Host": host}, {"Host": host, "Authorization": f"Bearer {SECRET}"}):
        answer = await served.client.get("/api/jobs", headers=headers)
        assert answer.status_code in (400, 421)
        if answer.status_code == 421:
            assert answer.json()["code"] == "foreign_host"
            assert "MEDIAMILL_HOSTS" in answer.json()["fix"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.1.2.3:99", "[::1]:8420", "LOCALHOST"]
)
async def test_on_loopback_its_own_names_are_welcome(served: Served, host: str) -> None:
    assert (await served.client.get("/api/jobs", headers={"Host": host})).status_code == 200


async def test_a_page_of_another_origin_changes_nothing(served: Served) -> None:
    job = {"kind": "scripted.run"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[broken"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = await served.client.post("/api/jobs", json=job, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    assert await served.one("select count(*) from jobs") == 0
    own = await served.client.post("/api/jobs", json=job, headers={"Origin": served.url})
    assert own.status_code == 201


@pytest.mark.pages
async def test_nor_does_it_read_anything_but_a_link_may_be_followed(served: Served) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ):
        answer = await served.client.get("/api/jobs", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await served.client.get("/", headers=link)).status_code == 200
    assert (await served.client.post("/jobs/1/purge", headers=link)).status_code == 403


async def test_the_names_of_the_server_are_answered_and_beyond_loopback_its_addresses(
    database: Database, tmp_path: Path
) -> None:
    async def ask(app: FastAPI, host: str) -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            shown = {"Authorization": f"Bearer {SECRET}"}
            return (await client.get("/api/jobs", headers=shown)).status_code

    named = "mill.example, Other.example"
    behind = make_app(database, tmp_path, hosts=named)
    beyond = make_app(database, tmp_path, host="0.0.0.0", hosts=named)
    anything = make_app(database, tmp_path, host="0.0.0.0")
    for app in (behind, beyond, anything):
        assert [await ask(app, host) for host in ("mill.example:8420", "OTHER.example", "[::1]:1")] == [
            200
        ] * 3
    assert [await ask(app, "192.168.1.5:8420") for app in (behind, beyond, anything)] == [421, 200, 200]
    assert [await ask(app, "evil.example") for app in (behind, beyond, anything)] == [421, 421, 200]


async def test_coming_from_this_machine_opens_nothing(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, login="always") as served:
        for headers in (
            {},
            {"X-Forwarded-For": "203.0.113.9"},
            {"Via": "1.1 x"},
            {"CF-Connecting-IP": "::1"},
        ):
            assert (await served.client.get("/api/jobs", headers=headers)).status_code == 401
        right = {"Authorization": f"Bearer {SECRET}"}
        assert (await served.client.get("/api/jobs", headers=right)).status_code == 200


async def test_every_answer_carries_the_strict_policy(served: Served) -> None:
    for path in ("/", "/api/jobs", "/nowhere", "/static/mediamill.css"):
        headers = (await served.client.get(path)).headers
        assert headers["content-security-policy"].startswith("default-src 'self';"), path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "'unsafe-inline'" not in headers["content-security-policy"]
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "same-origin"
        assert not [name for name in headers if name.startswith("access-control-")]
        assert "camera=()" in headers["permissions-policy"]
        assert "microphone=(self)" in headers["permissions-policy"]  # the chat records voice notes
        assert "strict-transport-security" not in headers


async def test_by_https_it_stays_https_if_a_trusted_proxy_says_so(database: Database, tmp_path: Path) -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    async with serve(database, tmp_path, trusted_proxies="127.0.0.1") as served:
        headers = (await served.client.get("/health", headers=forwarded)).headers
        assert headers["strict-transport-security"] == "max-age=31536000"
    async with serve(database, tmp_path) as served:
        assert (
            "strict-transport-security" not in (await served.client.get("/health", headers=forwarded)).headers
        )


async def test_an_unforeseen_error_tells_nothing_of_the_inside(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    @served.app.get("/api/broken")
    async def broken() -> None:
        raise RuntimeError("password=hunter2")

    answer = await served.client.get("/api/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text

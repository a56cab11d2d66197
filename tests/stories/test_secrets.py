"""Secrets are shown to whoever must have them, and to nobody else: not by logs, flight logs, answers or commands.

One mill with every secret there is, at the lowest level of logs, goes through what it does with them, also where that
goes wrong; then everything it said is looked through.
"""

from __future__ import annotations

import base64
import re
import secrets
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.worker.handover import SECRETS
from tests.crash.processes import Mill, mill
from tests.ports import free_port

__all__ = ["mill"]

NAMES = (
    *("ADMIN_SECRET", "OPENAI_KEY", "GEMINI_KEY", "MOONDREAM_KEY", "BRIDGE_SECRET"),
    *("TELEGRAM_TOKEN", "TOKEN", "WORKER_KEY", "BUCKET_SECRET", "OIDC_CLIENT_SECRET"),
)
PASSWORD, WRONG_PASSWORD = "a-password-of-hers-4711", "a-wrong-password-of-hers-4712"
BOT_TOKEN = f"4711:{secrets.token_urlsafe(26)}"


WITHIN_OTHERS = {
    *("database_url", "database_direct_url", "redis_url"),  # their passwords
    *("alert_webhook_url", "alert_webhook_secret"),
}


class Secrets:
    """Every secret of the story by its name; those that are made on the way are added."""

    def __init__(self) -> None:
        self.found = {name: f"{name.lower()}-{secrets.token_hex(12)}" for name in NAMES}
        self.found["TELEGRAM_TOKEN"] = f"4712:{secrets.token_urlsafe(26)}"
        self.found["DATABASE_PASSWORD"] = secrets.token_hex(12)
        self.found["REDIS_PASSWORD"] = secrets.token_hex(12)
        self.found["WEBHOOK_PATH"] = secrets.token_hex(12)
        self.found["WEBHOOK_SECRET"] = base64.b64encode(secrets.token_bytes(24)).decode()
        self.found |= {"PASSWORD": PASSWORD, "WRONG_PASSWORD": WRONG_PASSWORD, "BOT_TOKEN": BOT_TOKEN}

    def settings(self, nowhere: str) -> dict[str, str]:
        """Of a mill whose model, chat, Redis and webhook servers do not answer."""
        own = {f"MEDIAMILL_{name}": self.found[name] for name in NAMES if name not in ("TOKEN", "WORKER_KEY")}
        return own | {
            "MEDIAMILL_PORT": str(free_port()),
            "MEDIAMILL_LOG_LEVEL": "DEBUG",
            "MEDIAMILL_OPENAI_URL": f"{nowhere}/v1",
            "MEDIAMILL_TEXT_MODEL": "a-model",
            "MEDIAMILL_TELEGRAM_URL": nowhere,
            "MEDIAMILL_QUEUE_MODE": "hybrid",
            "MEDIAMILL_REDIS_URL": f"redis://mill:{self.found['REDIS_PASSWORD']}@{nowhere.partition('//')[2]}/0",
            "MEDIAMILL_ALERT_WEBHOOK_URL": f"{nowhere}/{self.found['WEBHOOK_PATH']}",
            "MEDIAMILL_ALERT_WEBHOOK_SECRET": f"whsec_{self.found['WEBHOOK_SECRET']}",
            "MEDIAMILL_ALERT_ALLOW_PRIVATE": "true",
            "MEDIAMILL_ALERT_WORKER_EVENTS": "true",
        }

    def leaks(self, text: str) -> list[str]:
        """The names of those that are in a text."""
        return [name for name, secret in self.found.items() if secret in text]


@pytest.fixture
def known() -> Secrets:
    """Made anew for each test."""
    return Secrets()


async def talk(client: httpx.AsyncClient, known: Secrets) -> list[str]:
    """Everything that is done with secrets over HTTP; what was answered, but for what is shown once."""
    said: list[str] = []

    async def ask(method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = await client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)
        said.append(f"{method} {path} {answer.status_code} {answer.headers} {answer.text}")
        return answer

    admin = known.found["ADMIN_SECRET"]
    user = {"name": "ann", "password": PASSWORD, "scopes": ["read"]}
    assert (await ask("POST", "/api/users", admin, json=user)).status_code == 201
    assert (await ask("POST", "/api/users", admin, json=user)).status_code == 409
    for bad in ({"password": [PASSWORD]}, {"scopes": PASSWORD}, {"name": "x y"}, {PASSWORD: 1}):
        broken = await ask("POST", "/api/users", admin, json={**user, **bad})
        assert broken.status_code == 422
        if PASSWORD in str(bad.get("scopes", "")) or PASSWORD in bad:
            said.pop()  # whoever writes a password where none belongs is told where it stands
    await ask("POST", "/login", data={"name": "ann", "password": WRONG_PASSWORD})
    await ask("GET", "/api/jobs", known.found["TOKEN"])
    made = (await ask("POST", "/api/tokens", admin, json={"name": "t", "scopes": ["read"]})).json()
    said.pop()
    known.found["API_TOKEN"] = made["token"]
    assert (await ask("GET", "/api/jobs", made["token"])).status_code == 200
    assert (await ask("POST", "/api/dead/purge", made["token"], json={})).status_code == 403
    worker = {"X-Admin-Secret": admin}
    key = (await ask("POST", "/api/worker/register", json={"name": "far"}, headers=worker)).json()["key"]
    said.pop()
    known.found["REGISTERED_KEY"] = key
    assert (await ask("POST", "/api/worker/hello", key, json={"instance": "0" * 16})).status_code == 200
    await ask("POST", "/api/worker/hello", known.found["WORKER_KEY"], json={"instance": "0" * 16})
    await ask("POST", "/api/worker/register", json={"name": "x"}, headers={"X-Admin-Secret": WRONG_PASSWORD})
    bot = {"id": "shop", "config": {"providers": {"telegram": {"token": BOT_TOKEN}}}, "start": True}
    assert (await ask("POST", "/api/bots", admin, json=bot)).status_code == 201
    await ask(
        "PUT", "/api/bots/shop", admin, json={"config": {"providers": {"telegram": {"token": [BOT_TOKEN]}}}}
    )
    message = {"thread_key": "a", "delivery_mode": "prompt", "text": "hello", "idempotency_key": "1"}
    await ask("POST", "/v1/messages", admin, json=message)
    welcome = await client.post("/login", data={"name": "ann", "password": PASSWORD})
    known.found["COOKIE"] = welcome.cookies["mediamill_session"]
    for path in (
        "/",
        "/account",
        "/api/whoami",
        "/api/health",
        "/metrics",
        "/api/bots",
        "/openapi.json",
        "/nowhere",
    ):
        await ask("GET", path)
    for path in (
        "/access",
        "/audit",
        "/api/users",
        "/api/tokens",
        "/api/audit",
        "/api/configuration",
        "/workers",
    ):
        await ask("GET", path, admin)
    return said


def test_every_secret_of_the_settings_is_in_the_story() -> None:
    assert {name.lower() for name in NAMES} | WITHIN_OTHERS == SECRETS


async def test_no_secret_is_told_to_anybody_who_need_not_have_it(mill: Mill, known: Secrets) -> None:
    url = mill.url
    assert url is not None
    nowhere = f"http://127.0.0.1:{free_port()}"
    mill.settings |= known.settings(nowhere)
    known.found["DATABASE_PASSWORD"] = password_of(url)
    mill.settings["MEDIAMILL_DATABASE_URL"] = url
    up = await mill.started("up")
    base = f"http://127.0.0.1:{mill.settings['MEDIAMILL_PORT']}"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=120) as client:
        answers = await talk(client, known)
    await mill.until("select exists (select from alerts where tries > 0)")
    await mill.until("select status -> 'telegram' ->> 'detail' is not null from bots where id = 'shop'")
    commands = [
        *(
            ("check",),
            ("check", "--json"),
            ("doctor",),
            ("doctor", "--json"),
            ("users", "list"),
            ("tokens", "list"),
        ),
        *(
            ("audit", "--json"),
            ("bots", "show", "shop", "--json"),
            ("config", "list"),
            ("workers", "list", "--json"),
        ),
        *(("workers", "dump", "--all"), ("--debug", "jobs", "show", "99"), ("message", "hello", "--no-wait")),
    ]
    told = {" ".join(words): (await mill.say(*words))[1] for words in commands}
    away = mill.settings["MEDIAMILL_DATABASE_URL"]
    mill.settings["MEDIAMILL_DATABASE_URL"] = (
        f"postgresql://mill:{known.found['DATABASE_PASSWORD']}@{nowhere.partition('//')[2]}/mill"
    )
    for words in (("jobs", "list"), ("--debug", "jobs", "list"), ("check",), ("doctor", "--json")):
        told[f"{' '.join(words)}, with the database away"] = (await mill.say(*words))[1]
    mill.settings["MEDIAMILL_DATABASE_URL"] = away
    await mill.until("select exists (select from flight_dumps)")
    told["workers dumps"] = (
        await mill.say("workers", "dumps", await mill.one("select max(id) from flight_dumps"))
    )[1]
    up.send(signal.SIGINT)
    assert await up.until_gone() == 0
    texts = {"the log of up": up.said, **told, **dumps(mill.folder / "data")}
    assert len(up.said) > 5_000, "the log says little: is its level DEBUG?"
    assert any("entries" in name or "forensics" in name for name in texts)
    for name, text in texts.items():
        assert known.leaks(text) == [], name
    for answer in answers:
        assert known.leaks(answer) == [], answer[:300]


def password_of(url: str) -> str:
    """Of the role that the tests' own server was set up for."""
    password = re.match(r"postgresql://[^:@/?]+:([^@/?]+)@", url)
    return password[1] if password else pytest.skip("the given server asks for no password")


def dumps(data: Path) -> dict[str, str]:
    """What lies in the folders of logs."""
    return {
        str(path.relative_to(data)): path.read_text() for path in data.glob("logs/**/*") if path.is_file()
    }


def test_the_search_would_find_one(known: Secrets) -> None:
    for name, secret in known.found.items():
        assert known.leaks(f"x{secret}y") == [name]
    assert password_of("postgresql://me:pw@%2Frun:5432/x?a=b") == "pw"

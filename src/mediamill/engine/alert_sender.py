"""Alerts leave the outbox: signed, one at a time, tried again with growing pauses, given up after eight tries.

A row is taken by pushing its next try into the future, so that no lock is held while the network takes its
time. A sender that dies leaves a row that comes due again: the receiver knows a repetition by its webhook-id.
"""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import httpx
from asyncpg import Record
from standardwebhooks import Webhook

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Database
from mediamill.db.notify import Listener
from mediamill.engine import store
from mediamill.engine.alert_address import Resolve, Target, find_targets
from mediamill.engine.alert_bodies import alert_body
from mediamill.engine.model import backoff_seconds
from mediamill.errors import InvalidError
from mediamill.logs import tell
from mediamill.settings import Settings
from mediamill.tls import tls_context

log = logging.getLogger(__name__)

MOST_TRIES = 8
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 3600.0
POLL_SECONDS = 30.0
RESPONSE_LIMIT_BYTES = 4096


class WebhookSecretInvalidError(InvalidError):
    """The webhook's signing secret is not valid."""

    code = "webhook_secret_invalid"


class _NotAcceptedError(Exception):
    """The receiver answered, but did not take it."""


async def send_alerts_forever(database: Database, settings: Settings) -> None:
    """The background task of a server: woken by every alert, and by a slow poll for those to be tried again."""
    if settings.alert_webhook_url is None:
        return
    wake = asyncio.Event()
    listener = Listener(
        database.url, ["mediamill_alerts"], lambda _channel, _payload: wake.set(), name="mediamill alerts"
    )
    await listener.start()
    try:
        while True:
            wake.clear()
            try:
                await send_waiting(database, settings)
            except LOST as error:
                log.debug("alerts: the database is away: %s", error)
            except Exception:
                log.exception("sending alerts failed")
            await wait_at_most(wake, POLL_SECONDS)
    finally:
        await listener.close()


async def send_waiting(database: Database, settings: Settings, *, resolve: Resolve | None = None) -> int:
    """Try every alert that is due, once. How many arrived."""
    if settings.alert_webhook_url is None:
        return 0
    sent = 0
    # Longer than one try can take: while it lasts, nobody else takes the row.
    lease_seconds = 2 * settings.alert_timeout_seconds + 30
    while True:
        async with database.connection() as connection:
            row = await store.alerts.take_waiting.row(connection, lease_seconds=lease_seconds)
        if row is None:
            return sent
        sent += await _try_alert(database, settings, row, resolve)


async def send_test(database: Database, settings: Settings, *, resolve: Resolve | None = None) -> str | None:
    """A test alert, tried once; what was wrong, or None."""
    async with database.connection() as connection:
        row = await store.alerts.insert_test.row(connection)
    assert row is not None
    wrong: str | None = None
    try:
        await _post_in_time(settings, row, resolve)
    except Exception as error:
        wrong = _reason(error, settings)
    async with database.connection() as connection:
        if wrong is None:
            await store.alerts.mark_sent.run(connection, id=row["id"])
        else:
            await store.alerts.give_up.run(connection, id=row["id"], error=wrong)
    return wrong


async def _try_alert(database: Database, settings: Settings, row: Record, resolve: Resolve | None) -> bool:
    """One try, and what came of it; whatever the webhook does, it ends here."""
    try:
        await _post_in_time(settings, row, resolve)
    except InvalidError as error:
        tell(log, "alert_refused", **_who(row), reason=str(error))
        async with database.connection() as connection:
            await store.alerts.give_up.run(connection, id=row["id"], error=str(error))
        return False
    except Exception as error:
        await _note_failure(database, row, _reason(error, settings))
        return False
    async with database.connection() as connection:
        await store.alerts.mark_sent.run(connection, id=row["id"])
    tell(log, "alert_sent", **_who(row))
    return True


async def _note_failure(database: Database, row: Record, error: str) -> None:
    tries = row["tries"] + 1
    async with database.connection() as connection:
        if tries >= MOST_TRIES:
            tell(log, "alert_given_up", **_who(row), tries=tries, reason=error)
            await store.alerts.give_up.run(connection, id=row["id"], error=error)
            return
        wait = backoff_seconds(tries, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        tell(log, "alert_failed", **_who(row), seconds=wait, reason=error)
        await store.alerts.mark_failed.run(connection, id=row["id"], error=error, wait_seconds=wait)


async def _post_in_time(settings: Settings, row: Record, resolve: Resolve | None) -> None:
    async with asyncio.timeout(settings.alert_timeout_seconds):
        await _post(settings, row, resolve)


async def _post(settings: Settings, row: Record, resolve: Resolve | None) -> None:
    assert settings.alert_webhook_url is not None
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps(alert_body(url, row["type"], row["created_at"], json.loads(row["data"])))
    headers = {
        "content-type": "application/json",
        "user-agent": "mediamill",
        **_signature(settings, row, body),
    }
    targets = await find_targets(url, allow_private=settings.alert_allow_private, resolve=resolve)
    # trust_env: a proxy of the environment would resolve the name again, beyond our check.
    async with httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113
        verify=tls_context(),
    ) as client:
        for number, target in enumerate(targets, 1):
            try:
                return await _post_to(client, target, headers, body)
            except httpx.ConnectError:
                if number == len(targets):
                    raise
    return None


async def _post_to(client: httpx.AsyncClient, target: Target, headers: dict[str, str], body: str) -> None:
    """The time limit is the caller's, over all of it: a receiver that drips bytes gets no more time than others."""
    request = client.build_request(
        "POST",
        target.url,
        headers={**headers, "host": target.host_header},
        content=body.encode(),
        extensions={"sni_hostname": target.server_name},
    )
    response = await client.send(request, stream=True)
    try:
        if response.is_success:
            return
        said = await _read_some(response)
        raise _NotAcceptedError(f"HTTP {response.status_code} {said}".strip())
    finally:
        await response.aclose()


async def _read_some(response: httpx.Response) -> str:
    """The beginning of an answer, for the log. Raw: a small body that unpacks to a huge one is not unpacked."""
    read = b""
    async for chunk in response.aiter_raw(RESPONSE_LIMIT_BYTES):
        read += chunk
        if len(read) >= RESPONSE_LIMIT_BYTES:
            break
    return " ".join(read[:200].decode(errors="replace").split())


def _signature(settings: Settings, row: Record, body: str) -> dict[str, str]:
    """The three headers of the Standard Webhooks scheme; the id stays the same when a try is repeated."""
    now = datetime.now(UTC)
    message_id = f"msg_{int(row['created_at'].timestamp() * 1_000_000)}_{row['id']}"
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp()))}
    if settings.alert_webhook_secret is not None:
        signer = make_signer(settings.alert_webhook_secret.get_secret_value())
        headers["webhook-signature"] = signer.sign(message_id, now, body)
    return headers


def make_signer(secret: str) -> Any:
    """The signer of this secret; a secret that is none is refused with the way to get one."""
    try:
        return Webhook(secret)
    except Exception:
        # The cause may hold the secret.
        raise WebhookSecretInvalidError(
            "MEDIAMILL_ALERT_WEBHOOK_SECRET is not a secret of the Standard Webhooks scheme",
            fix="make one: whsec_ followed by 32 random bytes in base64 (openssl rand -base64 32)",
        ) from None


def _who(row: Record) -> dict[str, Any]:
    return {"alert_id": row["id"], "type": row["type"]}


def _reason(error: Exception, settings: Settings) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {settings.alert_timeout_seconds:g} s"
    return str(error)[:500] or type(error).__name__

"""`mediamill alerts`."""

from __future__ import annotations

import pytest

from mediamill.db.connection import Database
from mediamill.testing.model_server import ModelServer, Reply
from tests.cli.conftest import Mediamill


async def test_the_webhook_is_tried_and_alerts_are_listed(
    mediamill: Mediamill, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no alerts" in (await mediamill("alerts", "list")).out
    nobody = await mediamill("alerts", "test")
    assert (nobody.code, "there is no webhook" in nobody.err) == (1, True)
    statuses = iter((204, 500, 204))
    with ModelServer(lambda _: Reply(b"", next(statuses))) as hook:
        monkeypatch.setenv("MEDIAMILL_ALERT_WEBHOOK_URL", f"{hook.url}/a-secret-path")
        monkeypatch.setenv("MEDIAMILL_ALERT_ALLOW_PRIVATE", "true")
        taken, refused = await mediamill("alerts", "test"), await mediamill("alerts", "test")
        assert (await mediamill("alerts", "test", "--json")).json == {"host": "127.0.0.1", "taken": True}
    assert (taken.code, taken.out.strip()) == (0, "127.0.0.1 has taken a test alert")
    assert (refused.code, "did not take it: HTTP 500" in refused.err) == (1, True)
    assert "a-secret-path" not in taken.out + refused.err
    listed = (await mediamill("alerts", "list", "--json")).json
    assert [(alert["state"], alert["last_error"]) for alert in listed[1:]] == [
        ("given_up", "HTTP 500"),
        ("sent", None),
    ]
    assert "given up" in (await mediamill("alerts", "list")).out

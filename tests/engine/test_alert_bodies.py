"""How alerts read, to the last word: the generic body, and those of Slack and Discord."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from mediamill.engine.alert_bodies import alert_body
from mediamill.engine.alerts import AlertType

AT = datetime(2026, 11, 18, 9, 30, 15, 250_000, tzinfo=UTC)
DISCORD = "https://discord.com/api/webhooks/1/x"
SLACK = "https://hooks.slack.com/services/x"
GREEN, GREY, ORANGE, RED = 0x2E7D32, 0x546E7A, 0xEF6C00, 0xC62828
SHOWN = {
    "test": ("A test: alerts arrive here", GREEN),
    "stale_job_recovered": ("Stale jobs recovered", ORANGE),
    "job_max_retries_exceeded": ("A job used up its attempts", RED),
    "job_failed": ("A job failed for good", RED),
    "job_failed_pattern": ("The same thing fails again and again", RED),
    "worker_startup": ("A worker started", GREEN),
    "worker_shutdown": ("A worker stopped", GREY),
}


def values(data: dict[str, Any]) -> dict[str, str]:
    """What Discord shows of it."""
    (embed,) = alert_body(DISCORD, "test", AT, data)["embeds"]
    return {field["name"]: field["value"] for field in embed["fields"]}


def test_every_type_of_alert_has_a_title_and_a_colour() -> None:
    assert {*get_args(AlertType), "test"} == set(SHOWN)
    for type_, (title, colour) in SHOWN.items():
        (embed,) = alert_body(DISCORD, type_, AT, {})["embeds"]
        assert (embed["title"], embed["color"]) == (title, colour)
        assert alert_body(SLACK, type_, AT, {})["text"] == f"mediamill: {title}"
    assert alert_body(SLACK, "of_a_newer_version", AT, {})["text"] == "mediamill: of_a_newer_version"


def test_the_generic_body_has_type_time_and_all_data() -> None:
    data = {"jobs": [1, 2], "worker": None}
    assert alert_body("https://example.com/hook", "test", AT, data) == {
        "type": "test",
        "timestamp": "2026-11-18T09:30:15.250000+00:00",
        "data": data,
    }


@pytest.mark.spec("E32")
def test_an_alert_that_stands_for_others_says_for_how_many() -> None:
    data = {"and_more": 41, "owner": "o"}
    title = "A job failed for good, and 41 more"
    (embed,) = alert_body(DISCORD, "job_failed", AT, data)["embeds"]
    assert (embed["title"], [field["name"] for field in embed["fields"]]) == (title, ["owner"])
    assert alert_body(SLACK, "job_failed", AT, data)["text"] == f"mediamill: {title}"
    assert alert_body("https://example.com/hook", "job_failed", AT, data)["data"] == data


@pytest.mark.parametrize("host", ["hooks.slack.com", "HOOKS.slack.com", "hooks.slack-gov.com"])
def test_slack_gets_blocks(host: str) -> None:
    assert alert_body(f"https://{host}/services/x", "worker_startup", AT, {"the_worker": "<a> & co"}) == {
        "text": "mediamill: A worker started",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "mediamill: A worker started"}},
            {
                "type": "section",
                "fields": [{"type": "mrkdwn", "text": "*the worker*\n&lt;a&gt; &amp; co"}],
            },
            {
                "type": "context",
                "elements": [{"type": "mrkdwn", "text": "worker_startup · 2026-11-18T09:30:15+00:00"}],
            },
        ],
    }
    bare = alert_body(f"https://{host}/services/x", "worker_startup", AT, {"worker": None})
    assert [block["type"] for block in bare["blocks"]] == ["header", "context"]


@pytest.mark.parametrize("host", ["discord.com", "discordapp.com"])
def test_discord_gets_an_embed_that_calls_nobody_and_only_at_the_address_of_a_webhook(host: str) -> None:
    assert alert_body(f"https://{host}/api/webhooks/1/x", "worker_shutdown", AT, {"worker_name": "a"}) == {
        "username": "mediamill",
        "embeds": [
            {
                "title": "A worker stopped",
                "color": GREY,
                "timestamp": "2026-11-18T09:30:15.250000+00:00",
                "footer": {"text": "worker_shutdown"},
                "fields": [{"name": "worker name", "value": "a", "inline": True}],
            }
        ],
        "allowed_mentions": {"parse": []},
    }
    for url in (f"https://{host}/other", "https://example.com/api/webhooks/1/x", "https:///api/webhooks/1"):
        assert set(alert_body(url, "test", AT, {})) == {"type", "timestamp", "data"}


def test_what_is_too_much_for_slack_and_discord_is_cut() -> None:
    assert list(values({f"f{n}": n for n in range(12)})) == [f"f{n}" for n in range(10)]
    assert values({"a": "x" * 300, "b": "x" * 301}) == {"a": "x" * 300, "b": "x" * 299 + "…"}
    assert values({"n" * 101: 1}) == {"n" * 100: "1"}
    assert values({"a": list(range(20)), "b": list(range(22)), "c": "", "d": None, "e": 0, "f": [1]}) == {
        "a": ", ".join(map(str, range(20))),
        "b": ", ".join(map(str, range(20))) + " and 2 more",
        "c": "(empty)",
        "e": "0",
        "f": "1",
    }

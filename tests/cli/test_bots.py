"""`mediamill bots`: made, looked at, changed, paired."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mediamill.cli.bot_settings import change_config
from mediamill.conversations.access import DayLimits, Gate
from mediamill.conversations.bots import AccessConfig
from mediamill.conversations.model import Sender
from mediamill.db.connection import Database
from mediamill.errors import InvalidError
from tests.cli.conftest import Mediamill


async def _bot(mediamill: Mediamill, name: str = "demo") -> Any:
    return (await mediamill("bots", "show", name, "--json")).json


async def test_a_bot_is_created_listed_stopped_started_and_deleted(mediamill: Mediamill) -> None:
    said = await mediamill("bots", "create", "demo", "--reply", "echo")
    assert (said.code, said.out) == (0, "demo is created and started\n")
    bot = await _bot(mediamill)
    assert (bot["running"], bot["config"]["reply"]["by"]) == (True, "echo")
    assert bot["config"]["providers"] == {"chat": {}}
    listed = (await mediamill("bots", "list")).out
    assert "demo" in listed
    assert "running" in listed
    assert (await mediamill("bots", "stop", "demo")).out == "demo is stopped\n"
    assert (await mediamill("bots", "start", "demo", "--json")).json["running"] is True
    refused = await mediamill("bots", "delete", "demo", "--yes")
    assert refused.code == 1
    assert "fix: mediamill bots stop demo" in refused.err
    await mediamill("bots", "stop", "demo")
    assert (await mediamill("bots", "delete", "demo", "--yes")).out == "demo is deleted\n"
    assert (await mediamill("bots", "list", "--json")).json == []
    assert "mediamill bots create" in (await mediamill("bots", "list")).out


async def test_all_options_of_create_reach_the_configuration(mediamill: Mediamill) -> None:
    words = ("--whatsapp", "--chat", "--reply", "openai", "--model", "m", "--prompt", "be brief")
    said = await mediamill("bots", "create", "helper", *words, "--open", "--groups", "never", "--no-start")
    assert said.out == "helper is created; mediamill bots start helper starts it\n"
    assert "anybody who knows its number or name may talk to it" in said.err
    bot = await _bot(mediamill, "helper")
    assert bot["running"] is False
    assert set(bot["config"]["providers"]) == {"chat", "whatsapp"}
    assert bot["config"]["reply"] == {"by": "openai", "model": "m", "prompt": "be brief"}
    assert (bot["config"]["access"]["mode"], bot["config"]["access"]["groups"]) == ("open", "never")
    shown = (await mediamill("bots", "show", "helper")).out
    assert re.search(r"who may talk +anybody", shown)
    assert re.search(r"in groups +never", shown)
    assert "be brief" in shown


async def test_a_bot_is_made_from_the_file_of_another(mediamill: Mediamill, tmp_path: Path) -> None:
    await mediamill("bots", "create", "demo", "--reply", "echo", "--prompt", "hm")
    file = tmp_path / "bot.json"
    file.write_text((await mediamill("bots", "show", "demo", "--json")).out)
    await mediamill("bots", "create", "twin", "--config", file, "--groups", "always")
    config = (await _bot(mediamill, "twin"))["config"]
    assert (config["reply"]["by"], config["reply"]["prompt"]) == ("echo", "hm")
    assert (config["access"]["mode"], config["access"]["groups"]) == ("paired", "always")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("create", "Demo"), "cannot be the name of a bot"),
        (("create", "demo"), "there is a bot demo already"),
        (("create", "new", "--config", "nowhere.json"), "cannot read nowhere.json"),
        (("show", "nobody"), "there is no bot nobody"),
        (("start", "nobody"), "there is no bot nobody"),
        (("stop", "nobody"), "there is no bot nobody"),
        (("set", "nobody", "reply=echo"), "there is no bot nobody"),
        (("delete", "nobody", "--yes"), "there is no bot nobody"),
        (("conversations", "nobody"), "there is no bot nobody"),
        (("messages", "nobody", "chat", "ann"), "there is no bot nobody"),
        (("messages", "demo", "chat", "ann"), "has no conversation with ann"),
        (("retry", "demo", "chat", "ann", "1"), "has no conversation with ann"),
        (("qr", "nobody"), "there is no bot nobody"),
        (("qr", "demo"), "on no network that needs pairing"),
        (("qr", "demo", "--provider", "smoke"), "is not on smoke"),
        (("set", "demo", "reply"), "'reply' is not of the form key=value"),
        (("set", "demo", "reply=magic"), "reply.by"),
        (("set", "demo", "providers.smoke={}"), "unknown provider smoke"),
        (("set", "demo", "providers.chat=none"), "a bot needs a provider"),
        (("set", "demo", "limits.max_messages=0", "colour=red"), "colour"),
        (("set", "demo", "access=everybody"), "access.mode"),
        (("set", "demo", "tokens_per_day=-1"), "access.tokens_per_day"),
        (("senders", "nobody"), "there is no bot nobody"),
        (("pair", "nobody", "ABCDEFGH"), "there is no bot nobody"),
        (("pair", "demo", "ABCDEFGH"), "nobody waits with the code ABCDEFGH"),
        (("allow", "demo", "+491701234567"), "the chat in the browser asks for a login"),
        (("block", "demo", "7001", "--provider", "telegram"), "demo is not on telegram"),
        (("revoke", "demo", "7001"), "demo is on 0 chat networks"),
    ],
)
async def test_a_mistake_is_told_and_changes_nothing(
    mediamill: Mediamill, words: tuple[str, ...], complaint: str
) -> None:
    await mediamill("bots", "create", "demo")
    before = (await mediamill("bots", "list", "--json")).json
    refused = await mediamill("bots", *words)
    assert (refused.code, refused.out) == (1, "")
    assert complaint in refused.err
    assert (await mediamill("bots", "list", "--json")).json == before


async def test_settings_are_changed_by_short_and_long_names(mediamill: Mediamill) -> None:
    await mediamill("bots", "create", "demo")
    words = (
        "reply=openai",
        "model=42",
        "groups=always",
        "access=open",
        "messages_per_day=7",
        "tokens_per_day=0",
        "limits.max_messages=7",
        "prompt=7",
        "providers.whatsapp={}",
    )
    assert (await mediamill("bots", "set", "demo", *words)).code == 0
    config = (await _bot(mediamill))["config"]
    assert config["reply"] == {"by": "openai", "model": "42", "prompt": "7"}
    assert config["access"] == {
        "mode": "open",
        "groups": "always",
        "messages_per_day": 7,
        "media_seconds_per_day": None,
        "tokens_per_day": 0,
    }
    assert config["limits"]["max_messages"] == 7
    assert set(config["providers"]) == {"chat", "whatsapp"}
    await mediamill("bots", "set", "demo", "model=none", "providers.chat=none", "messages_per_day=none")
    config = (await _bot(mediamill))["config"]
    assert config["access"]["messages_per_day"] is None
    assert (config["reply"]["model"], set(config["providers"])) == (None, {"whatsapp"})


async def test_people_are_paired_allowed_blocked_and_revoked(
    mediamill: Mediamill, database: Database
) -> None:
    said = await mediamill("bots", "create", "shop", "--whatsapp", "--no-start")
    assert "strangers get a code: mediamill bots pair shop CODE lets them in" in said.out
    assert "nobody was allowed or blocked" in (await mediamill("bots", "senders", "shop")).out
    gate = Gate(database, "shop", "whatsapp", AccessConfig(), DayLimits())
    stranger = Sender("491701111111@s.whatsapp.net", "Ann")
    assert not await gate.admit(stranger.identifier, stranger, None, provider_message_id="1")
    [waiting] = (await mediamill("bots", "senders", "shop", "--json")).json
    listed = (await mediamill("bots", "senders", "shop")).out
    assert waiting["code"] in listed
    assert "pending" in listed
    paired = await mediamill("bots", "pair", "shop", waiting["code"].lower())
    assert paired.out == "491701111111@s.whatsapp.net may talk to shop now\n"
    assert await gate.admit(stranger.identifier, stranger, None, provider_message_id="2")
    blocked = await mediamill("bots", "block", "shop", "+49 170 1111111")
    assert blocked.out == "491701111111@s.whatsapp.net is ignored by shop from now on\n"
    allowed = await mediamill("bots", "allow", "shop", "120363000000000001@g.us", "--json")
    assert allowed.json["state"] == "allowed"
    revoked = await mediamill("bots", "revoke", "shop", "491701111111")
    assert revoked.out == "491701111111@s.whatsapp.net is a stranger to shop again\n"
    found = (await mediamill("bots", "senders", "shop", "--json")).json
    assert [(each["sender_id"], each["state"]) for each in found] == [("120363000000000001@g.us", "allowed")]
    assert "nothing was decided" in (await mediamill("bots", "revoke", "shop", "491701111111")).err


async def test_check_names_bots_that_anybody_may_talk_to(mediamill: Mediamill) -> None:
    await mediamill("bots", "create", "shop", "--whatsapp", "--no-start", "--open")
    await mediamill("bots", "create", "family", "--whatsapp", "--no-start")
    await mediamill("bots", "create", "demo", "--open")
    found = [
        each for each in (await mediamill("check", "--json")).json["findings"] if each["about"] == "bots"
    ]
    [note] = [each for each in found if "anybody" in each["message"]]
    assert note["message"].startswith("shop: ")
    assert (note["status"], note["fix"]) == ("note", "mediamill bots set shop access=paired")


def test_a_key_that_goes_too_deep_is_named() -> None:
    with pytest.raises(InvalidError, match=r"reply.by.more goes too deep"):
        change_config({"reply": {"by": "echo"}}, ["reply.by.more=1"])


async def test_the_code_is_drawn_until_the_bot_is_paired(mediamill: Mediamill, database: Database) -> None:
    await mediamill("bots", "create", "family", "--whatsapp")

    async def tell(status: dict[str, Any]) -> None:
        async with database.connection() as connection:
            sql = "update bots set status = jsonb_build_object('whatsapp', $1::jsonb)"
            await connection.execute(sql, json.dumps(status))
            await connection.execute(
                "insert into events (topic, subject, data) values ('bot.changed', 'family', '{}')"
            )

    await tell({"state": "pairing", "qr": "2@one", "me": None, "detail": None})
    waited = await mediamill("bots", "qr", "family", "--wait", "0")
    assert waited.code == 1
    assert "was not paired within 0 s" in waited.err
    assert waited.out.count("▄") + waited.out.count("▀") + waited.out.count("█") > 100
    pairing = asyncio.ensure_future(mediamill("bots", "qr", "family", "--json"))
    await tell({"state": "connected", "qr": None, "me": {"identifier": "49123", "display_name": "Family"}})
    said = await asyncio.wait_for(pairing, 60)
    assert said.code == 0
    assert json.loads(said.out.splitlines()[-1])["state"] == "connected"
    assert (await mediamill("bots", "qr", "family")).out == "paired as Family 49123\n"
    await mediamill("bots", "stop", "family")
    assert "fix: mediamill bots start family" in (await mediamill("bots", "qr", "family")).err


async def test_the_check_names_bots_that_should_run_and_are_not_connected(mediamill: Mediamill) -> None:
    def about_bots(said: Any) -> list[tuple[str, str]]:
        return [(each["status"], each["message"]) for each in said["findings"] if each["about"] == "bots"]

    assert about_bots((await mediamill("check", "--json")).json) == []
    await mediamill("bots", "create", "quiet", "--no-start")
    assert about_bots((await mediamill("check", "--json")).json) == [("ok", "quiet (stopped)")]
    await mediamill("bots", "create", "demo")
    assert about_bots((await mediamill("check", "--json")).json) == [("note", "demo: chat is not started")]


async def test_a_file_with_a_bad_configuration_is_refused_by_name(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    file = tmp_path / "bot.json"
    for text, complaint in (
        ('{"reply": 5}', "reply"),
        ("[]", "must hold a JSON object"),
        ("{", "is not JSON"),
    ):
        file.write_text(text)
        refused = await mediamill("bots", "create", "demo", "--config", file, "--prompt", "x")
        assert refused.code == 1
        assert complaint in refused.err

"""Who may talk to a bot, by HTTP."""

from __future__ import annotations

from mediamill.conversations.access import DayLimits, Gate
from mediamill.conversations.bots import AccessConfig
from mediamill.conversations.model import Sender
from tests.api.serving import Served

ANN = Sender("491701111111@s.whatsapp.net", "Ann")
SENDERS = "/api/bots/shop/senders"


async def test_senders_are_listed_paired_allowed_blocked_and_forgotten(served: Served) -> None:
    client = served.client
    await client.post("/api/bots", json={"id": "shop", "config": {"providers": {"whatsapp": {}}}})
    gate = Gate(served.database, "shop", "whatsapp", AccessConfig(), DayLimits())
    assert not await gate.admit(ANN.identifier, ANN, None, provider_message_id="1")
    [waiting] = (await client.get(SENDERS)).json()["senders"]
    assert (waiting["state"], waiting["display_name"], waiting["messages"]) == ("pending", "Ann", 0)
    refused = await client.post("/api/bots/shop/pair", json={"code": "WRONG"})
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_pairing_code")
    paired = await client.post("/api/bots/shop/pair", json={"code": waiting["code"]})
    assert paired.json() == {
        "provider_name": "whatsapp",
        "sender_id": ANN.identifier,
        "state": "allowed",
    }
    one = f"{SENDERS}/whatsapp/{ANN.identifier}"
    assert (await client.put(one, json={"state": "blocked"})).json()["state"] == "blocked"
    assert not await gate.admit(ANN.identifier, ANN, None, provider_message_id="2")
    assert (await client.put(one, json={"state": "pending"})).status_code == 422
    assert (await client.delete(one)).json()["state"] == "unknown"
    assert (await client.delete(one)).status_code == 404
    assert (await client.get(SENDERS)).json() == {"senders": []}


async def test_a_network_that_the_bot_is_not_on_and_a_name_that_is_none_are_refused(served: Served) -> None:
    client = served.client
    await client.post("/api/bots", json={"id": "shop", "config": {"providers": {"telegram": {}, "chat": {}}}})
    for path, code in (
        ("whatsapp/1", "bad_sender"),
        ("chat/ann", "bad_sender"),
        ("telegram/@ann", "bad_sender"),
    ):
        refused = await client.put(f"{SENDERS}/{path}", json={"state": "allowed"})
        assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert (await client.get("/api/bots/nobody/senders")).status_code == 404

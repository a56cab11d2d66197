from __future__ import annotations

import json
from pathlib import Path

import pytest

from mediamill.providers.whatsapp.payload import BadFrameError, MessageFrame, MessagePayload, read_frame
from mediamill.providers.whatsapp.receive import message_of
from tests.whatsapp.knocking import frame

SAMPLES = Path(__file__).parents[2] / "bridges" / "whatsapp" / "samples"
VALID = sorted(SAMPLES.glob("*.json"))
INVALID = sorted((SAMPLES / "invalid").glob("*.json"))


@pytest.mark.spec("C40")
@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_a_sample_of_the_bridge_is_understood_whole(file: Path) -> None:
    given = json.loads(file.read_text())
    found = read_frame(frame(given, "a-1"))
    assert isinstance(found, MessageFrame)
    assert found.payload.model_dump(by_alias=True) == given
    known = {field.alias or name for name, field in MessagePayload.model_fields.items()}
    assert set(given) == known  # both sides know the same fields


@pytest.mark.spec("C40")
@pytest.mark.parametrize("file", INVALID, ids=lambda file: file.stem)
def test_a_bad_sample_is_refused_for_its_fault(file: Path) -> None:
    given = json.loads(file.read_text())
    with pytest.raises(BadFrameError) as caught:
        read_frame(frame(given["payload"], "a-1"))
    assert (caught.value.code, caught.value.spool_id) == ("bad_payload", "a-1")
    assert any(given["fault"] in fault for fault in caught.value.faults), caught.value.faults


@pytest.mark.spec("C40")
def test_there_are_samples_of_each_sort() -> None:
    assert len(VALID) > 20
    assert len(INVALID) > 20


@pytest.mark.spec("C40")
@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_a_sample_says_who_wrote(file: Path) -> None:
    payload = MessagePayload.model_validate(json.loads(file.read_text()))
    message = message_of(payload)
    who = payload.actual_sender.identifier if payload.actual_sender else payload.sender
    assert message["sender"].identifier == who
    assert message["source"] == ("user" if payload.direction == "incoming" else "outgoing")
    assert (message["group"] is None) == (payload.group is None)


@pytest.mark.spec("C40")
def test_faults_are_few_and_short_and_do_not_repeat_what_was_sent() -> None:
    secret = "my bank account" * 100
    payload = {"alternate_identifiers": [{"x": secret}] * 20, "direction": secret, "message": [secret]}
    with pytest.raises(BadFrameError) as caught:
        read_frame(frame(payload))
    told = json.dumps(caught.value.faults)
    assert len(told) < 3_000
    assert "bank" not in told
    assert "more" in caught.value.faults[-1]

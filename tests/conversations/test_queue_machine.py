"""CorrespondentQueue against a simple model, a list of dicts: every operation in random order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mediamill.conversations.model import USER, Limits, Message
from mediamill.conversations.queue import CorrespondentQueue
from tests.conversations.conftest import ANN

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = st.text(max_size=12)


class QueueMachine(RuleBasedStateMachine):
    """The model: what is in the queue, oldest first, and everything that was told."""

    @initialize(
        messages=st.integers(1, 5),
        characters=st.integers(1, 40),
        age=st.integers(1, 30),
        each=st.integers(1, 12),
    )
    def begin(self, messages: int, characters: int, age: int, each: int) -> None:
        self.limits = Limits(messages, characters, age, each, max_caption_characters=each)
        self.now = START
        self.heard: list[tuple[int, str]] = []
        self.told: list[tuple[int, str]] = []
        self.model: list[dict[str, Any]] = []
        self.next_id, self.guids = 1, 0
        self.queue = CorrespondentQueue("ann", self.limits, callbacks=[self.hear])

    def hear(self, _correspondent: str, message: Message) -> None:
        self.heard.append((message.id, message.content))

    def guid(self) -> str:
        self.guids += 1
        return f"g{self.guids}"

    def waiting(self) -> list[dict[str, Any]]:
        return [each for each in self.model if each["guid"]]

    def finished(self) -> list[dict[str, Any]]:
        return [each for each in self.model if not each["guid"]]

    def evict(self) -> None:
        """The words of the specification, one by one."""
        while finished := self.finished():
            old = (self.now - finished[0]["at"]).total_seconds() > self.limits.max_age_seconds
            many = len(finished) > self.limits.max_messages
            if not (old or many or sum(len(each["text"]) for each in finished) > self.limits.max_characters):
                break
            self.model.remove(finished[0])

    @rule(text=TEXT, placeholder=st.booleans())
    def add(self, text: str, placeholder: bool) -> None:
        guid = self.guid() if placeholder else None
        message = self.queue.make_message(text, ANN, USER, self.now, media_processing_id=guid)
        assert message.id == self.next_id
        self.next_id += 1
        self.queue.add_message(message)
        self.model.append({"id": message.id, "text": message.content, "guid": guid, "at": self.now})
        assert len(message.content) <= self.limits.max_message_characters
        if guid is None:
            self.evict()
            self.told.append((message.id, message.content))

    @rule(text=TEXT, ahead=st.integers(0, 5), age=st.integers(0, 100))
    def inject(self, text: str, ahead: int, age: int) -> None:
        guid, at, id_ = self.guid(), self.now - timedelta(seconds=age), self.next_id + ahead
        self.queue.inject_placeholder(Message(id_, text, ANN, USER, at, len(text), media_processing_id=guid))
        self.model.append({"id": id_, "text": text, "guid": guid, "at": at})
        self.next_id = id_ + 1

    @precondition(lambda self: self.waiting())
    @rule(text=TEXT, data=st.data())
    def deliver(self, text: str, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.waiting()))
        guid = chosen["guid"]
        chosen |= {"text": text, "guid": None}
        assert self.queue.awaited(guid)
        assert self.queue.update_message_by_media_id(guid, text, self.now)
        assert not self.queue.update_message_by_media_id(guid, "again", self.now)
        self.evict()
        self.told.append((chosen["id"], text))

    @rule()
    def deliver_to_nobody(self) -> None:
        assert not self.queue.update_message_by_media_id("nobody", "text", self.now)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.waiting()))
        self.queue.remove_placeholder(chosen["guid"])
        self.queue.remove_placeholder(chosen["guid"])
        self.model.remove(chosen)

    @rule()
    def pop(self) -> None:
        expected = self.finished()[0] if self.finished() else None
        popped = self.queue.pop_ready_message()
        assert (popped and (popped.id, popped.content)) == (expected and (expected["id"], expected["text"]))
        if expected:
            self.model.remove(expected)

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def the_queue_is_as_the_model_says(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert [(each.id, each.content, each.media_processing_id) for each in self.queue] == [
            (each["id"], each["text"], each["guid"]) for each in self.model
        ]
        assert all(each.message_size == len(each.content) for each in self.queue)
        assert self.queue.total_characters == sum(len(each["text"]) for each in self.finished())
        assert self.queue.finished_count == len(self.finished()) <= self.limits.max_messages
        assert self.queue.total_characters <= self.limits.max_characters
        assert {each.media_processing_id for each in self.queue.placeholders} == {
            each["guid"] for each in self.waiting()
        }
        assert self.heard == self.told
        assert self.queue.next_id == self.next_id


@pytest.mark.spec("C1", "C4", "C5", "C6", "C7")
class TestQueueMachine(QueueMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=120, stateful_step_count=50)

"""CorrespondentQueue alone: sizes, callbacks, limits, placeholders in every place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mediamill.conversations.model import USER, Group, Limits, Media, Message, Sender
from mediamill.conversations.queue import CorrespondentQueue
from tests.conversations.conftest import ANN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WIDE = Limits(max_messages=10**6, max_characters=10**9)


class Heard(list[tuple[str, int, str]]):
    """A callback that remembers."""

    def __call__(self, correspondent_id: str, message: Message) -> None:
        self.append((correspondent_id, message.id, message.content))


class Bench:
    """A queue, and what it told."""

    def __init__(self, limits: Limits = WIDE, **more: int) -> None:
        self.heard = Heard()
        self.queue = CorrespondentQueue("ann", limits, callbacks=[self.heard], **more)

    def add(self, content: str, guid: str | None = None, at: datetime = NOON) -> Message:
        message = self.queue.make_message(content, ANN, USER, at, media_processing_id=guid)
        self.queue.add_message(message)
        return message

    @property
    def ids(self) -> list[int]:
        return [message.id for message in self.queue]

    def check(self) -> None:
        """What must hold whatever happens."""
        finished = [message for message in self.queue if not message.is_placeholder]
        assert self.queue.total_characters == sum(len(message.content) for message in finished)
        assert self.queue.finished_count == len(finished)
        assert all(message.message_size == len(message.content) for message in self.queue)


@pytest.mark.spec("C1")
def test_a_message_has_all_its_facts_and_survives_being_kept() -> None:
    queue = CorrespondentQueue("ann", next_id=7)
    message = queue.make_message(
        "look",
        Sender("ann@example", "Ann", ("lid-1", "lid-2")),
        USER,
        NOON,
        originating_time=1_700_000_000,
        group=Group("g@example", "The group"),
        provider_message_id="p-1",
        media_processing_id="guid-1",
    )
    assert (message.id, message.message_size, message.media_processing_id) == (7, 4, "guid-1")
    assert Message.from_json(message.to_json()) == message


@pytest.mark.spec("C1", "C4")
@pytest.mark.parametrize("caption", ["", "look"])
def test_a_placeholder_is_told_once_when_its_text_has_come(caption: str) -> None:
    bench = Bench()
    message = bench.add(caption, "guid-1")
    assert (message.content, message.message_size, bench.heard) == (caption, len(caption), [])
    bench.check()
    assert bench.queue.update_message_by_media_id("guid-1", "look\n\nthe text")
    assert (message.content, message.message_size) == ("look\n\nthe text", 14)
    assert message.media_processing_id is None
    assert not bench.queue.update_message_by_media_id("guid-1", "another text")
    assert not bench.queue.update_message_by_media_id("no such guid", "text")
    assert bench.heard == [("ann", 1, "look\n\nthe text")]
    bench.check()


@pytest.mark.spec("C4")
def test_a_callback_that_raises_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_correspondent: str, _message: Message) -> None:
        raise RuntimeError("broken callback")

    heard = Heard()
    queue = CorrespondentQueue("ann", callbacks=[broken, heard])
    queue.add_message(queue.make_message("one", ANN, USER, NOON))
    queue.add_message(queue.make_message("", ANN, USER, NOON, media_processing_id="g"))
    assert queue.update_message_by_media_id("g", "two")
    assert heard == [("ann", 1, "one"), ("ann", 2, "two")]
    assert queue.total_characters == 6
    assert caplog.text.count("RuntimeError: broken callback") == 2


@pytest.mark.spec("C5")
def test_an_injected_placeholder_keeps_its_id_and_is_neither_cut_nor_told() -> None:
    bench = Bench(Limits(max_messages=1, max_characters=3, max_age_seconds=1, max_message_characters=2))
    bench.add("ab")
    old = Message(40, "a long caption", ANN, USER, NOON - timedelta(days=9), 14, media_processing_id="guid-1")
    bench.queue.inject_placeholder(old)
    assert bench.ids == [1, 40]
    assert [message.content for message in bench.queue] == ["ab", "a long caption"]
    assert bench.heard == [("ann", 1, "ab")]
    bench.check()


@pytest.mark.spec("C5", "C9")
def test_new_ids_are_above_every_injected_placeholder() -> None:
    bench = Bench(next_id=5)
    for id_ in (40, 3):
        bench.queue.inject_placeholder(Message(id_, "", ANN, USER, NOON, 0, media_processing_id=f"g{id_}"))
    assert [bench.add("x").id, bench.add("y").id] == [41, 42]


PLACES = {
    "none": (),
    "at the head": (0,),
    "several at the head": (0, 1, 2),
    "in the middle": (3, 4),
    "at the end": (9,),
    "everywhere": (0, 2, 4, 6, 8),
}


@pytest.mark.spec("C6")
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("by", ["number", "characters", "age"])
def test_limits_evict_finished_messages_only_oldest_first(places: tuple[int, ...], by: str) -> None:
    limits = {
        "number": Limits(max_messages=2),
        "characters": Limits(max_characters=20),
        "age": Limits(max_age_seconds=25),
    }[by]
    bench = Bench(limits)
    for n in range(10):
        guid = f"g{n}" if n in places else None
        bench.add("ten letter", guid, NOON + timedelta(seconds=20 * n))
        bench.check()
        assert bench.queue.finished_count <= 2
    finished = [n + 1 for n in range(10) if n not in places]
    waiting = [n + 1 for n in places]
    kept = finished[-2:] if by != "age" else [n for n in finished[-2:] if n >= finished[-1] - 1]
    assert bench.ids == sorted(kept + waiting)
    for n in places:  # the last word comes: nothing grows
        assert bench.queue.update_message_by_media_id(f"g{n}", "ten letter", NOON + timedelta(seconds=180))
        bench.check()
        assert bench.queue.finished_count <= 2
    assert len(bench.heard) == 10
    assert len(set(bench.heard)) == 10


@pytest.mark.spec("C6")
def test_a_placeholder_at_the_head_lets_nothing_grow_in_a_thousand_messages() -> None:
    bench = Bench(Limits(max_messages=50, max_characters=200))
    bench.add("", "guid-1")
    for n in range(1000):
        bench.add(f"{n:04}")
        assert bench.queue.finished_count <= 50
        assert bench.queue.total_characters <= 200
    assert bench.ids == [1, *range(952, 1002)]


@pytest.mark.spec("C6")
def test_a_text_that_is_larger_than_the_limit_leaves_only_placeholders() -> None:
    bench = Bench(Limits(max_characters=10))
    bench.add("", "guid-1")
    bench.add("short")
    assert bench.queue.update_message_by_media_id("guid-1", "far too long for the queue")
    assert bench.ids == [2]
    assert [told for *_, told in bench.heard] == ["short", "far too long for the queue"]
    bench.check()


@pytest.mark.spec("C6")
def test_a_thousand_placeholders_are_neither_counted_nor_evicted() -> None:
    bench = Bench(Limits(max_messages=1, max_characters=1, max_age_seconds=1))
    for n in range(1000):
        bench.add("a caption", f"g{n}", NOON + timedelta(hours=n))
    bench.add("x", at=NOON + timedelta(hours=2000))
    assert len(bench.queue) == 1001
    assert (bench.queue.finished_count, bench.queue.total_characters) == (1, 1)


@pytest.mark.spec("C7")
def test_popping_gives_the_oldest_finished_one_and_steps_over_placeholders() -> None:
    bench = Bench()
    for content, guid in [("", "g1"), ("a", None), ("", "g2"), ("bb", None), ("", "g3")]:
        bench.add(content, guid)
    popped = [bench.queue.pop_ready_message() for _ in range(3)]
    assert [message and message.content for message in popped] == ["a", "bb", None]
    bench.queue.update_message_by_media_id("g2", "video")
    bench.queue.update_message_by_media_id("g1", "voice")
    bench.check()
    popped = [bench.queue.pop_ready_message() for _ in range(3)]
    assert [message and (message.id, message.content) for message in popped] == [
        (1, "voice"),
        (3, "video"),
        None,
    ]
    assert [message.id for message in bench.queue.placeholders] == [5]
    assert bench.queue.total_characters == 0


@pytest.mark.spec("C1")
def test_what_the_database_cannot_keep_is_taken_out_and_the_size_fits() -> None:
    bench = Bench(Limits(max_message_characters=5))
    assert bench.add("a\0b\ud800cdefgh").content == "ab?cd"
    assert bench.add("🎵🎵🎵🎵🎵🎵").message_size == 5
    bench.check()


@pytest.mark.spec("C2")
@pytest.mark.parametrize(
    ("claimed", "clean"),
    [
        ("audio/ogg; codecs=opus", "audio/ogg"),
        ("IMAGE/WebP", "image/webp"),
        ("media_corrupt_video", "media_corrupt_video"),
        ("", "application/octet-stream"),
        ("../../etc", "application/octet-stream"),
        ("a" * 64 + "/b", "application/octet-stream"),
        ("text/plain\n", "text/plain"),
    ],
)
def test_the_claimed_type_is_a_strangers_word(claimed: str, clean: str) -> None:
    assert Media("guid", claimed).mime_type == clean


@pytest.mark.spec("C1")
def test_a_message_is_evicted_when_it_is_older_than_the_limit_and_not_before() -> None:
    bench = Bench(Limits(max_age_seconds=60))
    bench.add("old")
    bench.add("still fresh", at=NOON + timedelta(seconds=60))
    assert bench.ids == [1, 2]
    bench.add("new", at=NOON + timedelta(seconds=61))
    assert bench.ids == [2, 3]
    bench.check()


@pytest.mark.spec("C1")
def test_limits_are_reached_before_they_are_passed() -> None:
    by_count, by_size = Bench(Limits(max_messages=2)), Bench(Limits(max_characters=4))
    for bench in (by_count, by_size):
        bench.add("ab")
        bench.add("cd")
        assert bench.ids == [1, 2]
        bench.add("e")
        assert bench.ids == [2, 3]
        bench.check()


@pytest.mark.spec("C1", "C2")
def test_by_default_texts_and_captions_are_cut_at_their_own_lengths_and_ids_begin_with_one() -> None:
    queue = CorrespondentQueue("ann")
    text = queue.make_message("x" * 200_001, ANN, USER, NOON)
    caption = queue.make_message("x" * 50_001, ANN, USER, NOON, media_processing_id="guid")
    assert (text.id, text.message_size) == (1, 200_000)
    assert (caption.id, caption.message_size) == (2, 50_000)


@pytest.mark.spec("C2")
def test_a_guid_that_nobody_waits_for_changes_nothing() -> None:
    bench = Bench()
    bench.add("hello")
    bench.add("caption", guid="guid-1")
    bench.queue.remove_placeholder("guid-2")
    assert bench.queue.update_message_by_media_id("guid-2", "text") is False
    assert bench.queue.awaited("guid-2") is None
    waiting = bench.queue.awaited("guid-1")
    assert waiting is not None
    assert waiting.id == 2
    assert [bench.queue.has(id_) for id_ in (1, 2, 3)] == [True, True, False]
    bench.queue.remove_placeholder("guid-1")
    assert bench.ids == [1]
    assert list(bench.queue.placeholders) == []
    bench.check()

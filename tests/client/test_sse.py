"""Server-Sent Events, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mediamill.client.sse import EventParser, ServerEvent

STREAM = (
    "\ufeff: a comment\r\n\r\n"
    "event: text\ndata: {1\ndata:  2}\nid: 1-ä\n\n"
    "data\r\r"
    "event: nothing\n\n"
    "id: bad\0\nretry: 3\nfield: ignored\ndata: 🙂\r\n\r\n"
    "id\ndata: x\n\n"
    "data: not whole\n"
).encode()
EVENTS = [
    ServerEvent("text", "{1\n 2}", "1-ä"),
    ServerEvent("message", "", "1-ä"),
    ServerEvent("message", "🙂", "1-ä"),
    ServerEvent("message", "x", None),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_wherever_the_bytes_are_cut(places: list[int]) -> None:
    parser = EventParser()
    borders = [0, *sorted(places), len(STREAM)]
    chunks = [STREAM[begin:end] for begin, end in pairwise(borders)]
    assert [event for chunk in chunks for event in parser.feed(chunk)] == EVENTS


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert [event.data for event in EventParser().feed(b"data: \xff\xfe\n\n")] == ["\ufffd\ufffd"]

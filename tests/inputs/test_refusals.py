"""Every refusal has a code that clients can rely on, and says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from mediamill.errors import InvalidError, MediamillError
from mediamill.inputs.look import retry_run
from mediamill.inputs.model import MAX_IMAGE_BYTES, ImageTypeError
from mediamill.inputs.read_body import read_body
from tests.inputs.conftest import ANN, Bench


async def fail(bench: Bench, call: Callable[[], Awaitable[Any]]) -> tuple[str, str | None]:
    with pytest.raises(MediamillError) as refused:
        await call()
    return refused.value.code, refused.value.fix


@pytest.mark.spec("I2", "I3", "I8")
async def test_what_is_refused_has_its_code_and_says_what_to_do(bench: Bench) -> None:
    large = replace(bench.image(), byte_size=MAX_IMAGE_BYTES + 1)
    run = (await bench.accept(idempotency_key="k", payload_hash="one")).run
    for _ in range(10):
        await bench.save()

    async def retry(run_id: Any) -> None:
        async with bench.database.transaction() as connection:
            await retry_run(connection, run_id)

    assert [
        await fail(bench, lambda: bench.accept([bench.image()] * 11)),
        await fail(bench, lambda: bench.accept([large])),
        await fail(bench, lambda: bench.accept(idempotency_key="k", payload_hash="other")),
        await fail(bench, lambda: bench.save()),
        await fail(bench, lambda: bench.save(large)),
        await fail(bench, lambda: bench.accept([bench.image()], scope=ANN, claim=True)),
        await fail(bench, lambda: retry(run.run_id)),
        await fail(bench, lambda: retry(uuid4())),
    ] == [
        ("image_count_exceeded", "send the others with another message"),
        ("image_total_bytes_exceeded", "send smaller images, or fewer"),
        ("idempotency_payload_mismatch", "use a new key for a new message"),
        ("image_buffer_limit_exceeded", "send the text that they are for, then more images"),
        ("image_total_bytes_exceeded", "send smaller images, or fewer"),
        ("image_count_exceeded", "send the others with another message"),
        ("run_not_failed", "a run that failed can be tried again"),
        ("unknown_run", "mediamill runs list shows those there are"),
    ]


class Counting:
    """Reads nothing, and knows how much there was."""

    def __init__(self) -> None:
        self.seen = 0

    def feed(self, piece: bytes) -> None:
        self.seen += len(piece)

    def close(self) -> Any:
        return self.seen


@pytest.mark.spec("I2")
async def test_a_body_may_have_75_mebibytes_and_not_a_byte_more() -> None:
    million = bytes(1024**2)

    async def body(more: bytes) -> AsyncIterator[bytes]:
        for _ in range(75):
            yield million
        yield more

    assert await read_body(Counting(), body(b"")) == 75 * 1024**2  # type: ignore[comparison-overlap]
    reader = Counting()
    with pytest.raises(MediamillError) as refused:
        await read_body(reader, body(b"x"))
    assert (refused.value.code, refused.value.fix) == ("body_too_large", "send smaller images, or fewer")
    assert reader.seen == 75 * 1024**2, "what is too much is not even read"


def test_what_to_do_is_that_of_the_error_unless_something_better_is_said() -> None:
    assert InvalidError().fix is None
    assert (ImageTypeError().fix or "").startswith("send one of image/jpeg, ")
    assert ImageTypeError(fix="draw it anew").fix == "draw it anew"
    assert ImageTypeError("no picture").message == "no picture"

"""`AsyncClient`: carries the plans out by awaiting; otherwise the same as `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, closing
from os import PathLike
from pathlib import Path
from typing import Self, TypeVar, cast

import httpx

from mediamill.client import videos, wire
from mediamill.client.body import Progress
from mediamill.client.model import DeliveryMode, Finished, ImageLike, Run, RunEvent, UploadedVideo
from mediamill.client.plans import (
    Answer,
    Ask,
    Hear,
    Listen,
    Lost,
    Pause,
    Plan,
    Plans,
    Reply,
    Sendable,
    Step,
    Tell,
    next_step,
)
from mediamill.client.problems import RunFailedError
from mediamill.client.upload import upload_video
from mediamill.client.video import Video

T = TypeVar("T")


class AsyncClient:
    """Sends messages to the agent of a mediamill, and follows what comes of them.

    >>> async def main():
    ...     async with AsyncClient(url) as client:
    ...         run = await client.send_message("holiday", "What is on these?", images=["beach.jpg", "dog.png"])
    ...         async for event in client.stream(run.run_id):
    ...             if isinstance(event, TextPiece):
    ...                 print(event.text.strip())
    >>> asyncio.run(main())
    A beach,
    and a dog.
    """

    def __init__(
        self, url: str = wire.URL, token: str | None = None, *, timeout: float = 60, patience: float = 30
    ) -> None:
        """The user who runs the server needs no token here: the key in its data folder (`MEDIAMILL_DATA`) is enough.

        `timeout`: seconds that the server may be silent; `patience`: how many seconds to try again in all.
        """
        self._http = httpx.AsyncClient(**wire.options(url, token, timeout))
        self._plans = Plans(url.rstrip("/"), patience)

    async def send_message(
        self,
        thread_key: str,
        text: str,
        images: Sequence[ImageLike] = (),
        delivery_mode: DeliveryMode = "prompt",
        idempotency_key: str | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """The run that will answer. `progress` is told, in a thread, the bytes sent and how many there are."""
        return await self._carry_out(
            self._plans.send_message(thread_key, text, images, delivery_mode, idempotency_key, progress)
        )

    async def ask(
        self,
        thread_key: str,
        text: str,
        images: Sequence[ImageLike] = (),
        delivery_mode: DeliveryMode = "prompt",
        idempotency_key: str | None = None,
    ) -> Run:
        """Send it and wait for the answer; RunFailedError if there will be none."""
        sent = await self.send_message(thread_key, text, images, delivery_mode, idempotency_key)
        run = await self.wait(sent.run_id)
        if run.state == "failed":
            raise RunFailedError(run)
        return run

    async def run(self, run_id: str) -> Run:
        """A run as it is now."""
        return await self._carry_out(self._plans.run(run_id))

    async def runs(self, thread_key: str, limit: int = 50) -> list[Run]:
        """The latest runs of a thread, newest first."""
        return await self._carry_out(self._plans.runs(thread_key, limit))

    async def retry(self, run_id: str) -> Run:
        """Try a failed run again."""
        return await self._carry_out(self._plans.retry(run_id))

    async def wait(self, run_id: str) -> Run:
        """The run when it has ended."""
        async with aclosing(self.stream(run_id)) as events:
            return await anext(event.run async for event in events if isinstance(event, Finished))

    async def stream(self, run_id: str) -> AsyncGenerator[RunEvent, None]:
        """The answer from its beginning, as it comes; reconnects by itself. The last event is Finished."""
        plan: Plan[None] = self._plans.follow(run_id)
        reply: Reply = None
        async with _Line(self._http) as line:
            while (step := next_step(plan, reply)) is not None:
                if isinstance(step, Tell):
                    yield step.event
                reply = await line.do(step)

    async def _carry_out(self, plan: Plan[T]) -> T:
        reply: Reply = None
        async with _Line(self._http) as line:
            while True:
                try:
                    step = plan.send(reply)
                except StopIteration as end:
                    return cast(T, end.value)
                reply = await line.do(step)

    async def upload_video(
        self,
        path: str | PathLike[str],
        *,
        title: str | None = None,
        description: str | None = None,
        category: str | None = None,
        priority: str | None = None,
        progress: Progress | None = None,
    ) -> UploadedVideo:
        """A video, whole. When the line breaks it goes on from there; called again after a restart, too.

        `progress` is told, in a thread, the bytes that are there and how many there are in all.
        """
        said = {"title": title, "description": description, "category": category, "priority": priority}
        return await self._carry_out(upload_video(self._plans, Path(path), said, progress))

    async def video(self, video_id: str) -> Video:
        """A video as the server tells of it now, by its id or slug: its state, its qualities, how far it is."""
        return await self._carry_out(self._plans.video(video_id))

    async def videos(
        self,
        *,
        state: str | None = None,
        category: str | None = None,
        words: str | None = None,
        trash: bool = False,
        limit: int = 50,
    ) -> list[Video]:
        """The latest videos, newest first; `words` are looked for in what is said, too."""
        filters = {"state": state, "category": category, "q": words, "trash": "true" if trash else None}
        return await self._carry_out(videos.list_videos(self._plans, limit, filters))

    async def wait_ready(self, video_id: str, timeout: float | None = None) -> Video:
        """The video once it can be played; VideoFailedError if it will not, TimeoutError after so many seconds."""
        return await self._carry_out(videos.wait_ready(self._plans, video_id, timeout))

    async def retry_video(self, video_id: str) -> Video:
        """Try again what failed."""
        return await self._carry_out(videos.change_video(self._plans, video_id, "retry"))

    async def retranscode_video(
        self,
        video_id: str,
        qualities: Sequence[str] | None = None,
        *,
        transcript: bool = False,
        priority: str = "low",
    ) -> Video:
        """Make qualities anew, or all of them; what is there plays until the new stream is ready."""
        return await self._carry_out(
            videos.retranscode_video(self._plans, video_id, qualities, transcript, priority)
        )

    async def set_video_priority(self, video_id: str, priority: str) -> Video:
        """How soon what waits of it is claimed: high, normal or low."""
        plan = videos.change_video(self._plans, video_id, "priority", {"priority": priority})
        return await self._carry_out(plan)

    async def delete_video(self, video_id: str, *, forever: bool = False) -> None:
        """To the trash; `forever`: erase one that is there."""
        await self._carry_out(videos.delete_video(self._plans, video_id, forever))

    async def restore_video(self, video_id: str) -> Video:
        """Back from the trash."""
        return await self._carry_out(videos.change_video(self._plans, video_id, "restore"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Line:
    """Does one step at a time; at most one stream is open."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._open = AsyncExitStack()
        self._chunks: AsyncIterator[bytes] | None = None

    async def do(self, step: Step) -> Reply:
        """What came of it."""
        try:
            match step:
                case Ask():
                    content = None if step.body is None else _pieces(step.body)
                    response = await self._http.request(**wire.request_of(step), content=content)
                    return wire.answer_of(response, response.content)
                case Listen():
                    return await self._listen(step)
                case Hear():
                    assert self._chunks is not None
                    return await anext(self._chunks, None) or Lost("the events broke off")
                case Pause(seconds):
                    await asyncio.sleep(seconds)
        except wire.LOST as error:
            return wire.lost(error)
        return None

    async def _listen(self, step: Listen) -> Answer:
        await self._open.aclose()
        response = await self._open.enter_async_context(self._http.stream(**wire.request_of_stream(step)))
        answer = wire.answer_of(response)
        if not answer.is_stream:
            return wire.answer_of(response, await response.aread())
        self._chunks = response.aiter_bytes()
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


async def _pieces(body: Sendable) -> AsyncIterator[bytes]:
    """Read in a thread, so that a slow disk holds nothing up."""
    with closing(body.pieces()) as pieces:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

"""`Client`: carries the plans out by blocking."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
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
    Step,
    Tell,
    next_step,
)
from mediamill.client.problems import RunFailedError
from mediamill.client.upload import upload_video
from mediamill.client.video import Video

T = TypeVar("T")


class Client:
    """Sends messages to the agent of a mediamill, and follows what comes of them.

    >>> with Client(url) as client:
    ...     run = client.ask("holiday", "What is on these?", images=["beach.jpg", "dog.png"])
    ...     print(run.answer)
    A beach, and a dog.

    The answer as it comes:

    >>> client = Client(url, token="only needed from another machine or user")
    >>> run = client.send_message("holiday", "Look again, please.")
    >>> for event in client.stream(run.run_id):
    ...     if isinstance(event, TextPiece):
    ...         print(event.text.strip())
    A beach,
    and a dog.
    """

    def __init__(
        self, url: str = wire.URL, token: str | None = None, *, timeout: float = 60, patience: float = 30
    ) -> None:
        """The user who runs the server needs no token here: the key in its data folder (`MEDIAMILL_DATA`) is enough.

        `timeout`: seconds that the server may be silent; `patience`: how many seconds to try again in all.
        """
        self._http = httpx.Client(**wire.options(url, token, timeout))
        self._plans = Plans(url.rstrip("/"), patience)

    def send_message(
        self,
        thread_key: str,
        text: str,
        images: Sequence[ImageLike] = (),
        delivery_mode: DeliveryMode = "prompt",
        idempotency_key: str | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """The run that will answer. `progress` is told the bytes that are sent, and how many there are in all."""
        return self._carry_out(
            self._plans.send_message(thread_key, text, images, delivery_mode, idempotency_key, progress)
        )

    def ask(
        self,
        thread_key: str,
        text: str,
        images: Sequence[ImageLike] = (),
        delivery_mode: DeliveryMode = "prompt",
        idempotency_key: str | None = None,
    ) -> Run:
        """Send it and wait for the answer; RunFailedError if there will be none."""
        run = self.wait(self.send_message(thread_key, text, images, delivery_mode, idempotency_key).run_id)
        if run.state == "failed":
            raise RunFailedError(run)
        return run

    def run(self, run_id: str) -> Run:
        """A run as it is now."""
        return self._carry_out(self._plans.run(run_id))

    def runs(self, thread_key: str, limit: int = 50) -> list[Run]:
        """The latest runs of a thread, newest first."""
        return self._carry_out(self._plans.runs(thread_key, limit))

    def retry(self, run_id: str) -> Run:
        """Try a failed run again."""
        return self._carry_out(self._plans.retry(run_id))

    def wait(self, run_id: str) -> Run:
        """The run when it has ended."""
        with closing(self.stream(run_id)) as events:
            return next(event.run for event in events if isinstance(event, Finished))

    def stream(self, run_id: str) -> Generator[RunEvent, None, None]:
        """The answer from its beginning, as it comes; reconnects by itself. The last event is Finished."""
        plan: Plan[None] = self._plans.follow(run_id)
        reply: Reply = None
        with _Line(self._http) as line:
            while (step := next_step(plan, reply)) is not None:
                if isinstance(step, Tell):
                    yield step.event
                reply = line.do(step)

    def _carry_out(self, plan: Plan[T]) -> T:
        reply: Reply = None
        with _Line(self._http) as line:
            while True:
                try:
                    step = plan.send(reply)
                except StopIteration as end:
                    return cast(T, end.value)
                reply = line.do(step)

    def upload_video(
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

        `progress` is told the bytes that are there, and how many there are in all.
        """
        said = {"title": title, "description": description, "category": category, "priority": priority}
        return self._carry_out(upload_video(self._plans, Path(path), said, progress))

    def video(self, video_id: str) -> Video:
        """A video as the server tells of it now, by its id or slug: its state, its qualities, how far it is."""
        return self._carry_out(self._plans.video(video_id))

    def videos(
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
        return self._carry_out(videos.list_videos(self._plans, limit, filters))

    def wait_ready(self, video_id: str, timeout: float | None = None) -> Video:
        """The video once it can be played; VideoFailedError if it will not, TimeoutError after so many seconds."""
        return self._carry_out(videos.wait_ready(self._plans, video_id, timeout))

    def retry_video(self, video_id: str) -> Video:
        """Try again what failed."""
        return self._carry_out(videos.change_video(self._plans, video_id, "retry"))

    def retranscode_video(
        self,
        video_id: str,
        qualities: Sequence[str] | None = None,
        *,
        transcript: bool = False,
        priority: str = "low",
    ) -> Video:
        """Make qualities anew, or all of them; what is there plays until the new stream is ready."""
        return self._carry_out(
            videos.retranscode_video(self._plans, video_id, qualities, transcript, priority)
        )

    def set_video_priority(self, video_id: str, priority: str) -> Video:
        """How soon what waits of it is claimed: high, normal or low."""
        plan = videos.change_video(self._plans, video_id, "priority", {"priority": priority})
        return self._carry_out(plan)

    def delete_video(self, video_id: str, *, forever: bool = False) -> None:
        """To the trash; `forever`: erase one that is there."""
        self._carry_out(videos.delete_video(self._plans, video_id, forever))

    def restore_video(self, video_id: str) -> Video:
        """Back from the trash."""
        return self._carry_out(videos.change_video(self._plans, video_id, "restore"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Line:
    """Does one step at a time; at most one stream is open."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._open = ExitStack()
        self._chunks: Iterator[bytes] = iter(())

    def do(self, step: Step) -> Reply:
        """What came of it."""
        try:
            match step:
                case Ask():
                    content = None if step.body is None else step.body.pieces()
                    response = self._http.request(**wire.request_of(step), content=content)
                    return wire.answer_of(response, response.content)
                case Listen():
                    return self._listen(step)
                case Hear():
                    return next(self._chunks, None) or Lost("the events broke off")
                case Pause(seconds):
                    time.sleep(seconds)
        except wire.LOST as error:
            return wire.lost(error)
        return None

    def _listen(self, step: Listen) -> Answer:
        self._open.close()
        response = self._open.enter_context(self._http.stream(**wire.request_of_stream(step)))
        answer = wire.answer_of(response)
        if not answer.is_stream:
            return wire.answer_of(response, response.read())
        self._chunks = response.iter_bytes()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

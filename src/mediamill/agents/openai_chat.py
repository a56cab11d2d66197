"""A chat with any OpenAI-compatible endpoint, streamed. It remembers a thread only while somebody holds its session."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any
from weakref import WeakValueDictionary

import httpx

from mediamill.agents.contract import (
    LONGEST_ANSWER_CHARACTERS,
    AgentBusyError,
    AgentNonsenseError,
    AgentNotSetError,
    AgentRefusedError,
    Answer,
    AnswerTooLongError,
    Image,
    Turn,
)
from mediamill.agents.failures import failure_of, one_line, read_reason
from mediamill.agents.fit import BYTES_PER_TOKEN, fit_history
from mediamill.agents.thinking import WithoutThinking
from mediamill.clock import retry_after_seconds
from mediamill.settings import Settings
from mediamill.tls import tls_context

DEFAULT_MODEL = "gpt-4o-mini"
LARGEST_ANSWER_BYTES = 10_000_000
LARGEST_LINE_BYTES = 1_000_000
LONGEST_CONNECT_SECONDS = 10.0
USAGE_SECONDS = 2.0  # so long the number of tokens is waited for once the answer is whole
USAGE_OPTION = "stream_options"
ABOUT_CONTENT = (400, 413, 422)  # what is asked is wrong or too much
MOST_TOKENS = 10**9

OnUsage = Callable[[int], None]


class OpenAiAgent:
    """One endpoint, any number of threads side by side."""

    remembers = False

    def __init__(self, settings: Settings) -> None:
        self._url, self._key = checked_url(settings), checked_key(settings)
        self.where = self._url.netloc.decode("ascii")
        self._model = settings.text_model or DEFAULT_MODEL
        self._seconds = settings.model_timeout_seconds
        self.context_tokens = settings.agent_context_tokens
        self._asks_for_usage = True
        self._sessions: WeakValueDictionary[str, OpenAiSession] = WeakValueDictionary()
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        timeout = httpx.Timeout(self._seconds, connect=min(LONGEST_CONNECT_SECONDS, self._seconds))
        self._client = httpx.AsyncClient(
            headers=headers, timeout=timeout, follow_redirects=False, verify=tls_context()
        )

    def session(self, thread_key: str, history: Sequence[Turn] = (), instructions: str = "") -> OpenAiSession:
        """The session that somebody holds already, else a new one that begins with this history."""
        session = self._sessions.get(thread_key)
        if session is None:
            session = self._sessions[thread_key] = OpenAiSession(self, history)
        session.instructions = instructions
        return session

    async def close(self) -> None:
        """Close the connections; answers under way fail."""
        await self._client.aclose()

    async def complete(self, messages: list[dict[str, Any]], on_usage: OnUsage) -> Answer:
        """The pieces of text that the model writes; then, if it says so, how many tokens that cost."""
        until = asyncio.get_running_loop().time() + self._seconds
        try:
            response = await self._ask(messages, until)
            try:
                async for piece in self._pieces(response, until, on_usage):
                    yield piece
            finally:
                await response.aclose()
        except (TimeoutError, httpx.TimeoutException) as error:
            message = f"{self.where}: no whole answer within {self._seconds:g} seconds"
            raise AgentBusyError(
                message, fix="raise MEDIAMILL_MODEL_TIMEOUT_SECONDS if it needs longer"
            ) from error
        except httpx.TransportError as error:
            message = f"{self.where}: the connection failed ({error or type(error).__name__})"
            raise AgentBusyError(message, fix="is the server of MEDIAMILL_OPENAI_URL up?") from error

    async def _ask(self, messages: list[dict[str, Any]], until: float) -> httpx.Response:
        """An endpoint that does not know the option for usage is asked without it, from then on; one that refuses the
        request is asked without the images of before: its model may be another by now, which sees none.
        """
        body: dict[str, Any] = {"model": self._model, "messages": messages, "stream": True}
        if self._asks_for_usage:
            body[USAGE_OPTION] = {"include_usage": True}
        url = self._url.copy_with(raw_path=self._url.raw_path.rstrip(b"/") + b"/chat/completions")
        async with asyncio.timeout_at(until):
            request = self._client.build_request("POST", url, json=body)
            response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        try:
            failure = await self._failure(response, until)
        finally:
            await response.aclose()
        if self._asks_for_usage and response.status_code in (400, 422) and USAGE_OPTION in str(failure):
            self._asks_for_usage = False
            return await self._ask(messages, until)
        if response.status_code in ABOUT_CONTENT and (fewer := _without_past_images(messages)) != messages:
            return await self._ask(fewer, until)
        raise failure

    async def _failure(self, response: httpx.Response, until: float) -> Exception:
        body = bytearray()
        async for chunk in _chunks(response, until):
            body += chunk
        after = retry_after_seconds(response.headers.get("Retry-After"))
        return failure_of(response.status_code, read_reason(bytes(body), self._key), self.where, after)

    async def _pieces(self, response: httpx.Response, until: float, on_usage: OnUsage) -> AsyncIterator[str]:
        """The texts of the events, until the one that ends the answer."""
        lines = _lines(response, until)
        async for line in lines:
            data = _data_of(line)
            if data == b"[DONE]":
                return
            if not data:
                continue
            piece, ended = self._read_event(data)
            if piece:
                yield piece
            if tokens := _tokens_of(data):
                on_usage(tokens)
            elif ended:
                await _read_usage(lines, on_usage)
            if ended:
                return
        raise AgentBusyError(f"{self.where}: the answer was cut off")

    def _read_event(self, data: bytes) -> tuple[str, bool]:
        """Its text, and whether it ends the answer. A server that does not stream sends one event that is all."""
        try:
            told = json.loads(data)
            if error := told.get("error"):
                raise self._told_error(error)
            choices = told.get("choices") or []
            if not choices:
                return "", False
            choice = choices[0]
            message = choice.get("delta") or choice.get("message") or {}
            said, refusal, reason = (
                message.get("content"),
                message.get("refusal"),
                choice.get("finish_reason"),
            )
        except (ValueError, RecursionError, AttributeError, LookupError, TypeError) as fault:
            raise AgentNonsenseError(f"{self.where}: the answer is not what a chat answers") from fault
        if refusal or reason == "content_filter":
            raise AgentRefusedError(
                f"the model refuses to answer: {one_line(str(refusal or reason), self._key)}"
            )
        return (said if isinstance(said, str) else ""), bool(reason)

    def _told_error(self, error: Any) -> Exception:
        """An error in the midst of a stream; without a status it may pass."""
        details = error if isinstance(error, dict) else {"message": error}
        code = details.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        return failure_of(status, one_line(str(details.get("message") or ""), self._key), self.where)


class OpenAiSession:
    """One thread. A chat cannot be spoken into while it answers, so `steer` is asked in turn, as `follow_up` is.

    It keeps nothing on disk, so a `key` means nothing to it: who asks again after a crash asks the model again. The
    model is shown the images of the question, and of those before it the newest that fit.
    """

    def __init__(self, agent: OpenAiAgent, history: Sequence[Turn]) -> None:
        self._agent, self._history = agent, list(history)
        self._turn = asyncio.Lock()
        self.instructions = ""
        self.tokens = 0

    async def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        key: str | None = None,  # noqa: ARG002
    ) -> Answer:
        """Ask, in turn; the answer is remembered when it is whole."""
        async with self._turn:
            self._history = fit_history(self._history, text, self._agent.context_tokens)
            visible, size = WithoutThinking(), 0
            pieces: list[str] = []
            usage: list[int] = []
            messages = self._messages(text, images)
            async with aclosing(self._agent.complete(messages, usage.append)) as written:
                async for raw in written:
                    size += len(raw)
                    if size > LONGEST_ANSWER_CHARACTERS:
                        raise AnswerTooLongError
                    if piece := visible.take(raw):
                        pieces.append(piece)
                        yield piece
            if rest := visible.rest():
                pieces.append(rest)
                yield rest
            self.tokens += usage[-1] if usage else _estimate_tokens(messages, size)
            if not (said := "".join(pieces).strip()):
                raise AgentNonsenseError(f"{self._agent.where}: the answer is empty")
            self._history += [Turn("user", text, tuple(images)), Turn("assistant", said)]

    follow_up = prompt
    steer = prompt

    def _messages(self, text: str, images: Sequence[Image]) -> list[dict[str, Any]]:
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        turns = [*self._history, Turn("user", text, tuple(images))]
        return [*system, *({"role": turn.role, "content": _content(turn)} for turn in turns)]


def _without_past_images(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    *before, question = messages
    return [
        {
            **each,
            "content": each["content"] if isinstance(each["content"], str) else each["content"][0]["text"],
        }
        for each in before
    ] + [question]


def _content(turn: Turn) -> str | list[dict[str, Any]]:
    if not turn.images:
        return turn.text
    shown = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in turn.images]
    return [{"type": "text", "text": turn.text}, *shown]


def _data_of(line: bytes) -> bytes:
    """What an event says. A server that does not stream sends bare JSON."""
    return line[5:].strip() if line.startswith(b"data:") else line.strip() if line[:1] == b"{" else b""


def _tokens_of(data: bytes) -> int | None:
    """What an event says of usage, if it does."""
    try:
        usage = json.loads(data).get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
    except (ValueError, RecursionError, AttributeError):
        return None
    return total if isinstance(total, int) and 0 < total < MOST_TOKENS else None


async def _read_usage(lines: AsyncIterator[bytes], on_usage: OnUsage) -> None:
    """It comes after the end of the answer, or not at all. Nothing that happens now changes the answer."""
    with suppress(TimeoutError, httpx.HTTPError, AgentNonsenseError):
        async with asyncio.timeout(USAGE_SECONDS):
            async for line in lines:
                data = _data_of(line)
                if tokens := _tokens_of(data):
                    on_usage(tokens)
                if data == b"[DONE]":
                    return


def _estimate_tokens(messages: list[dict[str, Any]], answer_characters: int) -> int:
    """For an endpoint that does not report usage. Images are not counted."""
    asked = 0
    for message in messages:
        content = message["content"]
        asked += len(content if isinstance(content, str) else content[0]["text"])
    return (asked + answer_characters) // BYTES_PER_TOKEN + 1


def data_url(image: Image) -> str:
    """The image inside an address."""
    return f"data:{image.mime_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def checked_url(settings: Settings) -> httpx.URL:
    """The endpoint of the settings. There is no default: conversations go nowhere that nobody named."""
    fix = "set MEDIAMILL_OPENAI_URL, up to and including /v1"
    if not settings.openai_url:
        raise AgentNotSetError("no OpenAI-compatible endpoint is set", fix=fix)
    try:
        url = httpx.URL(settings.openai_url.strip())
    except (httpx.InvalidURL, ValueError) as error:
        raise AgentNotSetError("MEDIAMILL_OPENAI_URL is no address", fix=fix) from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        message = "MEDIAMILL_OPENAI_URL must be http(s)://host/path, without user, password or query"
        raise AgentNotSetError(message, fix=f"{fix}, and the key as MEDIAMILL_OPENAI_KEY")
    return url


def checked_key(settings: Settings) -> str | None:
    """The key of the settings, if it can be one: the HTTP library would print another in its complaint."""
    key = settings.openai_key.get_secret_value().strip() if settings.openai_key else ""
    if not (key.isascii() and key.isprintable()):
        raise AgentNotSetError("MEDIAMILL_OPENAI_KEY has characters that no key has")
    return key or None


async def _chunks(response: httpx.Response, until: float) -> AsyncIterator[bytes]:
    """What comes, bounded in size and time."""
    size = 0
    chunks = response.aiter_bytes()
    while True:
        async with asyncio.timeout_at(until):
            chunk = await anext(chunks, None)
        if chunk is None:
            return
        size += len(chunk)
        if size > LARGEST_ANSWER_BYTES:
            raise AgentNonsenseError(f"the answer is larger than {LARGEST_ANSWER_BYTES} bytes")
        yield chunk


async def _lines(response: httpx.Response, until: float) -> AsyncIterator[bytes]:
    held = b""
    async for chunk in _chunks(response, until):
        *lines, held = (held + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(held) > LARGEST_LINE_BYTES:
            raise AgentNonsenseError(f"the answer has a line of more than {LARGEST_LINE_BYTES} bytes")
    if held:
        yield held

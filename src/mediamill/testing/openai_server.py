"""An OpenAI-compatible server on this machine: chat with images, streamed or not, transcriptions, embeddings."""

from __future__ import annotations

import base64
import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from email import message_from_bytes, policy
from typing import Any

from mediamill.testing.model_server import Act, Handler, ModelServer, Reply, Seen

DESCRIPTION = "A red square on a white ground."
WORDS = "hello from the server"
DIMENSIONS = 8


class OpenAiServer(ModelServer):
    """Its address with `/v1` is what MEDIAMILL_OPENAI_URL wants. `with_times`: it knows verbose_json. `with_schemas`:
    it knows response_format. `with_usage`: it knows stream_options. `say`: what it answers to the messages of a chat.
    """

    def __init__(
        self,
        *,
        with_times: bool = True,
        with_schemas: bool = True,
        with_usage: bool = True,
        states_model: str | None = None,
        say: Callable[[list[Any]], str] = lambda _: DESCRIPTION,
        port: int = 0,
    ) -> None:
        self.with_times, self.states_model, self.say = with_times, states_model, say
        self.with_schemas, self.with_usage = with_schemas, with_usage
        self.tokens = 42  # that each answer costs
        super().__init__(port=port)

    def answer(self, seen: Seen) -> Reply:
        """What the real one would say."""
        match seen.path:
            case "/v1/chat/completions":
                asked = seen.json()
                if "response_format" in asked and not self.with_schemas:
                    return Reply.json({"error": {"message": "unknown field response_format"}}, 400)
                if "stream_options" in asked and not self.with_usage:
                    return Reply.json({"error": {"message": "unknown field stream_options"}}, 400)
                said = self.say(asked["messages"])
                if asked.get("stream"):
                    tokens = self.tokens if "stream_options" in asked else None
                    return Reply(stream_body(said, tokens), headers={"Content-Type": "text/event-stream"})
                message = {"role": "assistant", "content": said}
                told = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                return Reply.json({**told, "model": self.states_model or asked["model"]})
            case "/v1/embeddings":
                return self._embeddings(seen.json())
            case "/v1/audio/transcriptions":
                return self._transcription(seen)
        return Reply.json({"error": {"message": f"no route {seen.path}"}}, 404)

    def _embeddings(self, asked: dict[str, Any]) -> Reply:
        rows = [
            {"index": index, "embedding": [float(len(text)), *[1.0] * (DIMENSIONS - 1)]}
            for index, text in enumerate(asked["input"])
        ]
        return Reply.json({"data": rows[::-1], "model": self.states_model or asked["model"]})

    def _transcription(self, seen: Seen) -> Reply:
        form = read_form(seen)
        seconds = sound_seconds(form["file"])
        if form["response_format"] != b"verbose_json":
            return Reply.json({"text": WORDS})
        if not self.with_times:
            return Reply.json({"error": {"message": "response_format is not supported"}}, 400)
        segments = [{"id": 0, "start": 0.0, "end": seconds, "text": f" {WORDS} "}]
        told = {"task": "transcribe", "language": "english", "duration": seconds, "text": WORDS}
        return Reply.json({**told, "segments": segments})


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One event of a streamed chat."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(told).encode() + b"\n\n"


def usage_chunk(tokens: int) -> bytes:
    """The event after the end of an answer that says what it cost."""
    usage = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "total_tokens": tokens}
    told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return b"data: " + json.dumps({**told, "usage": usage}).encode() + b"\n\n"


def stream_body(text: str, tokens: int | None = None) -> bytes:
    """A whole streamed chat that says this, word by word."""
    words = (chunk({"content": word}) for word in text.splitlines(keepends=True) for word in _words(word))
    return b"".join(
        [
            chunk({"role": "assistant", "content": ""}),
            *words,
            chunk({}, "stop"),
            usage_chunk(tokens) if tokens else b"",
            b"data: [DONE]\n\n",
        ]
    )


def _words(line: str) -> Iterable[str]:
    return (word for word in line.replace(" ", " \0").split("\0") if word)


def _begin_stream(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.close_connection = True


def held_stream(before: str, after: str, go_on: threading.Event) -> Act:
    """Says the first part, and the rest only when it may."""

    def act(handler: Handler) -> None:
        server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
        _begin_stream(handler)
        handler.wfile.write(chunk({"role": "assistant", "content": before}))
        handler.wfile.flush()
        while not go_on.wait(0.02) and not server.closed.is_set():
            pass
        handler.wfile.write(chunk({"content": after}) + chunk({}, "stop") + b"data: [DONE]\n\n")

    return act


def cut_stream(before: str, *, reset: bool = False) -> Act:
    """Says the first part, and is gone."""

    def act(handler: Handler) -> None:
        _begin_stream(handler)
        handler.wfile.write(chunk({"role": "assistant", "content": before}))
        handler.wfile.flush()
        if reset:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()

    return act


def endless_stream(piece: str = "word " * 200) -> Act:
    """An answer that never ends."""

    def act(handler: Handler) -> None:
        server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
        _begin_stream(handler)
        while not server.closed.is_set():
            handler.wfile.write(chunk({"content": piece}))

    return act


def tool_call(name: str, arguments: dict[str, Any]) -> Act:
    """The model wants a tool to be run."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}

    def act(handler: Handler) -> None:
        _begin_stream(handler)
        handler.wfile.write(chunk({"role": "assistant", "content": None, "tool_calls": [call]}))
        handler.wfile.write(chunk({}, "tool_calls") + b"data: [DONE]\n\n")

    return act


def images_in(content: str | list[Any]) -> list[bytes]:
    """The images in the content of a message, in their order."""
    if isinstance(content, str):
        return []
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2], validate=True) for url in urls]


def refusing_images(server: OpenAiServer, bad: bytes) -> Act:
    """Refuses every conversation that has this image anywhere, as models do that cannot read it."""

    def act(handler: Handler) -> None:
        seen = server.seen[-1]
        shown = [image for message in seen.json()["messages"] for image in images_in(message["content"])]
        if bad in shown:
            handler.reply(Reply.json({"error": {"message": "cannot read the image"}}, 400))
        else:
            handler.reply(server.answer(seen))

    return act


def read_form(seen: Seen) -> dict[str, bytes]:
    """The fields of a multipart form; `file.name` and `file.type` tell about the file."""
    head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
    fields: dict[str, bytes] = {}
    for part in message_from_bytes(head + seen.body, policy=policy.HTTP).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        fields[name] = content if isinstance(content, bytes) else b""
        if part.get_filename():
            fields[f"{name}.name"] = str(part.get_filename()).encode()
            fields[f"{name}.type"] = part.get_content_type().encode()
    return fields


def sound_seconds(content: bytes) -> float:
    """How long a sound file is, by decoding it."""
    import av

    seconds = 0.0
    with av.open(io.BytesIO(content), "r") as container:
        for frame in container.decode(audio=0):
            seconds += frame.samples / frame.sample_rate
    return seconds


def image_size(data_url: str) -> tuple[int, int]:
    """Width and height of the image in a data URL, by decoding it."""
    import pyvips

    head, _, content = data_url.partition(",")
    if head != "data:image/jpeg;base64":
        raise ValueError(f"not a JPEG as data URL: {head}")
    image = pyvips.Image.new_from_buffer(base64.b64decode(content, validate=True), "", fail_on="warning")
    image.avg()  # every pixel is read
    return image.width, image.height

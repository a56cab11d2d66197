"""What the OpenAI-compatible adapters share: the endpoint and its chat completions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mediamill.processors.models.endpoint import Answer, Endpoint, NonsenseError, RefusedError
from mediamill.processors.models.servers import openai_door

if TYPE_CHECKING:
    from mediamill.settings import Settings

LONGEST_TEXT_CHARACTERS = 100_000
THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
UNKNOWN_FORMAT = frozenset({400, 404, 415, 422})  # what servers say that do not know `response_format`
AS_JSON = "\n\nAnswer with one JSON object of this JSON schema, and nothing else:\n"


def openai_endpoint(settings: Settings, model_setting: str) -> Endpoint:
    """The server of the settings."""
    return Endpoint(openai_door(settings, model_setting), settings.model_timeout_seconds)


def chat(endpoint: Endpoint, model: str, instructions: str, content: Any) -> tuple[str, str]:
    """The text that the model writes, and the model's id. `content`: a text, or parts with images."""
    messages = [{"role": "system", "content": instructions}, {"role": "user", "content": content}]

    def read(answer: Answer) -> tuple[str, str]:
        told = answer.json()
        return chat_text(told), endpoint.stated_id(told, model)

    return endpoint.ask(
        "POST", "/chat/completions", read, json={"model": model, "messages": messages, "stream": False}
    )


def chat_object(
    endpoint: Endpoint, model: str, instructions: str, text: str, schema: Mapping[str, Any] | None
) -> tuple[dict[str, Any], str]:
    """The JSON object that the model writes, and the model's id. `schema`: the server holds the model to it."""
    messages = [{"role": "system", "content": instructions}, {"role": "user", "content": text}]
    asked: dict[str, Any] = {"model": model, "messages": messages, "stream": False}
    if schema is not None:
        wanted = {"name": "answer", "strict": True, "schema": schema}
        asked["response_format"] = {"type": "json_schema", "json_schema": wanted}

    def read(answer: Answer) -> tuple[dict[str, Any], str]:
        told = answer.json()
        return object_in(chat_text(told)), endpoint.stated_id(told, model)

    return endpoint.ask("POST", "/chat/completions", read, json=asked)


def object_in(text: str) -> dict[str, Any]:
    """The first JSON object of a text; models like to put words and fences around it."""
    start = text.find("{")
    if start >= 0:
        try:
            told, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict):
            return told
    raise NonsenseError("the answer is not a JSON object")


def chat_text(told: dict[str, Any]) -> str:
    """The text of a completion; a refusal is final."""
    try:
        choice = told["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        said = message.get("content")
        refusal = message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NonsenseError("the answer has no message") from error
    if refusal or reason == "content_filter":
        raise RefusedError(f"the model refuses to answer: {str(refusal or reason)[:300]}")
    if isinstance(said, list):  # some servers answer in parts
        said = "".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
    if not isinstance(said, str):
        raise NonsenseError("the answer has no text")
    text = THINKING.sub("", said[:LONGEST_TEXT_CHARACTERS]).strip()
    if not text:
        raise NonsenseError("the answer is empty")
    return text

"""What a failure of a model server means, whoever talks to it: an error that says what to do."""

from __future__ import annotations

import json

from mediamill.agents.contract import AgentBusyError, AgentRefusedError
from mediamill.errors import MediamillError

AGAIN = frozenset({408, 409, 425, 429})
TOO_LONG = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "maximum context",
    "too many tokens",
)
# As llama.cpp (with status 500), vLLM and others say it of a model that has no eyes.
CANNOT_SEE = ("image input", 'type: "image_url"', "not a multimodal model", "support image", "supports image")
URL, KEY, MODEL = "MEDIAMILL_OPENAI_URL", "MEDIAMILL_OPENAI_KEY", "MEDIAMILL_TEXT_MODEL"


def failure_of(status: int, said: str, where: str, after_seconds: float | None = None) -> MediamillError:
    """The error for an answer with this status; `said` is the server's own words, short and without our key."""
    reason = f": {said}" if said else ""
    if status == 429:
        told = f" for {after_seconds:.0f} more seconds" if after_seconds is not None else ""
        return AgentBusyError(f"{where}: too many requests (429){told}", after_seconds=after_seconds)
    if any(hint in said.lower() for hint in CANNOT_SEE):
        fix = f"set {MODEL} to a model that sees, or send no images"
        return AgentRefusedError(f"{where}: the model takes no images ({status}){reason}", fix=fix)
    if status >= 500 or status in AGAIN:
        return AgentBusyError(f"{where}: the server failed ({status}){reason}", after_seconds=after_seconds)
    if status in (401, 403):  # their own words may repeat the key
        return AgentRefusedError(f"{where} refuses us ({status})", fix=f"check {KEY}")
    if 300 <= status < 400:
        return AgentRefusedError(
            f"{where} sends us elsewhere ({status})", fix=f"set {URL} to the final address"
        )
    if any(hint in said.lower() for hint in TOO_LONG):
        fix = "set MEDIAMILL_AGENT_CONTEXT_TOKENS to what the model can hold, or send less"
        return AgentRefusedError(f"{where}: the conversation is too long for the model{reason}", fix=fix)
    fix = f"check {URL} and {MODEL}"
    return AgentRefusedError(f"{where} refuses the request ({status}){reason}", fix=fix)


def read_reason(body: bytes, key: str | None) -> str:
    """What the server says about an error, short, on one line, without our key."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = told.get("error", told) if isinstance(told, dict) else told
    said = error.get("message") if isinstance(error, dict) else error
    return one_line(str(said or ""), key)


def one_line(text: str, key: str | None) -> str:
    """Short, on one line, without our key."""
    line = " ".join(text.split())
    return (line.replace(key, "…") if key else line)[:300]

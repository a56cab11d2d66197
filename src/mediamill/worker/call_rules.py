"""Which calls a caller makes for a process that decodes, and what it tells of the answers.

Whoever asks may have been taken over by a stranger's file. So the scheme, host, port and key of a call are those of
the settings, never those of the request; of the request, only a path beneath the configured one is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import httpx
import msgspec

from mediamill.processors.models.calls import PLACEHOLDER, Call, CallFailed, Headers, ModelServer, Outcome

LONGEST_URL = 8192
SHORTEST_SECRET = 16  # what is shorter is a word (`ollama`, `none`), and replacing it would garble answers
_URL = re.compile(
    r"https?://[A-Za-z0-9.:_\[\]-]+"
    r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*)"
    r"(?P<query>\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)
_ESCAPE = re.compile(r"%(.{0,2})")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
# About the connection, or about another address than the one that was checked.
_DROPPED = frozenset(
    (
        *(
            "host",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "content-length",
            "upgrade",
        ),
        *("expect", "forwarded", "x-real-ip", "x-http-method-override", "x-original-url", "x-rewrite-url"),
    )
)
_DROPPED_PREFIXES = ("proxy-", "x-forwarded-")


class CallRules:
    """Made of the configured servers."""

    def __init__(self, servers: Iterable[ModelServer]) -> None:
        self._servers = [(server, httpx.URL(server.url)) for server in servers]

    def apply(self, call: Call) -> tuple[Call, ModelServer] | CallFailed:
        """The call as it is to be made, and the server that it goes to."""
        found = self._find(call)
        if found is None:
            return CallFailed("forbidden", "the address is not beneath that of a configured model server")
        if not all(
            _HEADER.fullmatch(name) and value.isascii() and value.isprintable()
            for name, value in call.headers
        ):
            return CallFailed("forbidden", "a header has characters that no header has")
        server, url = found
        return msgspec.structs.replace(call, url=str(url), headers=_headers(call.headers, server)), server

    def _find(self, call: Call) -> tuple[ModelServer, httpx.URL] | None:
        parsed = _parse(call.url)
        if parsed is None:
            return None
        asked, path, query = parsed
        names = {name.lower() for name, _ in call.headers}
        fitting = [
            # The longest path; of two servers at one address, the one whose key the request would carry.
            ((len(_prefix(url)), server.key_header.lower() in names), server, url)
            for server, url in self._servers
            if _origin(url) == _origin(asked)
            and (path == _prefix(url) or path.startswith(_prefix(url) + "/"))
        ]
        if not fitting:
            return None
        _, server, url = max(fitting, key=lambda each: each[0])
        return server, url.copy_with(raw_path=((path or "/") + query).encode("ascii"))


def _parse(text: str) -> tuple[httpx.URL, str, str] | None:
    """The address with its path and query, if all agree on what it means; no dots, no escaped slashes."""
    matched = _URL.fullmatch(text) if len(text) <= LONGEST_URL else None
    if matched is None:
        return None
    path, query = matched["path"], matched["query"] or ""
    segments = path.split("/")[1:]
    if "" in segments[:-1] or any(each.partition(";")[0] in (".", "..") for each in segments):
        return None
    if not all(_is_harmless(escaped) for escaped in _ESCAPE.findall(path)):
        return None
    try:
        return httpx.URL(text), path, query
    except (httpx.InvalidURL, ValueError):
        return None


def _is_harmless(escaped: str) -> bool:
    if not re.fullmatch("[0-9A-Fa-f]{2}", escaped):
        return False
    byte = int(escaped, 16)
    return byte > 0x20 and byte != 0x7F and chr(byte) not in "./\\%;"


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port  # in lower case, IDNA decoded, None for the scheme's own port


def _prefix(url: httpx.URL) -> str:
    return url.raw_path.decode("ascii").rstrip("/")


def _headers(asked: Headers, server: ModelServer) -> Headers:
    key_header = server.key_header.lower()
    kept = [
        (name, value)
        for name, value in asked
        if (lower := name.lower()) not in _DROPPED
        and not lower.startswith(_DROPPED_PREFIXES)
        and lower != key_header
    ]
    if server.key:
        kept.append((server.key_header, f"{server.key_prefix}{server.key}"))
    return kept


def hide_key(outcome: Outcome, key: str) -> Outcome:
    """The same with a placeholder for the key: servers repeat it in complaints and addresses."""
    if len(key) < SHORTEST_SECRET:
        return outcome
    if isinstance(outcome, CallFailed):
        return msgspec.structs.replace(outcome, text=outcome.text.replace(key, PLACEHOLDER))
    headers = [(name, value.replace(key, PLACEHOLDER)) for name, value in outcome.headers]
    body = outcome.body.replace(key.encode("ascii"), PLACEHOLDER.encode("ascii"))
    return msgspec.structs.replace(outcome, headers=headers, body=body)

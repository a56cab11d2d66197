"""Scripts and styles. Their addresses change with their content, so that a browser asks once for each version."""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs

import starlette.staticfiles
from starlette.responses import Response
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
FOREVER = f"private, max-age={365 * 86_400}, immutable"


def static_address(name: str) -> str:
    """Where pages find this file, as it is now."""
    path = STATIC / name
    try:
        return f"/static/{name}?v={_version(path, path.stat())}"
    except FileNotFoundError:  # a browser library that was not fetched
        return f"/static/{name}"


def _version(path: Path, facts: os.stat_result) -> str:
    return _digest(path, facts.st_mtime_ns, facts.st_size)


@lru_cache
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    return sha256(path.read_bytes()).hexdigest()[:12]


class StaticFiles(starlette.staticfiles.StaticFiles):
    """Under the address of another version, as that of a server that was upgraded before this one, nothing is kept."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        wanted = parse_qs(scope["query_string"].decode("latin-1")).get("v")
        if wanted == [_version(Path(full_path), stat_result)]:
            answer.headers["Cache-Control"] = FOREVER
        return answer

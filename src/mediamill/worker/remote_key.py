"""Which server a remote worker works for, and by which key: given, stored by an earlier start, or asked for now."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from mediamill.errors import InvalidError
from mediamill.worker.away import RefusedError
from mediamill.worker.home import WorkerPlan
from mediamill.worker.server_link import NotMediamillError, ServerLink, check_url

FILE = "remote_worker.json"


class NoWorkerKeyError(InvalidError):
    """A remote worker needs a server and a key."""

    code = "no_worker_key"


@dataclass(frozen=True, slots=True)
class RemoteKey:
    """A server's address and the key that is known there."""

    server: str
    key: str


def find_key(data_folder: Path, server: str | None, key: SecretStr | None) -> RemoteKey | None:
    """As given, completed by what is stored; None: nothing says that this worker is remote."""
    stored = _read(data_folder / FILE)
    if server is None and key is None:
        return stored
    if server is None:
        if stored is None:
            raise NoWorkerKeyError("there is a worker key, but no server", fix="add --server URL")
        server = stored.server
    url = check_url(server)
    if key is not None:
        return RemoteKey(url, key.get_secret_value())
    if stored is None or stored.server != url:
        raise NoWorkerKeyError(
            f"there is no key for {url}",
            fix="set MEDIAMILL_WORKER_KEY to what `mediamill workers register NAME` showed on the server, or add "
            "--register with a token of the scope worker in MEDIAMILL_TOKEN",
        )
    return stored


async def register_worker(
    server: str, secret: SecretStr | None, token: SecretStr | None, plan: WorkerPlan
) -> RemoteKey:
    """Ask the server for a key, with its admin secret or a token."""
    if secret is None and token is None:
        raise NoWorkerKeyError(
            "registering needs the admin secret of the server, or a token with the scope worker",
            fix="on the server: mediamill tokens create NAME --scope worker; set MEDIAMILL_TOKEN to what it prints",
        )
    link = ServerLink(server, token.get_secret_value() if token else "")
    word: dict[str, Any] = {"name": plan.name, "pools": list(plan.pools), "capabilities": plan.capabilities}
    headers = {"X-Admin-Secret": secret.get_secret_value()} if secret else {}
    try:
        answer = await link.ask("POST", "/api/worker/register", json=word, headers=headers)
    except NotMediamillError as error:
        raise RefusedError(error.message, fix=error.fix) from error
    finally:
        await link.close()
    return RemoteKey(link.url, answer["key"])


def store_key(data_folder: Path, key: RemoteKey) -> Path:
    """For the next start, readable by nobody else; whole or not at all."""
    data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = data_folder / FILE
    part = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(key), file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return path


def _read(path: Path) -> RemoteKey | None:
    with contextlib.suppress(FileNotFoundError):
        try:
            return RemoteKey(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise NoWorkerKeyError(f"{path} cannot be read: {error}", fix="delete it") from error
    return None

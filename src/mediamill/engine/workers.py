"""Workers: registration, keys, heartbeats, commands."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.model import Command, WorkerState
from mediamill.errors import DeniedError, InvalidError, NotFoundError
from mediamill.logs import tell

log = logging.getLogger(__name__)

DESCRIPTION_LIMIT_BYTES = 10 * 1024
PREFIX_CHARACTERS = 8


class UnknownWorkerError(NotFoundError):
    """There is no such worker."""

    code = "unknown_worker"


class WorkerKeyInvalidError(DeniedError):
    """The worker key is not valid."""

    code = "worker_key_invalid"


class WorkerKeyRevokedError(DeniedError):
    """The worker key was revoked."""

    code = "worker_key_revoked"


class WorkerReplacedError(DeniedError):
    """Another process works with this worker's key now."""

    code = "worker_replaced"


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a heartbeat."""

    command: Command | None
    state: WorkerState


async def register_worker(
    connection: Connection,
    *,
    name: str,
    type_: str = "local",
    pools: Sequence[str] = (),
    capabilities: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """A new worker; its id."""
    local = type_ == "local"
    return int(
        await store.workers.insert_worker.value(
            connection,
            name=name,
            type=type_,
            hostname=socket.gethostname() if local else None,
            process=process_key() if local else None,
            pools=list(pools),
            capabilities=_description("capabilities", capabilities or {}),
            metadata=_description("metadata", metadata or {}),
        )
    )


async def issue_key(connection: Connection, worker_id: int) -> str:
    """A 256-bit key for a worker. Shown once: only its hash and a prefix for look-up are kept."""
    key = secrets.token_urlsafe(32)
    await store.workers.insert_key.run(
        connection,
        prefix=key[:PREFIX_CHARACTERS],
        hash=hashlib.sha256(key.encode()).digest(),
        worker_id=worker_id,
    )
    return key


async def greet_worker(
    connection: Connection,
    worker_id: int,
    *,
    instance: str,
    hostname: str | None,
    capabilities: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """A remote worker starts, as this process; its name and its pools."""
    row = await store.workers.greet_worker.row(
        connection,
        worker_id=worker_id,
        process=instance,
        hostname=hostname,
        capabilities=_description("capabilities", capabilities),
        metadata=_description("metadata", metadata),
    )
    if row is None:
        raise UnknownWorkerError(f"there is no remote worker {worker_id}", fix="register it")
    return dict(row)


async def worker_of_key(connection: Connection, key: str, instance: str | None = None) -> int:
    """Whose key this is; refused if it is wrong, revoked, or in another process's hands.

    A disabled worker finishes what it holds; no claim gives it more.
    """
    if not key.isascii() or "\0" in key:
        raise WorkerKeyInvalidError(fix="check MEDIAMILL_WORKER_KEY, or register the worker again")
    given = hashlib.sha256(key.encode()).digest()
    rows = await store.workers.find_keys.rows(connection, prefix=key[:PREFIX_CHARACTERS])
    for row in rows:
        if hmac.compare_digest(row["hash"], given):
            if row["revoked_at"] is not None:
                raise WorkerKeyRevokedError(fix="register the worker again to get a new key")
            check_instance(dict(row), instance)
            return int(row["worker_id"])
    raise WorkerKeyInvalidError(fix="check MEDIAMILL_WORKER_KEY, or register the worker again")


def check_instance(worker: Mapping[str, Any], instance: str | None) -> None:
    """A key speaks for the process that was greeted last."""
    if instance is not None and worker["process"] not in (None, instance):
        raise WorkerReplacedError(
            f"another process works as {worker['name']} now", fix="give each worker a key of its own"
        )


async def revoke_keys(connection: Connection, worker_id: int) -> int:
    """No key of this worker works any more. How many did."""
    return await store.workers.revoke_keys.run(connection, worker_id=worker_id)


async def take_session_lock(connection: Connection, worker_id: int) -> None:
    """The sign that this worker lives, for as long as this session does."""
    await store.workers.take_session_lock.value(
        connection, lock_class=store.WORKER_LOCKS, worker_id=worker_id
    )
    await store.workers.come_back.run(connection, worker_id=worker_id)


async def heartbeat(
    connection: Connection,
    worker_id: int,
    *,
    state: WorkerState,
    current_job_id: int | None = None,
    stats: Mapping[str, Any] | None = None,
    hostname: str | None = None,
) -> Heard:
    """A sign of life; the answer carries a command, once."""
    row = await store.workers.heartbeat.row(
        connection,
        worker_id=worker_id,
        state=state.value,
        current_job_id=current_job_id,
        stats=json.dumps(dict(stats or {})),
        hostname=hostname,
    )
    if row is None:
        raise UnknownWorkerError(f"there is no worker {worker_id}", fix="register it")
    if row["was"] != row["state"]:
        await tell_worker(connection, worker_id, row["name"], row["state"])
        if row["was"] == WorkerState.OFFLINE:
            tell(log, "worker_recovered", worker=row["name"], worker_id=worker_id)
    return Heard(Command(row["command"]) if row["command"] else None, WorkerState(row["state"]))


async def set_state(connection: Connection, worker_id: int, name: str, state: WorkerState) -> None:
    """A worker says what it is now (offline as it leaves)."""
    await store.workers.set_state.value(connection, worker_id=worker_id, state=state.value)
    await tell_worker(connection, worker_id, name, state)


async def tell_worker(connection: Connection, worker_id: int, name: str, state: str) -> None:
    """A live event about a worker."""
    data = json.dumps({"id": worker_id, "name": name, "state": str(state)})
    await store.workers.tell.run(connection, topic="worker.status", subject=str(worker_id), data=data)


async def find_worker(connection: Connection, who: str) -> int:
    """By id or name."""
    found = await store.workers.find_worker.value(connection, who=who)
    if found is None:
        raise UnknownWorkerError(f"there is no worker {who}", fix="mediamill workers list shows them")
    return int(found)


async def show_worker(connection: Connection, worker_id: int) -> dict[str, Any]:
    """What a claim on a worker's behalf needs to know of it."""
    row = await store.workers.show_worker.row(connection, worker_id=worker_id)
    if row is None:
        raise UnknownWorkerError(f"there is no worker {worker_id}", fix="register it")
    return dict(row)


async def give_command(connection: Connection, worker_id: int, command: Command) -> None:
    """Tell a worker something; it hears at once, or with its next heartbeat."""
    if await store.workers.give_command.value(connection, worker_id=worker_id, command=command.value) is None:
        raise UnknownWorkerError(f"there is no worker {worker_id}")


async def disable_worker(connection: Connection, worker_id: int) -> None:
    """It finishes what it holds, and gets no jobs any more."""
    row = await store.workers.disable_worker.row(connection, worker_id=worker_id)
    if row is None:
        raise UnknownWorkerError(f"there is no worker {worker_id}")
    await tell_worker(connection, worker_id, row["name"], WorkerState.DISABLED)


async def enable_worker(connection: Connection, worker_id: int) -> None:
    """It may have jobs again, from its next heartbeat on."""
    await store.workers.enable_worker.row(connection, worker_id=worker_id)


async def list_workers(connection: Connection, *, all_: bool = False) -> list[dict[str, Any]]:
    """Workers; those gone for more than an hour only on request."""
    return [store.plain(row) for row in await store.workers.list_workers.rows(connection, all=all_)]


def _description(what: str, value: Mapping[str, Any]) -> str:
    text = json.dumps(dict(value))
    if len(text.encode()) > DESCRIPTION_LIMIT_BYTES:
        raise InvalidError(
            f"{what} may have {DESCRIPTION_LIMIT_BYTES} bytes as JSON, this has {len(text.encode())}"
        )
    return text


def process_key(pid: int | None = None) -> str:
    """Which process, on which machine, since when: enough to know later, on that machine, that it is gone."""
    pid = pid or os.getpid()
    return f"{machine_key()}/{pid}/{_start_ticks(pid)}"


def machine_key() -> str:
    """This boot of this machine, and this space of process ids (a container has its own)."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return socket.gethostname()
    return f"{boot.read_text().strip()}:{Path('/proc/self/ns/pid').stat().st_ino}"


def is_process_dead(process: str) -> bool:
    """Known dead: it ran on this machine, and is not there any more. Elsewhere nothing is known: False."""
    machine, pid, ticks = process.rsplit("/", 2)
    return machine == machine_key() and _start_ticks(int(pid)) != ticks


def _start_ticks(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return "gone"
    return "gone" if fields[0] in "ZX" else fields[19]

"""Commands that change what others rely on are noted in the audit log, as their routes are.

Of a command line only the word after the command is kept (the pool, the user, the bot): others may be secrets.
"""

from __future__ import annotations

import getpass
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mediamill.access.model import EVERYTHING, Caller

if TYPE_CHECKING:
    from mediamill.db.connection import Database

ACTIONS = {
    "users add": "user.add",
    "users password": "user.change",
    "users scopes": "user.change",
    "users disable": "user.change",
    "users enable": "user.change",
    "users reset-second-factor": "user.change",
    "users remove": "user.remove",
    "tokens create": "token.create",
    "tokens revoke": "token.revoke",
    "workers register": "worker.register",
    "workers pause": "worker.command",
    "workers resume": "worker.command",
    "workers shutdown": "worker.command",
    "workers dump": "worker.command",
    "workers disable": "worker.disable",
    "workers enable": "worker.enable",
    "workers revoke": "worker.revoke",
    "pools set": "pool.change",
    "pools drop": "pool.remove",
    "config set": "configuration.change",
    "config unset": "configuration.change",
    "owners hold": "owner.hold",
    "owners release": "owner.release",
    "jobs retry": "job.retry",
    "jobs purge": "job.purge",
    "dead requeue": "dead.requeue",
    "dead purge": "dead.purge",
    "bots create": "bot.add",
    "bots set": "bot.change",
    "bots start": "bot.start",
    "bots stop": "bot.stop",
    "bots delete": "bot.remove",
    "bots pair": "bot.sender",
    "bots allow": "bot.sender",
    "bots block": "bot.sender",
    "bots revoke": "bot.sender",
    "videos delete": "video.delete",
    "videos restore": "video.restore",
    "videos erase": "video.erase",
    "videos empty-trash": "video.erase",
    "library add": "library.add",
    "library edit": "library.change",
    "library tagger": "library.change",
    "library remove": "library.delete",
    "library restore": "library.restore",
    "trash empty": "trash.empty",
    "storage move": "storage.move",
    "intake create": "project.add",
    "intake edit": "project.change",
    "intake fields": "project.change",
    "intake delete": "project.delete",
    "intake remove": "file.delete",
}

_arguments: ContextVar[Sequence[str]] = ContextVar("arguments", default=())


def note_arguments(arguments: Sequence[str]) -> None:
    """The command line that is being run."""
    _arguments.set(arguments)


def whoever_is_here() -> Caller:
    """The user of this machine who typed the command."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "somebody"
    return Caller("command", name, EVERYTHING)


def action_of(arguments: Sequence[str]) -> tuple[str, str] | None:
    """What a command line is called in the audit log, and what it is about; None if it is not noted."""
    words = [word for word in arguments if word != "--debug"]
    action = ACTIONS.get(" ".join(words[:2]))
    if action is None:
        return None
    subject = words[2] if len(words) > 2 and not words[2].startswith("-") else ""
    verb = f" ({words[1]})" if action in ("worker.command", "user.change") else ""
    return action, f"{subject}{verb}".strip()


@asynccontextmanager
async def noted(database: Database) -> AsyncIterator[None]:
    """What this command does is in the log before it is done, and how it went afterwards."""
    found = action_of(_arguments.get())
    if found is None:
        yield
        return
    from mediamill.access.audit import Entry

    entry = Entry(*found)
    async with database.connection() as connection:
        await entry.begin(connection, whoever_is_here(), platform.node() or "localhost")
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        async with database.connection() as connection:
            await entry.end(connection, outcome)

"""Users: people with a name, scopes and a way to log in with a browser."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mediamill.access.model import Scope, in_order
from mediamill.access.passwords import check_password, hash_password, is_password
from mediamill.access.second_factor import remove_factor
from mediamill.access.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import ConflictError, InvalidError, NotFoundError

DEFAULT_SCOPES = (Scope.READ, Scope.INGEST)
_NAME = re.compile(r"[\w.@+-]{1,64}")


class UnknownUserError(NotFoundError):
    """There is no such user."""

    code = "unknown_user"


class UserExistsError(ConflictError):
    """There is a user of that name."""

    code = "user_exists"


class BadNameError(InvalidError):
    """A user's name has letters, digits and . _ @ + - only, up to 64 of them."""

    code = "bad_user_name"


class BadScopesError(InvalidError):
    """There is no such scope."""

    code = "bad_scopes"


def is_name(text: str) -> bool:
    """Whether a user can be called so."""
    return _NAME.fullmatch(text) is not None


def check_scopes(scopes: Iterable[str]) -> list[Scope]:
    """Known ones, each once; at least one."""
    given = list(scopes)
    unknown = sorted(set(given) - set(Scope))
    if unknown or not given:
        raise BadScopesError(
            f"there is no scope {', '.join(unknown)}" if unknown else "no scope was given",
            fix=f"choose from {', '.join(Scope)}",
        )
    return in_order(given)


async def add_user(connection: Connection, name: str, password: str, scopes: Iterable[str]) -> int:
    """A new user; names differ in more than case."""
    if not is_name(name):
        raise BadNameError
    chosen = check_scopes(scopes)
    await check_password(password, name)
    kept = await hash_password(password)
    user_id = await queries.insert_user.value(connection, name=name, password_hash=kept, scopes=chosen)
    if user_id is None:
        raise UserExistsError(f"there is a user {name} already", fix="choose another name")
    return int(user_id)


async def find_user(connection: Connection, name: str) -> dict[str, Any]:
    """By name, whatever its case."""
    row = await queries.find_user.row(connection, name=name)
    if row is None:
        raise UnknownUserError(f"there is no user {name}", fix="mediamill users list shows them")
    return dict(row)


async def show_user(connection: Connection, user_id: int) -> dict[str, Any] | None:
    """By id, if they are still there and not disabled."""
    row = await queries.show_user.row(connection, user_id=user_id)
    return dict(row) if row and row["disabled_at"] is None else None


async def list_users(connection: Connection) -> list[dict[str, Any]]:
    """All of them, by name."""
    return [dict(row) for row in await queries.list_users.rows(connection)]


async def check_login(connection: Connection, name: str, password: str) -> dict[str, Any] | None:
    """The user, if the password is theirs and they are not disabled; who is unknown is answered as late as who is."""
    return await check_found(await look_up(connection, name), password)


async def look_up(connection: Connection, name: str) -> dict[str, Any] | None:
    """The user of that name, if there is one."""
    row = await queries.find_user.row(connection, name=name)
    return dict(row) if row else None


async def check_found(user: dict[str, Any] | None, password: str) -> dict[str, Any] | None:
    """The second half of a login: slow on purpose, so no connection should be held meanwhile."""
    right = await is_password(password, user["password_hash"] if user else None)
    return user if user and right and user["disabled_at"] is None else None


async def set_password(connection: Connection, name: str, password: str) -> None:
    """Another password; every session that the old one opened is over."""
    user = await find_user(connection, name)
    await check_password(password, user["name"])
    kept = await hash_password(password)
    await queries.set_password.row(connection, user_id=user["id"], password_hash=kept)
    await queries.close_sessions.run(connection, user_id=user["id"], but=None)


async def set_scopes(connection: Connection, name: str, scopes: Iterable[str]) -> list[Scope]:
    """What they may do from now on; also with the tokens that they made."""
    user, chosen = await find_user(connection, name), check_scopes(scopes)
    await queries.set_scopes.row(connection, user_id=user["id"], scopes=chosen)
    return chosen


async def disable_user(connection: Connection, name: str) -> None:
    """They cannot log in, their sessions are over, and tokens that they made do not work."""
    user = await find_user(connection, name)
    await queries.disable_user.row(connection, user_id=user["id"])
    await queries.close_sessions.run(connection, user_id=user["id"], but=None)


async def enable_user(connection: Connection, name: str) -> None:
    """They can log in again, and tokens that they made work again."""
    user = await find_user(connection, name)
    await queries.enable_user.row(connection, user_id=user["id"])


async def reset_second_factor(connection: Connection, name: str) -> None:
    """Whoever lost their phone logs in with the password alone: no app, no recovery codes, no passkeys, no session."""
    user = await find_user(connection, name)
    await remove_factor(connection, user["id"])
    await queries.remove_passkeys.run(connection, user_id=user["id"])
    await queries.close_sessions.run(connection, user_id=user["id"], but=None)


async def remove_user(connection: Connection, name: str) -> None:
    """They are gone, with their sessions and the tokens that they made."""
    user = await find_user(connection, name)
    await queries.remove_user.row(connection, user_id=user["id"])

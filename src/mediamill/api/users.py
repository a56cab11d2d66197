"""Users over HTTP: list, add, change, remove; and who asks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mediamill.access import users
from mediamill.access.audit import tell_subject
from mediamill.access.model import Scope, current_caller, in_order
from mediamill.api.deps import Wired

router = APIRouter(tags=["access"])

Name = Annotated[str, Path(max_length=64)]


class UserIn(BaseModel):
    """A new user."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=64)
    password: SecretStr = Field(max_length=1000)
    scopes: list[Scope] = Field(default_factory=lambda: list(users.DEFAULT_SCOPES))


class UserChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    password: SecretStr | None = Field(default=None, max_length=1000)
    scopes: list[Scope] | None = None
    disabled: bool | None = None


@router.get("/api/whoami")
async def who_asks() -> dict[str, Any]:
    """By what you are known here, and what you may do."""
    caller = current_caller()
    assert caller is not None
    return {"kind": caller.kind, "name": caller.name, "scopes": in_order(caller.scopes)}


@router.get("/api/users")
async def list_users(deps: Wired) -> dict[str, Any]:
    """All of them."""
    async with deps.database.connection() as connection:
        return {"users": await users.list_users(connection)}


@router.post("/api/users", status_code=201)
async def add_user(deps: Wired, given: UserIn) -> dict[str, Any]:
    """Somebody who can log in."""
    tell_subject(given.name)
    async with deps.database.transaction() as connection:
        user_id = await users.add_user(
            connection, given.name, given.password.get_secret_value(), given.scopes
        )
    return {"id": user_id, "name": given.name, "scopes": in_order(given.scopes)}


@router.patch("/api/users/{name}")
async def change_user(deps: Wired, name: Name, given: UserChange) -> dict[str, Any]:
    """Another password, which ends their sessions; other scopes; disabled or not."""
    changed = in_words(given)
    tell_subject(f"{name}: {changed}" if changed else name)
    async with deps.database.transaction() as connection:
        if given.password is not None:
            await users.set_password(connection, name, given.password.get_secret_value())
        if given.scopes is not None:
            await users.set_scopes(connection, name, given.scopes)
        if given.disabled is not None:
            await (users.disable_user if given.disabled else users.enable_user)(connection, name)
        user = await users.find_user(connection, name)
    return {
        "name": user["name"],
        "scopes": in_order(user["scopes"]),
        "disabled": user["disabled_at"] is not None,
    }


def in_words(given: UserChange) -> str:
    """For the audit log; never the password."""
    said = [
        "password" if given.password is not None else "",
        f"scopes {'+'.join(in_order(given.scopes))}" if given.scopes is not None else "",
        "" if given.disabled is None else "disabled" if given.disabled else "enabled",
    ]
    return ", ".join(filter(None, said))


@router.delete("/api/users/{name}/second-factor")
async def reset_second_factor(deps: Wired, name: Name) -> dict[str, str]:
    """For somebody who lost their phone: no authenticator app, recovery codes or passkeys, and logged out."""
    tell_subject(f"{name}: reset-second-factor")
    async with deps.database.transaction() as connection:
        await users.reset_second_factor(connection, name)
    return {"name": name}


@router.delete("/api/users/{name}")
async def remove_user(deps: Wired, name: Name) -> dict[str, str]:
    """Gone, with their sessions and the tokens that they made."""
    async with deps.database.transaction() as connection:
        await users.remove_user(connection, name)
    return {"name": name}

"""Users of the single sign-on: rows that are linked to who somebody is at the provider, never to a name or an address.

What they may do is read from the provider's claims at every login, by two lists: MEDIAMILL_OIDC_ADMINS and
MEDIAMILL_OIDC_USERS, of groups and of e-mail addresses. Who is in neither is not let in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mediamill.access.model import Scope
from mediamill.access.single_sign_on import LoginRefusedError, SignOnConfig
from mediamill.access.store import queries
from mediamill.access.users import DEFAULT_SCOPES, is_name
from mediamill.db.connection import Connection

ASK = "ask an administrator"


def scopes_for(config: SignOnConfig, claims: Mapping[str, Any]) -> list[Scope]:
    """By groups, and by an address that the provider has verified; none for everybody else."""
    groups = claims.get(config.groups_claim)
    known = {group for group in groups if isinstance(group, str)} if isinstance(groups, list) else set()
    email = claims.get("email")
    if isinstance(email, str) and "@" in email and claims.get("email_verified") is True:
        known.add(email.lower())
    for listed, scopes in ((config.admins, [Scope.ADMIN]), (config.users, list(DEFAULT_SCOPES))):
        if known & {name.lower() if "@" in name else name for name in listed}:
            return scopes
    return []


async def identify(
    connection: Connection, config: SignOnConfig, claims: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The user, with the scopes of today; made at the first login. None if the lists do not let them in."""
    scopes, subject = scopes_for(config, claims), claims["sub"]
    user = await _find(connection, config, subject)
    if user is None and scopes:
        user = await _add(connection, config, claims, scopes)
    if user is None:
        return None
    if user["disabled_at"] is not None:
        raise LoginRefusedError(f"the user {user['name']} is disabled", fix=ASK)
    await queries.set_scopes.row(connection, user_id=user["id"], scopes=scopes)
    if not scopes:  # no longer: what they opened before is over, and tokens that they made are worth nothing
        await queries.close_sessions.run(connection, user_id=user["id"], but=None)
        return None
    return user | {"scopes": scopes}


async def _find(connection: Connection, config: SignOnConfig, subject: str) -> dict[str, Any] | None:
    row = await queries.find_identity.row(connection, issuer=config.issuer, subject=subject)
    return dict(row) if row else None


async def _add(
    connection: Connection, config: SignOnConfig, claims: Mapping[str, Any], scopes: list[Scope]
) -> dict[str, Any]:
    name = claims.get(config.name_claim)
    if not isinstance(name, str) or not is_name(name):
        raise LoginRefusedError(
            f"the provider's claim {config.name_claim!r} is not a user's name",
            fix="set MEDIAMILL_OIDC_NAME_CLAIM to one that is",
        )
    await queries.insert_identity.run(
        connection, name=name, issuer=config.issuer, subject=claims["sub"], scopes=scopes
    )
    user = await _find(connection, config, claims["sub"])
    if user is None:
        raise LoginRefusedError(f"there is another user {name} here already", fix=ASK)
    return user

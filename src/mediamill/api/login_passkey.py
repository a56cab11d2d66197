"""Logging in with a passkey: the browser is given a challenge, and shows that it has the key."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from mediamill.access.passkeys import PasskeyRefusedError, begin_login, finish_login
from mediamill.access.places import RelyingParty, relying_party
from mediamill.api.deps import Wired
from mediamill.api.login import Visitor, login_service
from mediamill.api.login_page import local_path, origin_of
from mediamill.api.sessions import give_cookie
from mediamill.errors import InvalidError, TooManyError

router = APIRouter(include_in_schema=False)


class Shown(msgspec.Struct):
    """What the browser sends."""

    step: str
    credential: msgspec.Raw
    next: str = "/"


@router.post("/login/passkey/begin")
async def begin(request: Request, deps: Wired) -> Response:
    """A challenge."""
    party = _party(request)
    wait = login_service(request).count_start(Visitor.of(request))
    if wait > 0:
        raise TooManyError("too many tries", fix="wait a little", wait_seconds=wait)
    async with deps.database.transaction() as connection:
        return _json(await begin_login(connection, party))


@router.post("/login/passkey")
async def finish(request: Request, deps: Wired) -> Response:
    """A session for the owner of the key; it is both factors."""
    party, service, visitor = _party(request), login_service(request), Visitor.of(request)
    try:
        shown = msgspec.json.decode(await request.body(), type=Shown)
    except msgspec.MsgspecError as error:
        raise InvalidError(f"this is not the answer of a passkey: {error}") from error
    async with deps.database.transaction() as connection:
        user = await finish_login(connection, shown.step, bytes(shown.credential), party)
    if user is None:
        await service.note_failure("passkey", visitor)
        raise PasskeyRefusedError(fix="try again, or log in another way")
    answer = _json({"next": local_path(shown.next)})
    give_cookie(request, answer, await service.open(user, "passkey", visitor), service.limits.seconds)
    return answer


def _party(request: Request) -> RelyingParty:
    party = relying_party(origin_of(request))
    if party is None:
        raise InvalidError("passkeys do not work at this address", fix="set MEDIAMILL_PUBLIC_URL")
    return party


def _json(content: object) -> Response:
    return Response(
        msgspec.json.encode(content), media_type="application/json", headers={"Cache-Control": "no-store"}
    )

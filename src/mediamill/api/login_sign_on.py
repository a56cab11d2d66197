"""Logging in by single sign-on: to the provider, and back with a code."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mediamill.access.identities import ASK, identify
from mediamill.access.single_sign_on import LoginRefusedError, ProviderError, SingleSignOn
from mediamill.access.steps import STEP_SECONDS, begin_step, take_step
from mediamill.api.deps import Wired
from mediamill.api.login import Visitor, login_service, welcome
from mediamill.api.login_page import local_path, login_page, origin_of
from mediamill.api.sessions import STEP_COOKIE, give_cookie, step_of
from mediamill.errors import MediamillError, NotFoundError

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)

CALLBACK = "/login/oidc/callback"


class NoSignOnError(NotFoundError):
    """Single sign-on is not set up, or not at this address."""

    code = "no_single_sign_on"


@router.get("/login/oidc")
async def begin(request: Request, deps: Wired, next: str = "/") -> Response:
    """To the provider."""
    sign_on, redirect_uri = _sign_on(request)
    service, next_ = login_service(request), local_path(next)
    wait = service.count_start(Visitor.of(request))
    if wait > 0:
        return login_page(request, next_=next_, wait_seconds=wait)
    try:
        url, data = await sign_on.begin(redirect_uri)
    except ProviderError as error:
        log.warning("single sign-on: %s", error.message)
        return login_page(request, next_=next_, fault=_in_words(error), status=503)
    async with deps.database.transaction() as connection:
        value = await begin_step(connection, "single sign-on", {**data, "next": next_})
    answer = RedirectResponse(url, 303)
    give_cookie(request, answer, value, STEP_SECONDS, STEP_COOKIE)
    return answer


@router.get(CALLBACK)
async def come_back(request: Request, deps: Wired) -> Response:
    """A session for whoever the provider vouches for, if the lists let them in."""
    sign_on, redirect_uri = _sign_on(request)
    service, visitor = login_service(request), Visitor.of(request)
    async with deps.database.transaction() as connection:
        step = await take_step(connection, "single sign-on", step_of(request))
    try:
        if step is None:
            raise LoginRefusedError("this login took too long, or was begun elsewhere", fix="log in again")
        claims = await sign_on.finish(request.query_params, step.data, redirect_uri)
        async with deps.database.transaction() as connection:
            user = await identify(connection, sign_on.config, claims)
        if user is None:
            raise LoginRefusedError(f"{sign_on.config.label} knows you, but you may not log in here", fix=ASK)
    except (LoginRefusedError, ProviderError) as error:
        log.warning("single sign-on: %s", error.message)
        await service.note_failure(f"single sign-on: {error.message}", visitor)
        status = 401 if isinstance(error, LoginRefusedError) else 503
        return login_page(request, fault=_in_words(error), status=status)
    return welcome(request, await service.open(user, "single sign-on", visitor), step.data["next"])


def _sign_on(request: Request) -> tuple[SingleSignOn, str]:
    sign_on, origin = login_service(request).sign_on, origin_of(request)
    if sign_on is None or origin is None:
        raise NoSignOnError(
            fix="set MEDIAMILL_OIDC_ISSUER, MEDIAMILL_OIDC_CLIENT_ID and MEDIAMILL_PUBLIC_URL"
        )
    return sign_on, f"{origin}{CALLBACK}"


def _in_words(error: MediamillError) -> str:
    text = f"{error.message[:1].upper()}{error.message[1:]}".rstrip(".")
    return f"{text}: {error.fix}." if error.fix else f"{text}."

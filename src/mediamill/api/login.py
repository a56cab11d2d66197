"""Logging in with a browser, beyond loopback: the admin secret once, a strict cookie from then on."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.api.deps import Wired
from mediamill.api.sessions import COOKIE, SESSION_SECONDS, is_secret, new_session

router = APIRouter(include_in_schema=False)

WRONG_PAUSE_SECONDS = 0.5
FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · mediamill</title><link rel="icon" href="/static/favicon.svg">
<link rel="stylesheet" href="/static/mediamill.css"></head>
<body class="login"><main><h1>mediamill</h1><form method="post" action="/login">
<label for="secret">Admin secret</label>
<input id="secret" name="secret" type="password" autocomplete="current-password" required autofocus>
{fault}<button type="submit">Log in</button></form></main></body></html>"""


@router.get("/login")
async def show_form() -> HTMLResponse:
    """The form."""
    return HTMLResponse(FORM.format(fault=""))


@router.post("/login")
async def log_in(request: Request, deps: Wired) -> Response:
    """The cookie for the right secret."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    secret = deps.settings.admin_secret
    if secret is None or not is_secret(form.get("secret", [""])[0], secret):
        await asyncio.sleep(WRONG_PAUSE_SECONDS)
        return HTMLResponse(
            FORM.format(fault='<p class="fault" role="alert">That is not the secret.</p>'), 401
        )
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(
        COOKIE, new_session(secret), max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=secure
    )
    return answer

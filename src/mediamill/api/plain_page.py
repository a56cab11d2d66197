"""The few pages that the guard needs itself: the form to log in, and a refusal for people."""

from __future__ import annotations

import html

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from mediamill.api.errors import problem_of

API = ("/api/", "/v1/")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · mediamill</title><link rel="icon" href="/static/favicon.svg">
<link rel="stylesheet" href="/static/mediamill.css"></head>
<body class="login"><main><h1><img src="/static/favicon.svg" alt="" width="34" height="34">mediamill</h1>
{body}</main></body></html>"""


def plain_page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """A page without menu; its body is markup already."""
    return HTMLResponse(
        PAGE.format(title=html.escape(title), body=body), status, {"Cache-Control": "no-store"}
    )


def wants_page(scope: Scope) -> bool:
    """Whether a person asks, by a browser, for something that is no part of the API."""
    return "text/html" in Headers(scope=scope).get("accept", "") and not scope["path"].startswith(API)


def refuse(error: BaseException, scope: Scope) -> Response:
    """As a problem for programs, as a page for people."""
    problem = problem_of(error)
    if not wants_page(scope):
        return problem
    said = " ".join(f"{part[:1].upper()}{part[1:]}." for part in (problem.detail, problem.fix) if part)
    back = '<p class="quiet"><a href="/">Back to the overview</a></p>'
    body = f'<p class="notice bad" role="alert">{html.escape(said)}</p>{back}'
    title = "Not for you" if problem.status_code in (401, 403) else "Sorry"
    page = plain_page(title, body, problem.status_code)
    if "retry-after" in problem.headers:
        page.headers["Retry-After"] = problem.headers["retry-after"]
    return page

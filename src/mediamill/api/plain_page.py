"""The few pages that the guard needs itself: the form to log in, and a refusal for people."""

from __future__ import annotations

import html

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response

from mediamill.api.errors import problem_of
from mediamill.errors import MediamillError

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


def refuse(error: MediamillError, headers: Headers) -> Response:
    """As a problem for programs, as a page for people."""
    problem = problem_of(error)
    if "text/html" not in headers.get("accept", ""):
        return problem
    told = html.escape(f"{error.message[:1].upper()}{error.message[1:]}.")
    body = f'<p class="notice bad" role="alert">{told}</p><p class="quiet"><a href="/">Back to the overview</a></p>'
    page = plain_page("Not for you", body, problem.status_code)
    if "retry-after" in problem.headers:
        page.headers["Retry-After"] = problem.headers["retry-after"]
    return page

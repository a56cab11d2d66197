"""The pages of a login: the ways in, and the form for the code of a second factor."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse

from mediamill.access.places import public_origin, relying_party
from mediamill.api.plain_page import plain_page

if TYPE_CHECKING:
    from mediamill.api.login import LoginService
    from mediamill.settings import Settings

_LOCAL_PATH = re.compile(r"/(?![/\\])[!-~]{0,1000}")
LOGIN_FORM = """<div class="sheet">{ways}<form method="post" action="/login">
<label for="name">Name</label>
<input id="name" name="name" autocomplete="username" autocapitalize="none" spellcheck="false" value="{name}"{first}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required{second}>
<input type="hidden" name="next" value="{next}">
{fault}<button type="submit">Log in</button>
<p class="quiet">With the admin secret: leave the name empty. On the server's own machine:
<code>mediamill open</code>.</p></form></div>"""
SIGN_ON_LINK = '<a class="way" href="{url}">Continue with {label}</a>'
PASSKEY_BUTTON = """<button type="button" class="way" id="passkey-login" data-next="{next}" hidden>
Use a passkey</button>
<p class="fault" id="passkey-fault" role="alert" hidden></p>"""
WAYS = '<div id="other-ways"{hidden}><div class="ways">{ways}</div><p class="or"><span>or</span></p></div>'
SCRIPT = '<script src="/static/passkeys.js" defer></script>'
CODE_FORM = """<div class="sheet"><form method="post" action="/login/code">
<label for="code">Code of your authenticator app</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" required
 maxlength="40" autofocus>
{fault}<button type="submit">Continue</button>
<p class="quiet">Lost your phone? Enter one of your recovery codes, or ask an administrator.</p>
<p class="quiet"><a href="/login">Start again</a></p></form></div>"""


def local_path(text: str) -> str:
    """A path of ours to go on to; anything else is the first page."""
    return text if _LOCAL_PATH.fullmatch(text) else "/"


def login_page(
    request: Request,
    name: str = "",
    next_: str = "/",
    fault: str = "",
    status: int = 200,
    wait_seconds: float = 0,
) -> HTMLResponse:
    """The ways in; with a time to wait, that there were too many tries."""
    first, second = ("", " autofocus") if name else (" autofocus", "")
    form = LOGIN_FORM.format(
        ways=_ways(request, next_),
        name=html.escape(name),
        next=html.escape(next_),
        fault=_alert(_too_many(wait_seconds) if wait_seconds else fault),
        first=first,
        second=second,
    )
    return _held_up(plain_page("Log in", form, 429 if wait_seconds else status), wait_seconds)


def origin_of(request: Request) -> str | None:
    """Where browsers reach this server, as far as it is known."""
    settings: Settings = request.app.state.deps.settings
    return public_origin(settings.public_url, request.url.scheme, request.headers.get("host", ""))


def _ways(request: Request, next_: str) -> str:
    """Besides the password. A passkey is offered by its script, where the browser can."""
    service: LoginService = request.app.state.login_service
    origin = origin_of(request)
    sign_on = passkey = ""
    if service.sign_on is not None and origin is not None:
        url = f"{origin}/login/oidc?{urlencode({'next': next_})}"
        sign_on = SIGN_ON_LINK.format(url=html.escape(url), label=html.escape(service.sign_on.config.label))
    if relying_party(origin) is not None:
        passkey = PASSKEY_BUTTON.format(next=html.escape(next_))
    if not sign_on and not passkey:
        return ""
    ways = WAYS.format(ways=sign_on + passkey, hidden="" if sign_on else " hidden")
    return ways + (SCRIPT if passkey else "")


def code_page(fault: str = "", status: int = 200, wait_seconds: float = 0) -> HTMLResponse:
    """The second step, for those who have a second factor."""
    told = _alert(_too_many(wait_seconds) if wait_seconds else fault)
    page = plain_page("Enter your code", CODE_FORM.format(fault=told), 429 if wait_seconds else status)
    return _held_up(page, wait_seconds)


def _too_many(wait_seconds: float) -> str:
    minutes = max(1, round(wait_seconds / 60))
    return f"Too many wrong tries. Try again in {minutes} minute{'s' if minutes > 1 else ''}."


def _held_up(page: HTMLResponse, wait_seconds: float) -> HTMLResponse:
    if wait_seconds:
        page.headers["Retry-After"] = str(int(wait_seconds) + 1)
    return page


def _alert(fault: str) -> str:
    return f'<p class="fault" role="alert">{html.escape(fault)}</p>' if fault else ""

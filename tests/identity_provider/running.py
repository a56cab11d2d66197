"""The provider as a process, and somebody who logs in there."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

FOLDER = Path(__file__).parent
CLIENT_ID, CLIENT_SECRET = "mediamill", "the provider knows: this & that=100%"
ACCOUNTS = {
    "subject-of-ann": {
        "preferred_username": "ann",
        "email": "Ann@home.example",
        "email_verified": True,
        "groups": ["family"],
    },
    "subject-of-bob": {"preferred_username": "bob", "email": "bob@home.example", "email_verified": False},
    "subject-of-eve": {"preferred_username": "eve", "groups": ["neighbours"]},
}


@asynccontextmanager
async def run_provider(*origins: str, clock_shift_seconds: int = 0) -> AsyncIterator[str]:
    """Its issuer; `origins`: where servers of ours are."""
    client = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "redirect_uris": [f"{origin}/login/oidc/callback" for origin in origins],
        "scope": "openid profile email groups",
    }
    config = {"clients": [client], "accounts": ACCOUNTS, "clock_shift_seconds": clock_shift_seconds}
    node = shutil.which("node", path=f"{FOLDER.parents[1] / '.tools' / 'bin'}") or shutil.which("node")
    assert node, "no Node.js; make .tools/.stamp-bridge sets it up"
    process = await asyncio.create_subprocess_exec(
        *(node, str(FOLDER / "provider.mjs"), json.dumps(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout
    assert process.stdin
    issuer = (await process.stdout.readline()).decode().strip()
    assert issuer, "the provider did not start; make .tools/.stamp-bridge installs its packages"
    try:
        yield issuer
    finally:
        process.stdin.close()
        await process.wait()


def settings_for(issuer: str, **more: Any) -> dict[str, Any]:
    """Those of a server of ours."""
    return {
        "login": "always",
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_scopes": "openid profile email groups",
        "oidc_label": "Home <ID>",
        **more,
    }


async def log_in_there(browser: httpx.AsyncClient, url: str, subject: str) -> str:
    """From the address that we send a browser to, through the provider's pages, to the one that it sends back."""
    answer = await browser.get(url)
    for _ in range(10):
        if answer.is_redirect:
            target = str(answer.url.join(answer.headers["location"]))
            if "/login/oidc/callback" in target:
                return target
            answer = await browser.get(target)
        else:
            assert answer.status_code == 200, answer.text
            prompt = "login" if 'name="login"' in answer.text else "consent"
            form = {"prompt": prompt, "login": subject, "password": "x"}
            answer = await browser.post(str(answer.url), data=form)
    raise AssertionError("the provider never sent the browser back")

"""`mediamill open`: a link that logs a browser in as the user who runs the server."""

from __future__ import annotations

import os
import webbrowser
from typing import TYPE_CHECKING

from mediamill.cli.options import Json, examples
from mediamill.cli.server_client import server_url
from mediamill.errors import NotFoundError
from mediamill.local_key import find_local_key, link_purpose, sign_pass

if TYPE_CHECKING:
    from mediamill.settings import Settings

EXAMPLES = examples("mediamill open", "mediamill open --json", "ssh -t server mediamill open")


class NoLocalKeyError(NotFoundError):
    """This user cannot read the key of a server here."""

    code = "no_local_key"


def open_pages(json: Json = False) -> None:
    """Open the pages in a browser, logged in; or print the link where there is no display.

    The link works once, within a day, for the server that runs now.
    """
    from mediamill.cli.terminal import print_json, say
    from mediamill.settings import Settings

    link = make_link(Settings())
    if json:
        print_json({"url": link})
    else:
        say(link)
        show(link)


def make_link(settings: Settings) -> str:
    """A new one."""
    key = find_local_key(settings.data_folder)
    if key is None:
        raise NoLocalKeyError(
            f"there is no key of a server in {settings.data_folder} that this user can read",
            fix="set MEDIAMILL_DATA to the server's data folder, and run this as the server's user",
        )
    return f"{server_url(settings)}/open?link={sign_pass(key, link_purpose(settings.port))}"


def show(link: str) -> None:
    """In the browser, where there is a display."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(link)

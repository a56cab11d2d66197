"""`mediamill open`: a link that logs a browser in as the user who runs the server."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mediamill.cli.options import Json, examples
from mediamill.cli.server_client import server_url
from mediamill.errors import NotFoundError
from mediamill.local_key import find_local_key, link_purpose, sign_pass

if TYPE_CHECKING:
    from mediamill.settings import Settings

PAGE = "open.html"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
NOBODY_HERE = ("SSH_CONNECTION", "SSH_TTY", "CI")
EXAMPLES = examples("mediamill open", "mediamill open --json", "ssh -t server mediamill open")


class NoLocalKeyError(NotFoundError):
    """This user cannot read the key of a server here."""

    code = "no_local_key"


def open_pages(json: Json = False) -> None:
    """Print a link that logs a browser in, and open it where there is a display.

    The link works once, within a day, for the server that runs now.
    """
    from mediamill.cli.terminal import print_json, say
    from mediamill.settings import Settings

    settings = Settings()
    link = make_link(settings)
    if json:
        print_json({"url": link})
    else:
        say(link)
        show(link, settings)


def make_link(settings: Settings) -> str:
    """A new one."""
    key = find_local_key(settings.data_folder)
    if key is None:
        raise NoLocalKeyError(
            f"there is no key of a server in {settings.data_folder} that this user can read",
            fix="set MEDIAMILL_DATA to the server's data folder, and run this as the server's user",
        )
    return f"{server_url(settings)}/open?link={sign_pass(key, link_purpose(settings.port))}"


def show(link: str, settings: Settings) -> None:
    """In a browser, where there is a display. By a file: other users can read how a browser was started (`ps`)."""
    if not has_display(os.environ):
        return
    page = settings.data_folder / PAGE
    page.unlink(missing_ok=True)
    page.touch(mode=0o600)
    page.write_text(f'<meta http-equiv="refresh" content="0; url={link}">\n')
    webbrowser.open(page.as_uri())


def has_display(environment: Mapping[str, str]) -> bool:
    """Whether somebody sits before this machine."""
    return any(map(environment.get, DISPLAYS)) and not any(map(environment.get, NOBODY_HERE))

"""What a command printed, as a picture of a terminal."""

from __future__ import annotations

import html
import io
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.ui.browser import open_browser

PAGE = """<body style="margin:0;background:#fff"><div id="terminal" style="display:inline-block;padding:18px 22px;
background:#22252b;color:#d9d9d9;border-radius:8px"><pre style="margin:0;font:15px/1.4 'DejaVu Sans Mono',monospace">
<b style="color:#f4f4f4">$ {command}</b>
{said}</pre></div></body>"""


def in_colours(said: str, width: int) -> str:
    """The text of a terminal as HTML."""
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.from_ansi(said))
    return console.export_html(theme=MONOKAI, inline_styles=True, code_format="{code}")


async def picture_terminal(command: str, said: str, path: Path, width: int = 100) -> None:
    """To a file."""
    async with open_browser() as browser:
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        await page.set_content(PAGE.format(command=html.escape(command), said=in_colours(said, width)))
        path.parent.mkdir(exist_ok=True)
        await page.locator("#terminal").screenshot(path=path)

"""`mediamill videos`: everything about videos."""

from __future__ import annotations

import typer

from mediamill.cli import video_upload
from mediamill.cli.videos_admin import add_commands

app = typer.Typer(no_args_is_help=True, help="Videos: bring them in, watch them being made, look after them.")
app.command("upload", epilog=video_upload.EXAMPLES)(video_upload.upload)
add_commands(app)

"""`mediamill version`."""

from __future__ import annotations

from mediamill import __version__
from mediamill.cli.options import Json, examples

EXAMPLES = examples("mediamill version", "mediamill version --json")


def show_version(json: Json = False) -> None:
    """The version of mediamill."""
    if json:
        from mediamill.cli.terminal import print_json

        print_json({"version": __version__})
    else:
        print(f"mediamill {__version__}")

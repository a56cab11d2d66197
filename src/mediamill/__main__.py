"""The entry point of the command `mediamill`.

Importing the commands takes a moment; it happens inside main(), where a Ctrl-C is a clean end.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exit with its code."""
    try:
        from mediamill.cli.command import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

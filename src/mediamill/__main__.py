"""The entry point of the command `mediamill`.

Importing the commands takes a moment; it happens inside main(), where a Ctrl-C is a clean end.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; exit with its code."""
    # A parent may have closed them (`>&-`): Python then has None there, and the next file would take their number.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        from mediamill.cli.command import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

"""Installs the pi agent for the tests, in .tools/pi, as mediamill does in a data folder; and the pinned Node.js.

The pinned one also where the machine has a good one: tests show that it takes the place of one that is too old.
"""

import sys
from pathlib import Path

from mediamill.agents.pi_setup import install_pi
from mediamill.node import find_node
from mediamill.settings import Settings

DATA = Path(__file__).resolve().parent.parent / ".tools" / "pi"
NEWER_THAN_ANY = (9999, 0)


def tell(line: str) -> None:
    """On stderr: stdout belongs to the target that wanted this."""
    print(line, file=sys.stderr)


if __name__ == "__main__":
    find_node(DATA / "tools", NEWER_THAN_ANY, tell)
    install_pi(Settings(data=DATA), tell)

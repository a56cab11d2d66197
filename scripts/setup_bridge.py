"""Installs the packages of the WhatsApp bridge beside its code, for its tests, with a Node.js of its own if need be.

A bot that uses WhatsApp needs none of this: mediamill sets the bridge up in the data folder.
"""

import subprocess
import sys
from pathlib import Path

from mediamill.node import QUIET, find_node

ROOT = Path(__file__).resolve().parent.parent
BRIDGE = ROOT / "bridges" / "whatsapp"
TOOLS = ROOT / ".tools"
OLDEST_NODE = (20, 0)


def tell(line: str) -> None:
    """On stderr: stdout belongs to the target that wanted this."""
    print(line, file=sys.stderr)


def main() -> None:
    """Packages by their lock file; `node` in .tools/bin, which `make test` has on its path."""
    link = TOOLS / "bin" / "node"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)  # make has it on its path: it would be found, and made a link to itself
    tools = find_node(TOOLS, OLDEST_NODE, tell)
    link.symlink_to(tools.node)
    command = [*tools.npm, "ci", "--ignore-scripts", *QUIET]
    sys.exit(subprocess.run(command, cwd=BRIDGE, env=tools.environment(), stdout=sys.stderr).returncode)


if __name__ == "__main__":
    main()

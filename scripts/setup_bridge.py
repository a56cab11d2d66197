"""Installs what tests run in Node.js: packages of the WhatsApp bridge, of the identity provider, of others' clients.

With a Node.js of their own if need be.

A bot that uses WhatsApp needs none of this: mediamill sets the bridge up in the data folder.
"""

import subprocess
import sys
from pathlib import Path

from mediamill.node import QUIET, find_node

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    ROOT / "bridges" / "whatsapp",
    ROOT / "tests" / "identity_provider",
    ROOT / "tests" / "foreign_clients",
    ROOT / "tests" / "tus_clients",
)
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
    for folder in PACKAGES:
        subprocess.run(command, cwd=folder, env=tools.environment(), stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()

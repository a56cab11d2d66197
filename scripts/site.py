"""Builds the site of docs/ into build/site; whatever is broken, missing or in no list stops it.

The pages are written for readers of the repository. Here they are laid out as Sphinx wants them: docs/README.md is the
first page, and its lists are the navigation; a README.md of a folder is the list of that folder; a link that leaves
docs/ leads to a page that shows the file.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MERMAID = ROOT / ".tools" / "js" / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"
OUTSIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[)#])")
ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+\.md)\)", re.MULTILINE)
LANGUAGES = {
    ".yaml": "yaml",
    ".json": "json",
    ".service": "ini",
    ".py": "python",
    ".toml": "toml",
    ".md": "markdown",
}
FENCE = "`" * 6
# Looking for circles among its trees of nodes, again and again, took Sphinx a third of its time. A build is short:
# it takes 600 MB instead of 150 and does not look.
SPHINX = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


class SiteError(Exception):
    """Something that whoever changed the documents must mend."""


def listed(page: Path) -> list[tuple[str, dict[Path, str]]]:
    """The lists of a page: each heading with the pages that the items below it lead to, and what they call them."""
    _, *parts = re.split(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    found = []
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        items = {(page.parent / to).resolve(): name for name, to in ITEM.findall(text)}
        found += [(heading, items)] if items else []
    return found


class Pages:
    """The documents of a repository: every file with the name of its page, without `.md`."""

    def __init__(self, root: Path) -> None:
        self.root, self.docs = root, root / "docs"
        self.home = self.docs / "README.md"
        self.names: dict[Path, str] = {}
        for path in sorted(self.docs.rglob("*.md")):
            name = path.relative_to(self.docs).with_suffix("")
            self.names[path] = str(name.with_name("index") if name.name == "README" else name)
        self.names |= {root / name: Path(name).stem.lower() for name in OUTSIDE if (root / name).exists()}

    def unlisted(self) -> list[str]:
        """What to do for each page that no list leads to."""
        missing = []
        for path in self.names:
            index = self._list_for(path)
            if path != self.home and not any(path in items for _, items in listed(index)):
                missing.append(
                    f"{self.said(path)} is in no list: add `- [its name](…): a line` to {self.said(index)}, under the "
                    "heading where its readers would look"
                )
        return missing

    def _list_for(self, path: Path) -> Path:
        """The page that should lead to it: that of its folder, if there is one."""
        index = path.parent / "README.md"
        return index if index in self.names and index != path else self.home

    def said(self, path: Path) -> str:
        """A file as people name it."""
        return str(path.relative_to(self.root))


def is_source(path: Path) -> bool:
    """A file that somebody wrote, not one that was made of it."""
    return path.is_file() and not {"__pycache__", "dist", ".pytest_cache"} & set(path.parts)


class Draft:
    """The folder that Sphinx reads."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.pages = folder, Pages(root)
        self.shown: set[Path] = set()

    def write(self) -> None:
        """All of it."""
        if missing := self.pages.unlisted():
            raise SiteError("\n".join(missing))
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.pages.docs, self.folder, ignore=shutil.ignore_patterns("*.md"))
        shutil.copyfile(MERMAID, self.folder / "site" / "static" / "mermaid.js")
        for page, name in self.pages.names.items():
            self._put(f"{name}.md", self._with_links_here(page, name) + self._contents(page, name))
        for path in sorted(self.shown):
            self._show(path)

    def _put(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def _with_links_here(self, page: Path, name: str) -> str:
        """Its text, with links to where things are in the draft."""

        def led(match: re.Match[str]) -> str:
            target = (page.parent / match[1]).resolve()
            if not target.exists():
                raise SiteError(f"{self.pages.said(page)}: there is no {match[1]}")
            return os.path.relpath(self._place(target), Path(name).parent)

        parts = re.split(r"(^```.*?^```)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        return "".join(part if part.startswith("```") else LINK.sub(led, part) for part in parts)

    def _place(self, target: Path) -> str:
        """Where a file of the repository is in the draft."""
        pages = self.pages
        if target == pages.root / "README.md":
            target = pages.home
        if target.is_dir() and target / "README.md" in pages.names:
            target = target / "README.md"
        if target in pages.names:
            return f"{pages.names[target]}.md"
        if target.is_relative_to(pages.docs) and target.is_file():
            return str(target.relative_to(pages.docs))
        self.shown.add(target)
        return f"files/{target.relative_to(pages.root)}.md"

    def _contents(self, page: Path, name: str) -> str:
        """The navigation that its lists make."""
        if Path(name).name != "index":
            return ""
        trees = ""
        for heading, items in listed(page):
            place = Path(name).parent
            entries = [
                f"{said} <{os.path.relpath(self.pages.names[to], place)}>" for to, said in items.items()
            ]
            caption = f":caption: {heading}\n" if name == "index" else ""
            trees += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(entries) + "\n```\n"
        return trees

    def _show(self, path: Path) -> None:
        """A page with a file of the repository, or with all files of a folder."""
        lines = ["---", "orphan: true", "---", "", f"# {self.pages.said(path)}"]
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if is_source(each))
        for each in files:
            lines += ["", f"## {each.relative_to(path)}"] if each != path else []
            lines += [
                "",
                f"{FENCE}{LANGUAGES.get(each.suffix, 'text')}",
                each.read_text().rstrip("\n"),
                FENCE,
            ]
        self._put(f"files/{self.pages.said(path)}.md", "\n".join(lines) + "\n")


def build(root: Path, site: Path) -> None:
    """Sphinx, with every warning an error."""
    draft = site.with_name(f"{site.name}-draft")
    Draft(root, draft).write()
    shutil.rmtree(site, ignore_errors=True)
    command = [
        sys.executable,
        "-c",
        SPHINX,
        "-b",
        "html",
        "-W",
        "--keep-going",
        "-q",
        "-E",
        "-d",
        "doctrees",
    ]
    done = subprocess.run(
        [*command, "-c", "site", ".", str(site)], cwd=draft, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SiteError(done.stderr.replace(f"{draft}/", "").strip())


def main() -> int:
    """Returns 1 if the site could not be built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to read")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site", help="where the site goes")
    options = parser.parse_args()
    try:
        build(options.root.resolve(), options.to.resolve())
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(os.path.relpath(options.to / "index.html"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

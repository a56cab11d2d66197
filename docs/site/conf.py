"""How Sphinx makes the site of docs/; scripts/site.py lays the pages out for it and runs it."""

from html import escape
from importlib import metadata
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

project = "mediamill"
version = release = metadata.version("mediamill")
copyright = "the mediamill authors, Apache-2.0"
extensions = ["myst_parser"]
exclude_patterns = ["site", "doctrees"]
nitpicky = True

myst_heading_anchors = 4
myst_fence_as_directive = {"mermaid"}

html_theme = "furo"
html_title = "mediamill"
html_static_path = ["static"]
html_css_files = ["mediamill.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


class Mermaid(Directive):
    """A picture drawn in the browser, by a script of the site's own; without scripts, its text."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The text, where the script finds it."""
        text = escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid">{text}</pre>', format="html")]


def add_what_a_page_needs(app: Sphinx, page: str, *rest: Any) -> None:
    """The lists of the first page are cards; the script that draws is long, so only pages with a picture load it."""
    if page == "index":
        app.add_css_file("home.css")
    doctree = rest[-1]
    if doctree and any('class="mermaid"' in raw.astext() for raw in doctree.findall(nodes.raw)):
        app.add_js_file("mermaid.js", loading_method="defer")
        app.add_js_file("draw.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("mermaid", Mermaid)
    app.connect("html-page-context", add_what_a_page_needs)

"""The page of a file in a review, as it is put together."""

from __future__ import annotations

from mediamill.ui.rendering import Renderer
from mediamill.ui.sheet import make_sheet


def test_a_file_whose_analysis_ends_while_its_page_is_read_is_shown_by_its_text() -> None:
    """The row was read before the end, the texts after it."""
    file = {"id": 7, "name": "letter.pdf", "kind": "document", "pages": [], "proposals": []}
    sheet = make_sheet(file, [{"number": 1, "label": "Page 1", "text": "Dear Zoe"}], None, None)
    page = Renderer().page("projects/sheet.html", sheet=sheet, file=file, project={"slug": "papers"})
    assert "Dear Zoe" in bytes(page.body).decode()

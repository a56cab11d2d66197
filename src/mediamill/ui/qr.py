"""A text as a QR code that a phone can read from the page: inline SVG, black on white in the dark too."""

from __future__ import annotations

import segno
from markupsafe import Markup

LONGEST = 2_000


def qr_svg(text: str) -> Markup:
    """The picture, to be sized by the stylesheet. Too much for a code: nothing."""
    if not text or len(text) > LONGEST:
        return Markup("")
    code = segno.make_qr(text, error="l")
    # Safe: segno writes numbers and its own names only, never the text.
    return Markup(code.svg_inline(border=3, dark="#000", light="#fff", omitsize=True, svgclass="qr"))  # noqa: S704

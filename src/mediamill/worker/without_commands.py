"""To be imported before httpx: without its command line, which would load rich and click, it loads in half the time."""

from __future__ import annotations

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # an import of it fails, which httpx allows for

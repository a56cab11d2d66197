"""Schemathesis is told how the chunks of uploads are written: as they are."""

from __future__ import annotations

import schemathesis

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")

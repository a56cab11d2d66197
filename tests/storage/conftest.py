from __future__ import annotations

from tests.storage.s3_server import bucket, s3_server

__all__ = ["bucket", "s3_server"]

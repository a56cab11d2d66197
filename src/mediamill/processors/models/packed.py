"""Vectors on their way to the database: float16, little-endian, as base64."""

from __future__ import annotations

import base64

from mediamill.processors.models.contract import Vectors


def pack_vectors(vectors: Vectors) -> list[str]:
    """One text for each row."""
    return [base64.b64encode(row.tobytes()).decode() for row in vectors.astype("<f2")]

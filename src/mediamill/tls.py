"""One TLS context for all connections that this process opens: reading the certificates takes longer than a request."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def tls_context() -> ssl.SSLContext:
    """That of httpx: the certificates of the package certifi, or those that SSL_CERT_FILE or SSL_CERT_DIR name."""
    return httpx.create_ssl_context()

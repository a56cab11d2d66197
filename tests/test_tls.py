from __future__ import annotations

import ssl

from mediamill.tls import tls_context


def test_connections_check_certificates_and_names_and_share_what_that_needs() -> None:
    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.cert_store_stats()["x509_ca"] > 0
    assert tls_context() is context

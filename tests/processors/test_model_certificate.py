"""A model server whose certificate nobody vouches for: no outage, so the attempt counts."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mediamill.processors.models import endpoint
from mediamill.processors.models.endpoint import ModelFailedError
from mediamill.processors.models.openai_text import OpenAiText
from mediamill.testing.openai_server import OpenAiServer
from tests.processors.remote_models import settings_for


def make_certificate(file: Path) -> ssl.SSLContext:
    """Signed by itself, for this machine."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + signed.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.mark.spec("C31")
def test_a_certificate_that_is_refused_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_SECONDS", 0.01)
    with OpenAiServer() as server:
        http = server._http
        http.socket = make_certificate(tmp_path / "pem").wrap_socket(http.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        with pytest.raises(ModelFailedError, match=r"(?i)certificate"):
            OpenAiText(settings_for(url)).complete("Shorten.", "long text")

"""An authenticator for passkeys, in software."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import bytes_to_base64url

CREDENTIAL = {
    "id": "YQ",
    "rawId": "YQ",
    "type": "public-key",
    "response": {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"},
}


class Device:
    """An authenticator in software, whose answers can be bent."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.count = 1

    @property
    def public_key(self) -> bytes:
        numbers = self.key.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def answer(
        self,
        challenge: str,
        *,
        origin: str = "http://localhost",
        party: str = "localhost",
        verified: bool = True,
    ) -> dict[str, Any]:
        client = json.dumps({"type": "webauthn.get", "challenge": challenge, "origin": origin}).encode()
        flags = 0x05 if verified else 0x01
        data = hashlib.sha256(party.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        parts = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return CREDENTIAL | {"response": {name: bytes_to_base64url(part) for name, part in parts.items()}}

    def registration(self, challenge: str, *, verified: bool = True) -> dict[str, Any]:
        """The answer to being asked for a new passkey, whose id is `a`."""
        client = json.dumps({"type": "webauthn.create", "challenge": challenge, "origin": "http://localhost"})
        flags = 0x45 if verified else 0x41
        data = hashlib.sha256(b"localhost").digest() + bytes([flags]) + self.count.to_bytes(4, "big")
        data += bytes(16) + (1).to_bytes(2, "big") + b"a" + self.public_key
        statement = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        parts = {"clientDataJSON": client.encode(), "attestationObject": statement}
        return CREDENTIAL | {"response": {name: bytes_to_base64url(part) for name, part in parts.items()}}

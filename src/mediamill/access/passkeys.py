"""Passkeys (WebAuthn): a key pair in somebody's phone, computer or security key; we keep the public half.

The authenticator checks its user (fingerprint, face, PIN), so a passkey is both factors. It is discoverable: it says
itself whose it is. Challenges are steps of a login, each taken once.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from asyncpg import Record

from mediamill.access.places import RelyingParty
from mediamill.access.steps import begin_step, take_step
from mediamill.access.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import ConflictError, DeniedError, InvalidError, NotFoundError

log = logging.getLogger(__name__)

NAME_CHARACTERS = 60
MOST_PASSKEYS = 20
CREDENTIAL_BYTES = 20_000
TIMEOUT_MILLISECONDS = 120_000


class PasskeyRefusedError(DeniedError):
    """That passkey is not known here, or did not answer as it should."""

    code = "passkey_refused"


class PasskeyExistsError(ConflictError):
    """This passkey is registered already."""

    code = "passkey_exists"


class UnknownPasskeyError(NotFoundError):
    """There is no such passkey."""

    code = "unknown_passkey"


class PasskeyFaultyError(InvalidError):
    """The device did not make a passkey that can be used here."""

    code = "passkey_faulty"


class Credential(msgspec.Struct):
    """What tells which passkey it is."""

    id: str


class Asked(msgspec.Struct):
    """What the browser is asked, and the step that its answer belongs to."""

    step: str
    options: msgspec.Raw


async def begin_registration(connection: Connection, user_id: int, name: str, party: RelyingParty) -> Asked:
    """A new passkey is asked for."""
    import webauthn
    from webauthn.helpers import structs

    known = await queries.list_passkeys.rows(connection, user_id=user_id)
    if len(known) >= MOST_PASSKEYS:
        raise PasskeyExistsError(f"you have {MOST_PASSKEYS} passkeys already", fix="remove one first")
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name="mediamill",
        user_id=_handle(user_id),
        user_name=name,
        timeout=TIMEOUT_MILLISECONDS,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.REQUIRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[structs.PublicKeyCredentialDescriptor(id=row["credential_id"]) for row in known],
    )
    step = await begin_step(connection, "new passkey", {"challenge": options.challenge.hex()}, user_id)
    return Asked(step, msgspec.Raw(webauthn.options_to_json(options).encode()))


async def finish_registration(
    connection: Connection, user_id: int, step: str, credential: bytes, name: str, party: RelyingParty
) -> int:
    """The passkey is theirs from now on."""
    import webauthn

    name = name.strip()
    if not 1 <= len(name) <= NAME_CHARACTERS:
        raise InvalidError(
            f"a passkey needs a name of up to {NAME_CHARACTERS} characters", fix="say where it is"
        )
    taken = await take_step(connection, "new passkey", step)
    if taken is None or taken.user_id != user_id or len(credential) > CREDENTIAL_BYTES:
        raise PasskeyFaultyError("that took too long", fix="try again")
    try:
        made = webauthn.verify_registration_response(
            credential=credential.decode(),
            expected_challenge=bytes.fromhex(taken.data["challenge"]),
            expected_rp_id=party.id,
            expected_origin=party.origin,
            require_user_verification=True,
        )
    except Exception as error:  # whatever a stranger's bytes do to the library: refused
        log.info("a passkey was not registered: %s", error)
        raise PasskeyFaultyError(fix="try again, or take another device") from error
    id_ = await queries.insert_passkey.value(
        connection,
        user_id=user_id,
        credential_id=made.credential_id,
        public_key=made.credential_public_key,
        sign_count=made.sign_count,
        name=name,
    )
    if id_ is None:
        raise PasskeyExistsError
    return int(id_)


async def begin_login(connection: Connection, party: RelyingParty) -> Asked:
    """Any passkey of ours is asked for: who it is, it says itself."""
    import webauthn
    from webauthn.helpers import structs

    options = webauthn.generate_authentication_options(
        rp_id=party.id,
        timeout=TIMEOUT_MILLISECONDS,
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    step = await begin_step(connection, "passkey", {"challenge": options.challenge.hex()})
    return Asked(step, msgspec.Raw(webauthn.options_to_json(options).encode()))


async def finish_login(
    connection: Connection, step: str, credential: bytes, party: RelyingParty
) -> dict[str, Any] | None:
    """Whose passkey it is; None if it is nobody's, or they are disabled. The step is taken in any case."""
    taken = await take_step(connection, "passkey", step)
    shown = _id_of(credential)
    if taken is None or shown is None:
        return None
    row = await queries.find_passkey.row(connection, credential_id=shown)
    if row is None or row["disabled_at"] is not None:
        return None
    count = _verify(credential, bytes.fromhex(taken.data["challenge"]), party, row)
    if count is None:
        return None
    await queries.use_passkey.run(connection, id=row["id"], sign_count=count)
    return dict(row) | {"id": row["user_id"]}


def _id_of(credential: bytes) -> bytes | None:
    import webauthn

    if len(credential) > CREDENTIAL_BYTES:
        return None
    try:
        return webauthn.base64url_to_bytes(msgspec.json.decode(credential, type=Credential).id)
    except (msgspec.MsgspecError, ValueError):
        return None


def _verify(credential: bytes, challenge: bytes, party: RelyingParty, row: Record) -> int | None:
    """How often the key was used, as it says, if it is the right one."""
    import webauthn

    try:
        return webauthn.verify_authentication_response(
            credential=credential.decode(),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            credential_public_key=row["public_key"],
            credential_current_sign_count=row["sign_count"],
            require_user_verification=True,
        ).new_sign_count
    except Exception as error:  # whatever a stranger's bytes do to the library: refused
        log.info("a passkey was refused: %s", error)
        return None


async def list_passkeys(connection: Connection, user_id: int) -> list[dict[str, Any]]:
    """The oldest first."""
    return [dict(row) for row in await queries.list_passkeys.rows(connection, user_id=user_id)]


async def remove_passkey(connection: Connection, user_id: int, passkey_id: int) -> str:
    """It logs nobody in any more; its name."""
    name = await queries.remove_passkey.value(connection, id=passkey_id, user_id=user_id)
    if name is None:
        raise UnknownPasskeyError(f"you have no passkey {passkey_id}", fix="look at your account")
    return str(name)


def _handle(user_id: int) -> bytes:
    return user_id.to_bytes(8, "big")

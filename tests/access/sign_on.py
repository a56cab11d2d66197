"""Single sign-on as the tests configure it."""

from __future__ import annotations

from typing import Any

from mediamill.access.single_sign_on import SignOnConfig
from mediamill.settings import Settings


def config_of(issuer: str, **more: Any) -> SignOnConfig:
    given = {"oidc_issuer": issuer, "oidc_client_id": "mill", **more}
    found = SignOnConfig.of(Settings.model_validate(given))
    assert found is not None
    return found

"""The settings as processors read them.

A child process is given their values. Elsewhere they are read from the environment, with pydantic: to import that took
up to half of a child's start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from mediamill.settings import Settings

GIVEN = "MEDIAMILL_GIVEN_SETTINGS"  # in the environment of a child: a JSON object
KEYS = ("openai_key", "moondream_key", "gemini_key")  # each a variable of its own

_given: GivenSettings | None = None


class GivenSecret:
    """Like pydantic's SecretStr, as far as processors use it."""

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "GivenSecret('**********')"


class GivenSettings:
    """Like Settings, as far as processors use them. What was not given is read from the environment."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            return getattr(_read(), name)

    def model_copy(self, *, update: Mapping[str, Any]) -> GivenSettings:
        """The same with other values."""
        return GivenSettings({**self._values, **update})


def take_given() -> None:
    """In a child process: from now on the settings are those that it was given, not those of the environment."""
    global _given
    values = msgspec.json.decode(os.environ.pop(GIVEN), type=dict[str, Any])
    values["models_folder"] = Path(os.environ["MEDIAMILL_MODELS"])
    for name in KEYS:
        key = os.environ.get(f"MEDIAMILL_{name}".upper())
        values[name] = None if key is None else GivenSecret(key)
    _given = GivenSettings(values)


def read_settings() -> Settings:
    """Those of this process."""
    return _read() if _given is None else cast("Settings", _given)


def _read() -> Settings:
    from mediamill.settings import Settings

    return Settings()

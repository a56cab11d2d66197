"""The fields that a project wants to know of its files, as they travel with a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mediamill.errors import GiveUpError

FieldType = Literal["text", "number", "amount", "date", "boolean"]
MOST_FIELDS = 200
NAME_CHARACTERS, WORDS_CHARACTERS = 60, 500


class BadCatalogError(GiveUpError):
    """The fields of the job are not what this processor understands."""

    code = "bad_catalog"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field. `label`: how it is written in documents; `unit`: in which a number is wanted; `categories`: in which
    documents it is looked for, if not in all.
    """

    name: str
    type: FieldType
    label: str
    description: str = ""
    unit: str = ""
    categories: tuple[str, ...] = ()

    def is_for(self, kind: str) -> bool:
        """Is it looked for in a document of this kind? One that nobody recognised may be any."""
        return not self.categories or not kind or kind.casefold() in self.categories


def read_catalog(payload: Mapping[str, Any]) -> tuple[FieldSpec, ...]:
    """The fields of a job; a job without fields has none to look for."""
    told = payload.get("fields") or []
    if not isinstance(told, list) or len(told) > MOST_FIELDS:
        raise BadCatalogError(f"`fields` is no list of at most {MOST_FIELDS} fields")
    fields = [_read_field(field) for field in told]
    if len({field.name for field in fields}) < len(fields):
        raise BadCatalogError("two fields have the same name")
    return tuple(fields)


def _read_field(told: Any) -> FieldSpec:
    if not isinstance(told, dict) or not isinstance(told.get("name"), str) or not told["name"].strip():
        raise BadCatalogError("a field has no name")
    name = told["name"].strip()[:NAME_CHARACTERS]
    if told.get("type") not in get_args(FieldType):
        raise BadCatalogError(
            f"the field {name!r} has no type", fix=f"one of: {', '.join(get_args(FieldType))}"
        )
    label = _words(told.get("label")) or name.replace("_", " ")
    categories = told.get("categories")
    return FieldSpec(
        name,
        told["type"],
        label,
        _words(told.get("description")),
        _words(told.get("unit"))[:30],
        tuple(_words(each).casefold() for each in categories) if isinstance(categories, list) else (),
    )


def _words(told: Any) -> str:
    return " ".join(told[:WORDS_CHARACTERS].split()) if isinstance(told, str) else ""

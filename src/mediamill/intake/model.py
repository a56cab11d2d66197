"""Projects, fields, files, proposals: names, states, places. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mediamill.errors import ConflictError, InvalidError, NotFoundError
from mediamill.staging.file_names import shown, to_text

ANALYSE = "file.analyse"
TYPES = ("text", "number", "amount", "date", "boolean")
STATES = ("queued", "processing", "completed", "failed")
DECISIONS = ("pending", "accepted", "rejected")
SOURCES = ("upload", "watch")
PERSON = "person"  # the origin of a value that somebody entered
NAME_CHARACTERS, SLUG_CHARACTERS, ERROR_CHARACTERS, FILE_NAME_CHARACTERS = 200, 64, 500, 255
DESCRIPTION_CHARACTERS, LABEL_CHARACTERS, UNIT_CHARACTERS = 2_000, 200, 50
MOST_FIELDS, MOST_CATEGORIES = 200, 20
CATEGORY_CHARACTERS = 60
SHARDS = 1000
FOLDER, FILES, PARTS, OUTPUTS = "intake", "intake/files", "intake/parts", "intake/outputs"
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)


class UnknownProjectError(NotFoundError):
    """There is no such project."""

    code = "unknown_project"


class UnknownFileError(NotFoundError):
    """There is no such file."""

    code = "unknown_file"


class UnknownProposalError(NotFoundError):
    """There is no such proposal."""

    code = "unknown_proposal"


class UnknownFindingError(NotFoundError):
    """There is no such finding."""

    code = "unknown_finding"


class NoSuchPageError(NotFoundError):
    """The file has no picture of that page."""

    code = "no_such_page"


class BadProjectError(InvalidError):
    """A project needs a name, and a watched folder an absolute path."""

    code = "bad_project"


class BadFieldError(InvalidError):
    """A field needs a name of small letters, digits and underscores, and a type."""

    code = "bad_field"


class UnknownFieldError(InvalidError):
    """The project does not ask for such a field."""

    code = "unknown_field"


class BadListError(InvalidError):
    """Files or proposals cannot be listed like that."""

    code = "bad_list"


class BadCategoryError(InvalidError):
    """A category is a short line."""

    code = "bad_category"


class ProjectExistsError(ConflictError):
    """There is a project of that name."""

    code = "project_exists"


@dataclass(frozen=True, slots=True)
class Field:
    """Something to be found in the files of a project. `label`: how it is written there ("Invoice number").

    `categories`: of which files; none: of all.
    """

    name: str
    type: str = "text"
    label: str = ""
    description: str = ""
    unit: str = ""
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Strangers define fields: what cannot be one is refused here."""
        if not isinstance(self.name, str) or not _FIELD.fullmatch(self.name):
            raise BadFieldError(
                f"{str(self.name)[:80]!r} cannot be the name of a field",
                fix="small letters, digits and underscores, a letter first, at most 60: invoice_number",
            )
        if self.type not in TYPES:
            raise BadFieldError(
                f"{self.name}: there is no type {str(self.type)[:50]!r}", fix=f"there are {', '.join(TYPES)}"
            )
        label = self.label or self.name.replace("_", " ").capitalize()
        for part, given, most in (
            ("label", label, LABEL_CHARACTERS),
            ("description", self.description, DESCRIPTION_CHARACTERS),
            ("unit", self.unit, UNIT_CHARACTERS),
        ):
            object.__setattr__(self, part, self._line(part, given, most))
        if len(self.categories) > MOST_CATEGORIES:
            raise BadFieldError(f"{self.name}: a field is for at most {MOST_CATEGORIES} categories")
        object.__setattr__(self, "categories", tuple(dict.fromkeys(map(clean_category, self.categories))))

    def _line(self, part: str, given: str, most: int) -> str:
        plain = " ".join(given.split())
        if len(plain) > most or not plain.isprintable():
            raise BadFieldError(f"{self.name}: the {part} has at most {most} printable characters")
        return plain


def check_fields(fields: Iterable[Field]) -> list[Field]:
    """A catalog: each name once, and not too many."""
    known: dict[str, Field] = {}
    for field in fields:
        if field.name in known:
            raise BadFieldError(f"the field {field.name} is there twice")
        known[field.name] = field
    if len(known) > MOST_FIELDS:
        raise BadFieldError(f"a project has at most {MOST_FIELDS} fields, not {len(known)}")
    return list(known.values())


def catalog_of(fields: Sequence[Field]) -> bytes:
    """The digest of a catalog: the same for the same fields, in whatever order they are shown."""
    told = [asdict(field) for field in sorted(fields, key=lambda field: field.name)]
    for field in told:
        if not field["categories"]:  # as before there were any
            del field["categories"]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()


def clean_category(name: str) -> str:
    """A category in one line."""
    plain = " ".join(str(name).split())
    if not plain or len(plain) > CATEGORY_CHARACTERS or not plain.isprintable() or "," in plain:
        raise BadCategoryError(
            f"{plain[:80]!r} cannot be a category", fix=f"1 to {CATEGORY_CHARACTERS} characters, no comma"
        )
    return plain


def fields_for(fields: Sequence[Field], category: str) -> tuple[Field, ...]:
    """Those that are looked for in a file of this category; not known: all, and whoever reads the file chooses."""
    if not category:
        return tuple(fields)
    same = category.casefold()
    return tuple(
        replace(field, categories=())
        for field in fields
        if not field.categories or same in (each.casefold() for each in field.categories)
    )


def make_slug(name: str) -> str:
    """What a project is called in addresses and commands: small letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_CHARACTERS].strip("-")
    if not slug:
        raise BadProjectError(f"{name!r} makes no short name", fix="use some Latin letters, or give a slug")
    return slug


def check_slug(slug: str) -> str:
    """One that was chosen by hand."""
    if not _SLUG.fullmatch(slug) or len(slug) > SLUG_CHARACTERS:
        raise BadProjectError(
            f"{slug[:80]!r} cannot be a slug",
            fix="small letters and digits, with hyphens between: my-project",
        )
    return slug


def clean_file_name(name: str | bytes) -> str:
    """What a file is called, in one line that any page can show."""
    plain = " ".join(shown(to_text(name)).split())
    return plain[-FILE_NAME_CHARACTERS:].strip() or "file"


def id_of(subject_id: str | None) -> int:
    """The analysis that a job is about; 0, which is none, if it is about nothing."""
    return int(subject_id) if subject_id and subject_id.isdecimal() and len(subject_id) < 19 else 0


def owner_of(project_id: int) -> str:
    """Whose work its jobs are."""
    return f"project:{project_id}"


def blob_name(sha256: bytes) -> str:
    """Where the bytes of a content lie, once for all files that have it; relative to the data folder."""
    return f"{FILES}/{sha256.hex()[:2]}/{sha256.hex()}"


def blob_path(data_folder: Path, sha256: bytes) -> Path:
    """The same, from the root."""
    return data_folder / blob_name(sha256)


def home_of_analysis(analysis_id: int) -> str:
    """Beside which name the folders of an analysis' derivatives are, relative to the data folder."""
    return f"{OUTPUTS}/{analysis_id % SHARDS:03}/{analysis_id}"

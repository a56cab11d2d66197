"""The settings of a child process: given to it, without what reads them elsewhere, which takes long to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mediamill.processors import settings as given_settings
from mediamill.processors.settings import GIVEN, read_settings, take_given

PROCESSORS = (
    "document",
    "image",
    "intake.processor",
    "library.tag",
    "library.video",
    "sticker",
    "stub",
    "video",
)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of the days when the language was German."""
    monkeypatch.setattr(given_settings, "_given", None)  # as it is put back
    monkeypatch.setenv(GIVEN, msgspec.json.encode({"speech_language": "de", "document_pages": 7}).decode())
    monkeypatch.setenv("MEDIAMILL_MODELS", "/somewhere/models")
    monkeypatch.setenv("MEDIAMILL_OPENAI_KEY", "sk-very-secret")
    monkeypatch.setenv("MEDIAMILL_SPEECH_LANGUAGE", "fr")
    monkeypatch.setenv("MEDIAMILL_DOCUMENT_OCR_PAGES", "9")
    take_given()


def test_a_child_goes_by_what_it_was_given_and_reads_what_is_missing(given: None) -> None:
    settings = read_settings()
    assert (settings.speech_language, settings.document_pages) == ("de", 7)
    assert settings.models_folder == Path("/somewhere/models")
    assert settings.document_ocr_pages == 9
    changed = settings.model_copy(update={"document_pages": 8})
    assert (changed.document_pages, changed.speech_language, settings.document_pages) == (8, "de", 7)


def test_a_key_that_a_child_was_given_is_not_shown(given: None) -> None:
    settings = read_settings()
    assert settings.openai_key is not None
    assert settings.openai_key.get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in f"{settings.openai_key!r} {settings.openai_key}"
    assert settings.gemini_key is None


def test_children_and_callers_import_neither_pydantic_nor_what_prints_in_colours() -> None:
    """Each took a tenth of a second and more of every start."""
    modules = [f"mediamill.processors.{name}" for name in PROCESSORS]
    code = f"import sys, mediamill.worker.caller, mediamill.worker.child, {', '.join(modules)}\n"
    code += (
        "print([name for name in ('pydantic', 'pydantic_settings', 'rich', 'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

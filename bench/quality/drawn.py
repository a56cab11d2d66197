"""Images of text drawn by rule, where labelled real ones are scarce: text, typefaces and wear that nobody picked.

English is the licence of a typeface (Apache 2.0) from its first line on; other languages are Django's translations of
its own messages, from the first on. Each image takes the next typeface and the next size; nothing is left to chance but
the wear, whose seed is the number of the image.
"""

from __future__ import annotations

import ast
import io
import random
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bench.quality.fetch import Archive, fetch
from mediamill.media.images import Pixels

TYPEFACES = (  # all that one maker has put on the index; the regular weight of each
    Archive(
        "font-amatic-sc",
        "font-amatic-sc-0.0.4.tar.gz",
        "0766ee499ac3c6157d200c1041ae4fc9dec85d7c7f6db80a84815ff517e6ba81",
        ("font_amatic_sc/files/AmaticSC-Regular.ttf",),
    ),
    Archive(
        "font-caladea",
        "font_caladea-0.0.2-py3-none-any.whl",
        "eab5b77f1da830226524f419d16d4bc4cb5b68d2de0f47ef83760a8b202e94bc",
        ("font_caladea/files/Caladea-Regular.ttf",),
    ),
    Archive(
        "font-fredoka-one",
        "font-fredoka-one-0.0.4.tar.gz",
        "cd5fd4682f7cc79107d006793717c41bf902093c570b576b8219766052297417",
        ("font_fredoka_one/files/FredokaOne-Regular.ttf",),
    ),
    Archive(
        "font-hanken-grotesk",
        "font_hanken_grotesk-0.0.2-py3-none-any.whl",
        "7c3609e9bcdc2c9550b2a3baaed937eb7598fc1034e7df1ebcc4eb5489fa86f9",
        ("font_hanken_grotesk/files/HankenGrotesk-Regular.otf",),
    ),
    Archive(
        "font-intuitive",
        "font-intuitive-0.0.4.tar.gz",
        "f5744edf796949252bf3c8feb29b4c685c3e76f7848be638d3a9512e4730ee80",
        ("font_intuitive/files/Intuitive.ttf",),
    ),
    Archive(
        "font-manrope",
        "font-manrope-0.0.2.tar.gz",
        "830f026b2dfe4e65d88f772ac0695d1ca50c6dc1f96003802d04adff08596f03",
        ("font_manrope/files/Manrope-Regular.ttf",),
    ),
    Archive(
        "font-roboto",
        "font-roboto-0.0.1.tar.gz",
        "8bc9136bf46609fbb13af4783016799b14e23dda294a61791171de7ea2ec457f",
        ("font_roboto/files/Roboto-Regular.ttf",),
    ),
    Archive(
        "font-source-sans-pro",
        "font-source-sans-pro-0.0.1.tar.gz",
        "3f81d8e52b0d7e930e2c867c0d3ee549312d03f97b71b664a8361006311f72e5",
        ("font_source_sans_pro/files/SourceSansPro-Regular.ttf",),
    ),
    Archive(
        "font-source-serif-pro",
        "font-source-serif-pro-0.0.1.tar.gz",
        "d903ac3e5c3515df2ea98654fc04b6399069f74152f8b9136db4c4c16a75e2ce",
        ("font_source_serif_pro/files/SourceSerifPro-Regular.ttf",),
    ),
)
ENGLISH = Archive(
    "font-roboto",
    "font-roboto-0.0.1.tar.gz",
    "8bc9136bf46609fbb13af4783016799b14e23dda294a61791171de7ea2ec457f",
    ("font_roboto/files/LICENSE",),
)
TRANSLATIONS = Archive(
    "django",
    "django-5.2.9.tar.gz",
    "16b5ccfc5e8c27e6c0561af551d2ea32852d7352c67d452ae3e76b4f6b2ca495",
    ("django/conf/locale/",),
)
CAPITALS = "font-amatic-sc"  # has no small letters, so its text is in capitals
LATIN = ("cs", "de", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
OTHER_SCRIPTS = ("el", "ru", "uk")
SIZES = (14, 18, 24, 32)  # pixels from the top of a line to its bottom
ENGLISH_IMAGES = 36  # every typeface in every size
CHARACTERS = 280  # of an image
COLUMNS = 60  # characters of a line


@dataclass(frozen=True)
class Drawn:
    """An image of text; a worn one was spoilt on purpose."""

    name: str
    language: str
    typeface: str
    size: int
    worn: bool
    text: str
    pixels: Pixels


def draw_all() -> Iterator[Drawn]:
    """English in every typeface and size, every second image worn; then the other languages, clean."""
    licence = (fetch(ENGLISH) / ENGLISH.folders[0]).read_text()
    texts = [("en", text) for text in islice(passages(licence), ENGLISH_IMAGES)]
    texts += [(language, next(passages(translations(language)))) for language in LATIN + OTHER_SCRIPTS]
    for number, (language, text) in enumerate(texts):
        size = SIZES[number // len(TYPEFACES) % len(SIZES)]
        archive, font = find_typeface(text, number, size)
        text = text.upper() if archive.package == CAPITALS else text
        image = draw(text, font, size)
        worn = language == "en" and number % 2 == 1
        pixels = wear(image, number) if worn else np.asarray(image)
        name = archive.package.removeprefix("font-")
        yield Drawn(f"{language}-{number}", language, name, size, worn, text, pixels)


def passages(text: str) -> Iterator[str]:
    """Lines of a text, so many characters at a time."""
    words, taken = text.split(), 0
    while taken < len(words):
        first, length = taken, 0
        while taken < len(words) and length < CHARACTERS:
            length += len(words[taken]) + 1
            taken += 1
        yield "\n".join(textwrap.wrap(" ".join(words[first:taken]), COLUMNS, break_on_hyphens=False))


def translations(language: str) -> str:
    """All sentences of a language that have no place-holder in them."""
    path = fetch(TRANSLATIONS) / f"django/conf/locale/{language}/LC_MESSAGES/django.po"
    said = re.findall(r'^msgstr ((?:".*"\n?)+)', path.read_text(encoding="utf-8"), re.MULTILINE)
    sentences = ["".join(map(ast.literal_eval, message.splitlines())) for message in said[1:]]
    return " ".join(
        one for one in sentences if " " in one and one.endswith(".") and not re.search(r"[%<\n]", one)
    )


def find_typeface(text: str, number: int, size: int) -> tuple[Archive, ImageFont.FreeTypeFont]:
    """The next typeface; if it lacks a letter of the text, the one after it."""
    for step in range(len(TYPEFACES)):
        archive = TYPEFACES[(number + step) % len(TYPEFACES)]
        font = ImageFont.truetype(fetch(archive) / archive.folders[0], size)
        nothing = bytes(font.getmask("\uffff"))
        if not any(bytes(font.getmask(letter)) == nothing for letter in set(text) - set(" \n")):
            return archive, font
    raise SystemExit(f"no typeface has all letters of {text!r}")


def draw(text: str, font: ImageFont.FreeTypeFont, size: int) -> Image.Image:
    """Black on white, with a margin."""
    gap = size // 2
    paper = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    _, _, right, bottom = paper.multiline_textbbox((0, 0), text, font, spacing=gap)
    image = Image.new("RGB", (int(right) + 4 * size, int(bottom) + 4 * size), "white")
    ImageDraw.Draw(image).multiline_text((2 * size, 2 * size), text, "black", font, spacing=gap)
    return image


def wear(image: Image.Image, seed: int) -> Pixels:
    """Up to two degrees askew, less contrast, noise, and saved as a poor JPEG."""
    chance = random.Random(seed)
    askew = image.rotate(chance.uniform(-2, 2), Image.Resampling.BICUBIC, fillcolor="white")
    light = np.asarray(askew, dtype=np.float32) * 0.7 + 40
    noise = np.random.default_rng(seed).normal(0, 12, light.shape)
    spoilt = Image.fromarray(np.clip(light + noise, 0, 255).astype(np.uint8))
    stored = io.BytesIO()
    spoilt.save(stored, "JPEG", quality=chance.randint(30, 60))
    return np.asarray(Image.open(stored).convert("RGB"))

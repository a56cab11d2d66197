"""Names of languages as speech servers spell them, to the codes that we use."""

from __future__ import annotations

_NAMES = (
    "ar arabic, bg bulgarian, bn bengali, ca catalan, cs czech, da danish, de german, el greek, en english, "
    "es spanish, et estonian, fa persian, fi finnish, fr french, gl galician, he hebrew, hi hindi, hr croatian, "
    "hu hungarian, id indonesian, is icelandic, it italian, ja japanese, ko korean, lt lithuanian, lv latvian, "
    "mk macedonian, mr marathi, ms malay, nl dutch, no norwegian, pl polish, pt portuguese, ro romanian, "
    "ru russian, sk slovak, sl slovenian, sr serbian, sv swedish, sw swahili, ta tamil, te telugu, th thai, "
    "tl tagalog, tr turkish, uk ukrainian, ur urdu, vi vietnamese, yue cantonese, zh chinese"
)
_CODES = {name: code for code, name in (pair.split(" ") for pair in _NAMES.split(", "))}


def language_code(stated: object) -> str | None:
    """`English` and `en` are both `en`; what is neither a code nor a name that we know is nothing."""
    if not isinstance(stated, str):
        return None
    word = stated.strip().lower()
    if word in _CODES:
        return _CODES[word]
    code = word.partition("-")[0]
    return code if 2 <= len(code) <= 3 and code.isascii() and code.isalpha() else None


def language_name(code: str | None) -> str | None:
    """`en` is English; a code that we do not know stays what it is."""
    name = next((name for name, known in _CODES.items() if known == code), None)
    return name.capitalize() if name else code

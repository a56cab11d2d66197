"""Units of measure and money: how they are written, and which turn into each other exactly."""

from __future__ import annotations

import re
from decimal import Decimal

# One line a quantity, its units with how many of the first they are. Only what is exact, and means one thing.
_QUANTITIES = (
    "W 1 kW 1000 MW 1000000 mW 0.001",
    "VA 1 kVA 1000 MVA 1000000",
    "Wh 1 kWh 1000 MWh 1000000",
    "V 1 kV 1000 mV 0.001",
    "A 1 mA 0.001 kA 1000",
    "Ah 1 mAh 0.001",
    "Hz 1 kHz 1000 MHz 1000000 GHz 1000000000",
    "g 1 kg 1000 mg 0.001 t 1000000",
    "m 1 mm 0.001 cm 0.01 km 1000 dm 0.1 µm 0.000001",
    "m² 1 cm² 0.0001 mm² 0.000001",
    "m³ 1 l 0.001 ml 0.000001 cl 0.00001 dm³ 0.001 cm³ 0.000001",
    "Pa 1 kPa 1000 hPa 100 MPa 1000000 bar 100000 mbar 100",
    "N 1 kN 1000",
    "Nm 1 kNm 1000",
    "s 1 ms 0.001 min 60 h 3600",
    "Ω 1 kΩ 1000 MΩ 1000000",
    "bit/s 1 kbit/s 1000 Mbit/s 1000000 Gbit/s 1000000000",
    "°C 1",
    "K 1",
    "°F 1",
    "% 1",
    "dB 1",
    "dB(A) 1",
    "rpm 1",
    "m/s 1",
    "km/h 1",
    "m³/h 1",
    "l/min 1",
    "° 1",
    "in 1",
    "ft 1",
    "lb 1",
    "VAr 1",
    "lm 1",
    "lx 1",
    "GB 1",
    "TB 1",
    "MB 1",
    "days 1",
    "months 1",
    "years 1",
    "pcs 1",
)
_ALIASES = {
    "m2": "m²", "qm": "m²", "sqm": "m²", "m3": "m³", "cbm": "m³", "cm2": "cm²", "cm3": "cm³", "mm2": "mm²",
    "L": "l", "Liter": "l", "Litre": "l", "liter": "l", "litre": "l", "liters": "l", "litres": "l", "mL": "ml",
    "um": "µm", "μm": "µm", "Ohm": "Ω", "ohm": "Ω", "kOhm": "kΩ", "Ω": "Ω", "ºC": "°C", "℃": "°C", "C°": "°C",
    "KW": "kW", "Kw": "kW", "KWh": "kWh", "kwh": "kWh", "KWH": "kWh", "kWH": "kWh", "kw": "kW", "kva": "kVA",
    "KG": "kg", "Kg": "kg", "Watt": "W", "watt": "W", "watts": "W", "Volt": "V", "volt": "V", "volts": "V",
    "VAC": "V", "VDC": "V", "Ampere": "A", "hz": "Hz", "HZ": "Hz", "U/min": "rpm", "min-1": "rpm", "1/min": "rpm",
    "min⁻¹": "rpm", "dBA": "dB(A)", "percent": "%", "Prozent": "%", "Tage": "days", "Tagen": "days", "day": "days",
    "Monate": "months", "Monaten": "months", "Monat": "months", "month": "months", "Jahre": "years",
    "Jahren": "years", "Jahr": "years", "year": "years", "Stück": "pcs", "Stk": "pcs", "Stk.": "pcs", "St.": "pcs",
    "pieces": "pcs", "pc": "pcs", "m3/h": "m³/h", "kg.": "kg", "Std": "h", "Std.": "h", "hrs": "h", "hours": "h",
    "Stunden": "h", "minutes": "min", "seconds": "s", "inch": "in", '"': "in", "lbs": "lb", "mtr": "m", "Meter": "m",
}  # fmt: skip
UNITS: dict[str, tuple[str, Decimal]] = {}
for _line in _QUANTITIES:
    _words = _line.split()
    for _name, _factor in zip(_words[::2], _words[1::2], strict=True):
        UNITS[_name] = (_words[0], Decimal(_factor))
UNIT = re.compile(r"\s{0,2}(%|[°ºΩµμ℃A-Za-z\"][\wäöü°²³⁻¹µμΩ/()-]{0,9}|1/min)")
CURRENCIES = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "zł": "PLN", "Kč": "CZK", "₹": "INR", "₺": "TRY",
    "US$": "USD", "USD": "USD", "EUR": "EUR", "EURO": "EUR", "Euro": "EUR", "GBP": "GBP", "CHF": "CHF",
    "SFr.": "CHF", "Fr.": "CHF", "JPY": "JPY", "PLN": "PLN", "CZK": "CZK", "SEK": "SEK", "NOK": "NOK", "DKK": "DKK",
    "HUF": "HUF", "CAD": "CAD", "C$": "CAD", "AUD": "AUD", "A$": "AUD", "CNY": "CNY", "INR": "INR", "TRY": "TRY",
    "BRL": "BRL", "R$": "BRL", "MXN": "MXN", "ZAR": "ZAR", "SGD": "SGD", "HKD": "HKD", "RON": "RON",
}  # fmt: skip
_MONEY = "|".join(re.escape(name) for name in sorted(CURRENCIES, key=len, reverse=True))
CURRENCY = re.compile(rf"(?<![A-Za-z])(?:{_MONEY})(?![A-Za-z])")


def unit_named(word: str) -> str:
    """The unit that a word means, as we write it; empty if it is none."""
    word = word.strip().rstrip(".,;:)").strip("([") if word.strip() != "dB(A)" else "dB(A)"
    word = _ALIASES.get(word, word)
    return word if word in UNITS else ""


def is_other_unit(have: str, want: str) -> bool:
    """Whether both are units or currencies that we know, and not the same."""
    one, other = _known(have), _known(want)
    return bool(one and other) and one != other


def _known(word: str) -> str:
    return unit_named(word) or currency_named(word) or currency_named(word.upper())


def convert(value: str, have: str, want: str) -> str | None:
    """The number in another unit of the same quantity; None where that is not exact and obvious."""
    one, other = UNITS.get(have), UNITS.get(want)
    if one is None or other is None or one[0] != other[0]:
        return None
    if have == want:
        return value
    number = Decimal(value) * one[1] / other[1]
    return plain_decimal(number) if abs(number.adjusted()) < 20 else None


def plain_decimal(number: Decimal) -> str:
    """Without an exponent and without zeros that say nothing."""
    told = format(number.normalize(), "f")
    return told if told != "-0" else "0"


def currency_named(word: str) -> str:
    """The ISO code of a currency; empty if the word is none."""
    return CURRENCIES.get(word.strip(), "")

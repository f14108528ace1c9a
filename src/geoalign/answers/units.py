"""Units behind a number, in one spelling: `5\\text{ cm}`, `5cm` and `5 centimetres` are 5 and `cm`."""

from __future__ import annotations

import re
from collections import Counter

# Spellings of each unit beside its own; words of more than three letters in lower case, whatever theirs.
_SPELLINGS = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "dm": "decimeter decimetre", "m": "meter metre",
    "km": "kilometer kilometre", "in": "inch inches", "ft": "foot feet", "yd": "yard", "mi": "mile",
    "mg": "milligram", "g": "gram", "kg": "kilogram", "lb": "lbs pound", "oz": "ounce", "ton": "tonne",
    "ms": "millisecond", "s": "sec second", "min": "minute mins", "h": "hr hrs hour", "day": "", "week": "",
    "month": "", "year": "yr yrs", "ml": "mL milliliter millilitre", "L": "liter litre", "gal": "gallon", "cup": "",
    "pt": "pint", "qt": "quart", "N": "newton", "J": "joule", "kJ": "kilojoule", "W": "watt", "kW": "kilowatt",
    "V": "volt", "A": "ampere amp", "Hz": "hertz", "Pa": "pascal", "kPa": "kilopascal", "K": "kelvin", "mol": "mole",
    "eV": "", "cal": "calorie", "acre": "", "hectare": "ha", "rad": "radian", "degree": "deg",
    "degC": "Celsius celsius", "degF": "Fahrenheit fahrenheit", "dollar": "USD",
    "cent": "", "euro": "EUR €", "£": "GBP",
    "nm": "nanometer nanometre", "um": "micrometer micrometre micron", "mV": "millivolt", "kV": "kilovolt",
    "mA": "milliampere milliamp", "mJ": "millijoule", "MJ": "megajoule", "GJ": "gigajoule", "mW": "milliwatt",
    "MW": "megawatt", "GW": "gigawatt", "Wh": "", "kWh": "", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz",
    "keV": "", "MeV": "", "GeV": "", "TeV": "", "kN": "kilonewton", "MPa": "megapascal", "bar": "", "atm": "atmosphere",
    "kcal": "kilocalorie", "bit": "", "byte": "", "kB": "KB kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "rpm": "", "mph": "", "kmh": "kph kmph", "am": "a.m AM A.M", "pm": "p.m PM P.M",
}  # fmt: skip
_UNITS = {name: name for name in _SPELLINGS}
for _name, _others in _SPELLINGS.items():
    for _other in (_name, *_others.split()):
        _UNITS[_other] = _name
        if len(_other) > 2:
            _UNITS[f"{_other}s"] = _name
# Words that name no particular unit, as in `17 square units`.
_UNITS |= {"unit": "", "units": "", "sq": ""}
_POWERS = {"square": 2, "sq": 2, "sq.": 2, "cubic": 3, "cu": 3, "cu.": 3}

# A space, of LaTeX, too.
SPACE = r"(?:\s|~|\\[,;: ])"
# A value: numbers, brackets and signs between them, fractions, roots, powers, pi.
_VALUE = re.compile(r"(?:\\(?:frac|times|cdot|sqrt|pi|[,;: ])(?![A-Za-z])|[-+0-9.,(){}\[\]^*/\s~])+")
_DEGREES = re.compile(r"\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})")
_CURRENCY = re.compile(r"\s*(\\?\$|€|£)\s*(?=[-+.0-9])")
_CURRENCIES = {"$": "dollar", r"\$": "dollar", "€": "euro", "£": "£"}
_PERCENT = re.compile(r"\\?%|percent")
_TEMPERATURE = re.compile(r"(?:degrees?|deg) ([CcFf])(?:elsius|ahrenheit)?(?![A-Za-z])")
_FACTOR = re.compile(r"([A-Za-z€£.]+)(?:\^\{?(-?[0-9])\}?)?")
STYLED = re.compile(
    r"\\(?:text(?:bf|rm|it|sf|tt|normal|up)?|math(?:rm|bf|it|sf)|rm|bf|mbox|fbox|underline|emph|boldsymbol|bm|operatorname)(?![A-Za-z])\s*\{([^{}]*)\}"
)
# Spellings that are always units, never products of symbols.
_NEVER_SYMBOLS = frozenset(["%", "degree", "degC", "degF", "m*s^-1", "m*s^-2", *_CURRENCIES.values()])
_BEHIND_NUMBER = re.compile(rf"(?<=[0-9}}])((?:{SPACE}|\x01)*)[\s~]*([A-Za-z]+)")
_HARDLY_SYMBOLS = ("cm", "km", "mm", "kg", "ft", "lb", "yr", "hr", "Hz")
_WORD = re.compile(r"(\s|~)?(?<![A-Za-z\\])([A-Za-z]{2,})")
_LONGEST = 60


def split_unit(text: str) -> tuple[str, str]:
    r"""A number and its unit, `("5", "cm^2")` of `5 square centimeters`; the text itself and "" where none is known.

    Letter styles (`\text{...}`) must be gone. Degrees are `degree`, a dollar sign in front `dollar`, percent `%`.
    Known units are multiplied and divided: `3 m/s`, `3 m s^{-1}` and `3 meters per second` have the unit `m*s^-1`.
    """
    currency = _CURRENCY.match(text)
    if currency is not None and text.count("$") <= 1:
        return text[currency.end() :], _CURRENCIES[currency[1]]
    spelt = _DEGREES.sub(" degree ", text)
    value = _VALUE.match(spelt)
    if value is None or not any(sign.isdigit() for sign in value[0]):
        return text, ""
    number = re.sub(rf"{SPACE}+$", "", value[0])
    behind = spelt[value.end() :].strip()
    if not behind or len(behind) > _LONGEST:
        return text, ""
    if _PERCENT.fullmatch(behind):
        return number, "%"
    if number.endswith("/"):
        number = number[:-1].strip()
        behind = f"1/{behind}"
    unit = _unit(behind)
    return (text, "") if unit is None else (number, unit)


def stated_unit(text: str) -> tuple[str, str]:
    r"""`split_unit` where the unit cannot be symbols: `0.64N` may be 0.64 times N, and `3mg` 3 times m and g.

    A unit in a letter style is one (`5\text{ m}`), as are degrees, dollars and percent signs, and so is one of three
    letters or more, or of two behind a space, or of two that are hardly ever symbols (`5cm`).
    """
    number, unit = split_unit(STYLED.sub(r" \1", text))
    unstyled = STYLED.sub("", text)
    is_unit = unit in _NEVER_SYMBOLS or _has_unit_word(unstyled) or not _has_symbol(unstyled)
    return (number, unit) if unit and is_unit else (text, "")


def units_in(text: str) -> set[str]:
    """The units behind the numbers of a whole answer, such as a list; no letter right behind one, nor the word "in"."""
    found = set()
    for apart, word in _BEHIND_NUMBER.findall(STYLED.sub("\x01\\1", text)):
        name = _unit_of_spelling(word)
        if name and word != "in" and (apart or len(word) > 1):
            found.add(name)
    return found


def _has_unit_word(text: str) -> bool:
    """Whether a word in a text is longer than products of symbols usually are."""
    words = _WORD.findall(text)
    return any(space or len(letters) > 2 or letters in _HARDLY_SYMBOLS for space, letters in words)


def _has_symbol(text: str) -> bool:
    """Whether a letter stands in a text, other than in the name of a command."""
    return any(sign.isalpha() for sign in re.sub(r"\\[A-Za-z]+", "", text))


def _unit(text: str) -> str | None:
    """A product of known units in one spelling (`m*s^-1`); None if a part of the text is no known unit."""
    text = re.sub(r"\\mu\s*(?=m(?![A-Za-z]))", "u", text)
    text = " ".join(re.sub(r"\\cdot(?![A-Za-z])|\*|\\[,;: ]|~", " ", text).split())
    text = text.replace(" per ", "/")
    text = _TEMPERATURE.sub(lambda match: f"deg{match[1].upper()}", text)
    powers: Counter[str] = Counter()
    for place, part in enumerate(text.split("/")):
        words = part.split()
        raised = 1
        for word in words:
            if word in _POWERS and word != words[-1]:
                raised = _POWERS[word]
                continue
            if word == "1":
                continue
            factor = _FACTOR.fullmatch(word)
            name = None if factor is None else _unit_of_spelling(factor[1])
            if factor is None or name is None:
                return None
            power = int(factor[2] or 1) * raised
            powers[name] += -power if place else power
            raised = 1
    return "*".join(
        name if power == 1 else f"{name}^{power}" for name, power in sorted(powers.items()) if name and power
    )


def _unit_of_spelling(word: str) -> str | None:
    """The unit that a word spells; "" for a word such as `units`, None for an unknown word."""
    word = word.rstrip(".") or word
    known = _UNITS.get(word)
    return _UNITS.get(word.lower()) if known is None and len(word) > 3 else known

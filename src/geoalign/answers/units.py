"""Units behind a number, in one spelling: `5\\text{ cm}`, `5cm` and `5 centimetres` are 5 and `cm`."""

from __future__ import annotations

import re

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
    "TB": "terabyte", "rpm": "", "am": "a.m AM A.M", "pm": "p.m PM P.M",
}  # fmt: skip
_UNITS = {name: name for name in _SPELLINGS}
for _name, _others in _SPELLINGS.items():
    for _other in (_name, *_others.split()):
        _UNITS[_other] = _name
        if len(_other) > 2:
            _UNITS[f"{_other}s"] = _name
_WHOLE = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "sq": "", "units": "", "unit": ""}
_POWERS = {"square": 2, "sq": 2, "sq.": 2, "cubic": 3, "cu": 3, "cu.": 3}

# A value: numbers, brackets and signs between them, fractions, roots, powers, pi.
_VALUE = re.compile(r"(?:\\(?:frac|times|cdot|sqrt|pi|[,;: ])(?![A-Za-z])|[-+0-9.,(){}\[\]^*/\s~])+")
_DEGREES = re.compile(r"\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})")
_CURRENCY = re.compile(r"\s*(\\?\$|€|£)\s*(?=[-+.0-9])")
_CURRENCIES = {"$": "dollar", r"\$": "dollar", "€": "euro", "£": "£"}
_BEHIND_NUMBER = re.compile(r"(?<=[0-9}])((?:\s|~|\\[,;: ]|\x01)*)[\s~]*([A-Za-z]+)")
_TEMPERATURE = re.compile(r"(?:degrees?|deg) ([CcFf])(?:elsius|ahrenheit)?(?![A-Za-z])")
# Minutes and seconds of an angle, feet and inches.
_PRIMES = {"'": "'", r"\prime": "'", "''": "''", '"': "''"}
_FACTOR = re.compile(r"([A-Za-z€£.]+)(?:\^\{?(-?[0-9])\}?)?")
STYLED = re.compile(
    r"\\(?:text(?:bf|rm|it|sf|tt|normal|up)?|math(?:rm|bf|it|sf)|rm|bf|mbox|fbox|underline|emph|boldsymbol|bm|operatorname)(?![A-Za-z])\s*\{([^{}]*)\}"
)
_HARDLY_SYMBOLS = ("cm", "km", "mm", "kg", "ft", "lb", "yr", "hr", "Hz")
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
    behind = spelt[value.end() :].strip()
    number = re.sub(r"(?:\s|~|\\[,;: ])+$", "", value[0])
    if behind in _PRIMES:
        return number, _PRIMES[behind]
    if not behind or len(behind) > _LONGEST:
        return text, ""
    if re.fullmatch(r"\\?%|percent", behind):
        return number, "%"
    if number.endswith("/"):
        number, behind = number[:-1].strip(), f"1/{behind}"
    unit = _unit(behind)
    return (text, "") if unit is None else (number, unit)


def stated_unit(text: str) -> tuple[str, str]:
    r"""`split_unit` where the unit cannot be symbols: `0.64N` may be 0.64 times N, and `3mg` 3 times m and g.

    A unit in a letter style is one (`5\text{ m}`), as are degrees, dollars and percent signs, and so is one of three
    letters or more, or of two behind a space, or of two that are hardly ever symbols (`5cm`).
    """
    number, unit = split_unit(STYLED.sub(r" \1", text))
    if unit in ("", "%", "degree", "degC", "degF", *_CURRENCIES.values()):
        return (number, unit) if unit else (text, "")
    for word in re.finditer(r"(\s|~)?(?<!\\)\b([A-Za-z]{2,})|(?<=[0-9])()([A-Za-z]{2,})", STYLED.sub("", text)):
        letters = word[2] or word[4]
        if len(letters) > 2 or word[1] or letters in _HARDLY_SYMBOLS:
            return number, unit
    unstyled = re.sub(r"\\[A-Za-z]+", "", STYLED.sub("", text))
    symbols = any(sign.isalpha() for sign in unstyled) and unit not in ("m*s^-1", "m*s^-2")
    return (text, "") if symbols else (number, unit)


def units_in(text: str) -> set[str]:
    """The units behind the numbers of a whole answer, such as a list; no letter right behind one, nor the word "in"."""
    found = set()
    for apart, word in _BEHIND_NUMBER.findall(STYLED.sub("\x01\\1", text)):
        name = _named(word)
        if name and word != "in" and (apart or len(word) > 1):
            found.add(name)
    return found


def _unit(text: str) -> str | None:
    """The product of known units that a text is, in one spelling; None where a part of it is none."""
    text = re.sub(r"\\mu\s*(?=m(?![A-Za-z]))", "u", text)
    text = " ".join(re.sub(r"\\cdot(?![A-Za-z])|\*|\\[,;: ]|~", " ", text).split())
    text = text.replace(" per ", "/")
    text = _TEMPERATURE.sub(_degrees_of, text)
    powers: dict[str, int] = {}
    for place, part in enumerate(text.split("/")):
        raised = 1
        for word in part.split():
            if word in _POWERS and part.split()[-1] != word:
                raised = _POWERS[word]
                continue
            factor = _FACTOR.fullmatch(word)
            if factor is None:
                if word == "1":
                    continue
                return None
            name = _named(factor[1])
            if name is None:
                return None
            power = int(factor[2] or 1) * raised * (-1 if place else 1)
            for one, sign in _parts(name):
                powers[one] = powers.get(one, 0) + sign * power
            raised = 1
    return "*".join(one if power == 1 else f"{one}^{power}" for one, power in sorted(powers.items()) if power)


def _degrees_of(match: re.Match[str]) -> str:
    return f"deg{match[1].upper()}"


def _named(word: str) -> str | None:
    """The unit of that spelling; "" for one that says nothing (`units`), None where none is known."""
    word = word.rstrip(".") or word
    if word in ("degC", "degF"):
        return word
    for spelling in (word, word.lower() if len(word) > 3 else word):
        if spelling in _WHOLE:
            return _WHOLE[spelling]
        if spelling in _UNITS:
            return _UNITS[spelling]
    return None


def _parts(name: str) -> list[tuple[str, int]]:
    above, _, below = name.partition("/")
    return [(one, sign) for one, sign in ((above, 1), (below, -1)) if one]

r"""Units beside a number: "12 \text{cm}", "90^\circ", "\$5", "50%", "7 apples".

A unit may be missing on either side, but two units must be the same: 12 kg is not 12 cm, 12 cm² is not 12 cm. Nothing
is converted: 120 mm is not 12 cm, as an answer. The percent sign is left out on both sides: 50 % is 50, and not 0.5.
"""

from __future__ import annotations

import re

_SPELLINGS = {
    "mm": "millimeter millimetre",
    "cm": "centimeter centimetre",
    "dm": "decimeter decimetre",
    "m": "meter metre",
    "km": "kilometer kilometre",
    "in": "inch inche",  # the last s is cut off before
    "ft": "foot feet",
    "yd": "yard",
    "mi": "mile",
    "mg": "milligram",
    "g": "gram",
    "kg": "kilogram kilo",
    "lb": "pound",
    "oz": "ounce",
    "ton": "tonne",
    "ml": "milliliter millilitre",
    "cl": "centiliter centilitre",
    "l": "liter litre",
    "gal": "gallon",
    "s": "second sec",
    "min": "minute",
    "h": "hour hr",
    "day": "",
    "week": "",
    "month": "",
    "year": "yr",
    "degree": "deg",
    "rad": "radian",
    "unit": "",
    "dollar": "usd",
    "cent": "",
    "euro": "eur",
    "mph": "",
    "kmh": "kph",
    "am": "",
    "pm": "",
    "hz": "hertz",
    "n": "newton",
    "j": "joule",
    "w": "watt",
    "v": "volt",
    "pa": "pascal",
}
NAMES = {name: unit for unit, names in _SPELLINGS.items() for name in (unit, *names.split())}
"""Every spelling, without its plural s -> the unit."""
SIGNS = {r"\$": "dollar", "€": "euro", "£": "sterling", "¥": "yen"}
_NO_UNIT = """
hundred thousand million billion trillion dozen score pair half halve third fourth quarter fifth sixth seventh eighth
ninth tenth hundredth thousandth twelfth squared cubed square root factorial pi or and not nor to than more les less
least most at between plu plus minu minus time times divided by over under mod modulo base remainder if for when where
with without unles unless except i is are equal approximately about either maybe perhap perhaps no none per of off point
double triple twice
"""
NO_UNIT = frozenset(_NO_UNIT.split())
"""Words that change a number, or join it to more: what ends in them is no number with a unit (singular forms too)."""
_FUNCTIONS = ("sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "frac", "arc", "sum", "lim")

_PERCENT = re.compile(r" ?(?:%|\\text\{ ?(?:percent|per cent|pct|%) ?\}|(?<![A-Za-z])percent)$", re.IGNORECASE)
_DEGREE = re.compile(r" ?\^ ?(?:\\circ|\{ ?\\circ ?\}) ?(?:\\text\{([CF])\}|([CF]))?$")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")
_TEXT_UNIT = re.compile(r"^(.*[^\\\s]) ?\\text\{([^{}]+)\} ?(?:\^ ?\{?([23])\}?)?$", re.DOTALL)
_BARE_UNIT = re.compile(r"^(.*[\d})]) ?([A-Za-z]+(?:[ /.][A-Za-z]+){0,3}\.?)(?:\^ ?\{?([23])\}?)?$", re.DOTALL)


def split_unit(text: str) -> tuple[str, str]:
    """(what stands before the unit, the unit in one spelling), of a tidy text; the unit is "" without one."""
    without = _PERCENT.sub("", text)
    if without != text:
        return without.strip(), "percent"
    for sign, unit in SIGNS.items():
        for body in (text.removeprefix(sign), text.removeprefix("-" + sign), text.removesuffix(sign)):
            if body != text and body:
                return ("-" if text.startswith("-" + sign) else "") + body.strip(), unit
    if (match := _DEGREE.search(text)) and not _TRIGONOMETRIC.search(text):  # sin 30° is no 30 of anything
        return text[: match.start()].strip(), "degree" + (match.group(1) or match.group(2) or "")
    if match := _TEXT_UNIT.match(text):
        unit = _unit(match.group(2), match.group(3), in_text=True)
        return (match.group(1).strip(), unit) if unit else (text, "")
    if match := _BARE_UNIT.match(text):
        unit = _unit(match.group(2), match.group(3), in_text=False)
        return (match.group(1).strip(), unit) if unit else (text, "")
    return text, ""


def same_unit(a: str, b: str) -> bool:
    """Equal, or one of them is missing."""
    return not a or not b or a == b


def _unit(written: str, power: str | None, *, in_text: bool) -> str:
    """One spelling of the unit, or "" if these words are none.

    In \\text{} any few words are: apples, people. Bare letters are a product of variables unless they name a unit of
    two letters or more, or are a word of four: 5 km and 5 apples, but not 5 m (which may be 5·m).
    """
    written = written.lower().replace("sq.", "square").strip(" .").replace("a.m", "am").replace("p.m", "pm")
    words = [word.removesuffix("s") if len(word) > 2 else word for word in re.findall(r"[a-z]+|[/^23]", written)]
    exponent = power or ""
    if words[:1] in (["square"], ["cubic"], ["sq"]):
        exponent, words = "3" if words[0] == "cubic" else "2", words[1:]
    if words[-2:-1] == ["^"]:
        exponent, words = words[-1], words[:-2]
    if not words or len(words) > 4 or not all(w in "/23" or w.isalpha() for w in words):
        return ""
    if re.sub(r"[a-z \-'./^23]", "", written):
        return ""
    names = [_name(word, in_text=in_text) for word in ("/" if w == "per" else w for w in words)]
    if "" in names:
        return ""
    joined = " ".join(names).replace(" / ", "/")
    joined = {"mi/h": "mph", "km/h": "kmh", "mile/h": "mph"}.get(joined, joined)
    return joined + (f"^{exponent}" if exponent else "")


def _name(word: str, *, in_text: bool) -> str:
    if word == "/":
        return word
    if word in NO_UNIT:
        return ""
    if word in NAMES:
        return NAMES[word] if in_text or len(word) > 1 else ""
    if in_text:
        return word if len(word) > 2 else ""
    return word if len(word) > 3 and not word.startswith(_FUNCTIONS) else ""

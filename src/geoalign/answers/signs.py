"""Unicode signs of mathematics as LaTeX and ASCII, so that `√3`, `½`, `x²`, `−5`, `１２` are read as what they mean."""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₙₓᵢ", "0123456789+-=()aenxi", strict=True))
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}

# Signs that are replaced wherever they stand. A command is followed by a space, so that no letter joins its name.
_COMMANDS = {
    "×": "times", "⨯": "times", "✕": "times", "·": "cdot", "⋅": "cdot", "∙": "cdot", "÷": "div", "±": "pm", "∓": "mp",
    "∞": "infty", "∅": "emptyset", "∪": "cup", "∩": "cap", "∈": "in", "∉": "notin", "⊂": "subset", "⊆": "subseteq",
    "∖": "setminus", "≤": "le", "⩽": "le", "≦": "le", "≥": "ge", "⩾": "ge", "≧": "ge", "≠": "ne", "≈": "approx",
    "≡": "equiv", "∘": "circ", "⟨": "langle", "⟩": "rangle", "⌊": "lfloor", "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil",
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ϵ": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "∆": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
    "∠": "angle", "△": "triangle", "⊥": "perp", "∥": "parallel", "¬": "neg", "∧": "land", "∨": "lor", "→": "to",
    "⇒": "implies", "⟹": "implies", "∀": "forall", "∃": "exists", "∂": "partial", "∑": "sum", "∏": "prod", "∫": "int",
}  # fmt: skip
_PLAIN = {
    "−": "-", "﹣": "-", "⁄": "/", "∕": "/", "∗": "*", "⁎": "*", "°": r"^\circ ", "˚": r"^\circ ", "º": r"^\circ ",
    "℃": r"^\circ C", "℉": r"^\circ F", "ℝ": r"\mathbb{R}", "ℕ": r"\mathbb{N}", "ℤ": r"\mathbb{Z}",
    "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "∣": "|", "。": ".", "、": ",", "′": "'", "’": "'", "‘": "'", "“": '"',
    "”": '"', "…": r"\ldots ", "∶": ":",
}  # fmt: skip
_TABLE = {ord(sign): f"\\{name} " for sign, name in _COMMANDS.items()} | {
    ord(sign): text for sign, text in _PLAIN.items()
}

# Longer texts are no answers, and come back as they are.
LONGEST = 2000

# A dash is a minus only where nothing stands before it: `–5`, but `1–5` is a range.
_DASH = re.compile(r"([\w)\]}.%!]?)(\s*)[‐‑‒–—]\s?(?=\S)")
_RAISED = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_LOWERED = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")
_RAISED_OVER_LOWERED = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄/∕]([₀₁₂₃₄₅₆₇₈₉]+)")
_DIGITS_OVER_DIGITS = re.compile("([0-9]+)⁄([0-9]+)")
_ROOT_OF_DEGREE = re.compile(r"(?<![\w)\]}])([²³⁴⁵⁶⁷⁸⁹]|[¹²³⁴⁵⁶⁷⁸⁹][⁰¹²³⁴⁵⁶⁷⁸⁹])√")
_DEGREE = re.compile(r"\\sqrt\[[0-9]{1,2}\]$")
_RADICAND = re.compile(
    r"[0-9]+(?:\.[0-9]+)?|[A-Za-z]|\\[A-Za-z]+(?![A-Za-z{\[])|\\frac\{[^{}]*\}\{[^{}]*\}|\\sqrt(?:\[[0-9]+\])?\{[^{}]*\}"
)
_CLOSING = {"(": ")", "{": "}"}


def plain_signs(text: str) -> str:
    r"""The text with its Unicode signs as LaTeX: `2√3` is `2\sqrt{3}`, `x²` is `x^{2}`, `½` is `\frac{1}{2}`.

    Digits of every script and width are ASCII digits, spaces of every kind are spaces, and what cannot be seen is left
    out. A dash is a minus where nothing stands before it that it could reach from (`–5`; `1–5` is a range). ASCII, and
    texts longer than `LONGEST`, come back as they are.
    """
    if text.isascii() or len(text) > LONGEST:
        return text
    text = "".join(map(_seen, text))
    text = _RAISED_OVER_LOWERED.sub(_fraction_of_small_digits, text)
    text = "".join(map(_fraction_of_sign, text))
    text = _DIGITS_OVER_DIGITS.sub(r"\\frac{\1}{\2}", text)
    text = _ROOT_OF_DEGREE.sub(lambda match: rf"\sqrt[{_translated(match[1], _SUPERSCRIPTS)}]√", text)
    text = _RAISED.sub(lambda match: f"^{{{_translated(match[0], _SUPERSCRIPTS)}}}", text)
    text = _LOWERED.sub(lambda match: f"_{{{_translated(match[0], _SUBSCRIPTS)}}}", text)
    text = _DASH.sub(_minus_of_dash, text)
    return _with_roots(text.translate(_TABLE)).replace("^^", "^")


def _seen(sign: str) -> str:
    """One character as it is read: digits, spaces and letters of another width or style as the plain ones."""
    if sign.isascii():
        return sign
    category = unicodedata.category(sign)
    if category == "Nd":
        return str(unicodedata.decimal(sign))
    if category == "Zs":
        return " "
    if category == "Cf":
        return ""
    code = ord(sign)
    # Full-width forms, and the mathematical alphabets.
    if 0xFF01 <= code <= 0xFF5E or 0x1D400 <= code <= 0x1D7FF:
        return unicodedata.normalize("NFKC", sign)
    return sign


def _fraction_of_sign(sign: str) -> str:
    """`½` as a fraction; any other character as it is."""
    if sign.isascii() or unicodedata.category(sign) != "No":
        return sign
    above, slash, below = unicodedata.normalize("NFKC", sign).partition("⁄")
    return rf"\frac{{{above}}}{{{below}}}" if slash and above and below else sign


def _fraction_of_small_digits(match: re.Match[str]) -> str:
    above = _translated(match[1], _SUPERSCRIPTS)
    below = _translated(match[2], _SUBSCRIPTS)
    return rf"\frac{{{above}}}{{{below}}}"


def _translated(signs: str, table: dict[str, str]) -> str:
    return "".join(table[sign] for sign in signs)


def _minus_of_dash(match: re.Match[str]) -> str:
    before, spaces = match.groups()
    return match[0] if before else f"{spaces}-"


def _with_roots(text: str) -> str:
    """Root signs as `\\sqrt` of what follows them: a number, a letter, a fraction, a root, or what is in brackets."""
    *parts, done = re.split("([√∛∜])", text)
    # From the last root on, so that one may stand under another.
    for before, sign in zip(parts[-2::-2], parts[-1::-2], strict=True):
        command = "" if _DEGREE.search(before) else _ROOTS[sign]
        done = f"{before}{command}{_braced_radicand(done.lstrip())}"
    return done


def _braced_radicand(text: str) -> str:
    """The text with braces around what a root sign in front of it takes in; none where it takes in nothing."""
    end = _closed(text)
    if end:
        return f"{{{text[1 : end - 1]}}}{text[end:]}"
    radicand = _RADICAND.match(text)
    if radicand is None:
        return f" {text}"
    return f"{{{radicand[0]}}}{text[radicand.end() :]}"


def _closed(text: str) -> int:
    """Where the bracket that opens a text has closed; 0 where none opens it or it stays open."""
    closing = _CLOSING.get(text[:1])
    if closing is None:
        return 0
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == text[0]) - (sign == closing)
        if not depth:
            return place + 1
    return 0

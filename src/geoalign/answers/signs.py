"""Unicode signs of mathematics as LaTeX and ASCII, so that `√3`, `½`, `x²`, `−5`, `１２` are read as what they mean."""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₙₓᵢ", "0123456789+-=()aenxi")
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
_RAISED = re.compile(f"[{''.join(map(chr, _SUPERSCRIPTS))}]+")
_LOWERED = re.compile(f"[{''.join(map(chr, _SUBSCRIPTS))}]+")
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
    text = "".join(map(_as_read, text))
    text = _RAISED.sub(lambda raised: f"^{{{raised[0].translate(_SUPERSCRIPTS)}}}", text)
    text = _LOWERED.sub(lambda lowered: f"_{{{lowered[0].translate(_SUBSCRIPTS)}}}", text)
    text = _DASH.sub(_minus_of_dash, text)
    return _with_roots(text.translate(_TABLE)).replace("^^", "^")


def _as_read(sign: str) -> str:
    """One character as it is read: digits, spaces and letters of another width or style as the plain ones, `½` as a
    fraction."""
    if sign.isascii():
        return sign
    category = unicodedata.category(sign)
    if category == "Nd":
        return str(unicodedata.decimal(sign))
    if category == "Zs":
        return " "
    if category == "Cf":
        return ""
    if category == "No":
        above, _, below = unicodedata.normalize("NFKC", sign).partition("⁄")
        return rf"\frac{{{above}}}{{{below}}}" if above and below else sign
    code = ord(sign)
    # Full-width forms, and the mathematical alphabets.
    if 0xFF01 <= code <= 0xFF5E or 0x1D400 <= code <= 0x1D7FF:
        return unicodedata.normalize("NFKC", sign)
    return sign


def _minus_of_dash(match: re.Match[str]) -> str:
    before, spaces = match.groups()
    return match[0] if before else f"{spaces}-"


def _with_roots(text: str) -> str:
    """Root signs as `\\sqrt` of what follows them: a number, a letter, a fraction, a root, or what is in brackets."""
    *parts, done = re.split("([√∛∜])", text)
    # From the last root on, so that one may stand under another.
    for before, sign in zip(parts[-2::-2], parts[-1::-2], strict=True):
        done = f"{before}{_ROOTS[sign]}{_braced_radicand(done.lstrip())}"
    return done


def _braced_radicand(text: str) -> str:
    """The text with braces around what a root sign in front of it takes in; none where it takes in nothing."""
    end = _end_of_bracket(text)
    if end is not None:
        return f"{{{text[1 : end - 1]}}}{text[end:]}"
    radicand = _RADICAND.match(text)
    if radicand is None:
        return f" {text}"
    return f"{{{radicand[0]}}}{text[radicand.end() :]}"


def _end_of_bracket(text: str) -> int | None:
    """The place behind the bracket that closes the one at the beginning of a text; None where there is no such pair."""
    opening = text[:1]
    closing = _CLOSING.get(opening)
    if closing is None:
        return None
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == opening) - (sign == closing)
        if depth == 0:
            return place + 1
    return None

"""The texts of others in messages, on pages and on the terminal: every character visible, of bounded length."""

import unicodedata

from geoalign.text import DASH, invisible, label, listed, one_line, printable, quote, seed_ranges, visible

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x9b31m\u202ec\x00\ud800"
SHOWN = "a<U+001B>[2J<U+001B>]0;title<U+0007>b<U+009B>31m<U+202E>c<U+0000><U+D800>"


def test_what_is_invisible_is_one_rule_for_pages_and_the_terminal():
    assert [code for code in range(256) if invisible(chr(code))] == [*range(32), *range(127, 160), 0xAD]
    for character in map(chr, (*range(0x3000), 0xE000, 0xFFFF, *range(0x1F000, 0x1F800), 0xE0041)):
        hidden = unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
        assert invisible(character) is hidden
        if not hidden and character != DASH:
            assert printable(character) == character


def test_inert_by_hand():
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("1\u202e2\u2069") == "1⟨U+202E⟩2⟨U+2069⟩"
    assert visible("\r\u2028\ue000\U000e0041") == "⟨U+000D⟩⟨U+2028⟩⟨U+E000⟩⟨U+E0041⟩"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert visible("abcdef", limit=4) == "abcd … [2 more characters]"
    assert visible("אב 漢字 é") == "אב 漢字 é"


def test_long_text_loses_its_middle_and_says_so() -> None:
    # 10 of 30 characters stay: 5 at each end.
    assert one_line("a" * 15 + "b" * 15, 10) == "aaaaa ... [20 characters left out] ... bbbbb"
    assert one_line(" a\n  b\r\nc ") == "a b c"


def test_harmless_text() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("a\u00a0b\u3000c") == "a\u00a0b\u3000c"
    assert printable("a\n\x1b", kept="\n") == "a\n<U+001B>"


def test_values_in_messages_are_cut():
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**5000, {"k" * 10**6: 1}, b"\xff" * 10**6, "\x1b[2J\u202e\ud800"):
        assert len(quote(value, 50)) <= 80
        assert quote(value).isprintable()
    cut = one_line("a\n\x1b[2J" + "b" * 10**6, 20)
    assert cut == "a <U+001B>[2Jbbbb ... [999,986 characters left out] ... bbbbbbbbbb"
    assert (quote("a\x1b"), quote(3)) == ("'a\\x1b'", "3")
    assert quote(10**5000) == "a value of type int that is too large to show"
    assert listed(["a", "b"]) == "a, b"
    assert listed(f"name {n}" for n in range(1000)).endswith(" more")
    assert len(listed(["x" * 10**6] * 1000)) < 400


def test_labels_of_figures():
    assert label("_a$b\\c\u202e模") == " _a\\$b/c⟨U+202E⟩?"
    assert label("") == "(no name)"


def test_seeds_as_ranges():
    assert seed_ranges([5, 0, 2, 1]) == "0-2, 5"

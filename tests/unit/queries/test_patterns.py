"""Patterns match what Python's `re` matches, and no pattern takes long."""

from __future__ import annotations

import random
import re

import pytest

from noisebank.core.errors import BadQuery, Misuse, UnsupportedQuery
from noisebank.queries.patterns import MAX_STEPS, Pattern, compile_like, compile_regex, compile_similar

KEYS = ["".join(signs) for size in range(5) for signs in zip(*["ab1.X"] * size, strict=True)]
KEYS += ["", "ab", "aab", "abab", "Xab1", "b.1", "1X", "AaB", "xAy", "a\nb", "é1"]
ATOMS = ["a", "b", "1", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\w", r"\.", r"\D", "[]a]", "[a-]", "^", "$"]


def write_pattern(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if not depth or kind < 0.3:
        return draw.choice(ATOMS)
    if kind < 0.6:
        return write_pattern(draw, depth - 1) + write_pattern(draw, depth - 1)
    if kind < 0.75:
        return f"({write_pattern(draw, depth - 1)}|{write_pattern(draw, depth - 1)})"
    return f"(?:{write_pattern(draw, depth - 1)})" + draw.choice(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])


@pytest.mark.parametrize("seed", range(60))
def test_regular_expressions_match_what_re_matches(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        text = write_pattern(draw, 4)
        for flags, ignores_case in ((re.DOTALL, False), (re.DOTALL | re.IGNORECASE, True)):
            form = re.compile(text.replace("$", r"\Z"), flags)  # at the very end, not before a line's end
            found = compile_regex(text, ignores_case).match_keys(KEYS)
            assert found == [form.search(key) is not None for key in KEYS], text
            whole = compile_regex(text, ignores_case, is_whole=True).match_keys(KEYS)
            assert whole == [form.fullmatch(key) is not None for key in KEYS], text


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [("%", {"I20", "i2", "", "a_b"}), ("I2_", {"I20"}), (r"a\_b", {"a_b"}), ("", {""}), ("%2%", {"I20", "i2"}),
     ("%_b", {"a_b"})],
)  # fmt: skip
def test_like(pattern: str, matching: set[str]) -> None:
    keys = ["I20", "i2", "", "a_b"]
    assert {
        key for key, is_match in zip(keys, compile_like(pattern).match_keys(keys), strict=True) if is_match
    } == matching


def test_similar_to_knows_alternatives_and_counts() -> None:
    keys = ["sales", "support", "sup", "s.", "ss", "sss"]
    assert compile_similar("s(ales|up)%").match_keys(keys) == [True, True, True, False, False, False]
    assert compile_similar("s.").match_keys(keys) == [False, False, False, True, False, False]
    assert compile_similar("s{2,3}").match_keys(keys) == [False, False, False, False, True, True]


@pytest.mark.parametrize(
    "text",
    ["(", ")", "[", "[a", "a{", "a{x}", "a{3,2}", "a{99}", "*", "a**", "(?i)a", r"\1", r"\b", "[[:alpha:]]", "\\",
     "(" * 30, "((a{50}){50}){50}", "a" * 2000],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        compile_regex(text)


def test_brackets_stand_in_each_other_so_deep_and_no_deeper() -> None:
    """Readers that follow brackets into each other have a depth of their own: it must not be the interpreter's."""
    assert compile_regex("^" + "(" * 20 + "a" + ")" * 20 + "$").match_keys(["a", "aa"]) == [True, False]
    assert compile_regex("(a)" * 30).match_keys(["a" * 30, "a"]) == [True, False]  # beside each other: as many as fit
    for depth in (21, 400):
        with pytest.raises(Misuse, match="too many brackets"):
            compile_regex("(" * depth + "a" + ")" * depth)


class CountedPattern(Pattern):
    """Counts the states that are looked at."""

    looks = 0

    def _follow(self, start, place, length):  # type: ignore[no-untyped-def]
        reached = super()._follow(start, place, length)
        CountedPattern.looks += len(reached)
        return reached


@pytest.mark.parametrize(
    ("pattern", "key"),
    [(compile_regex("(a*)*(a*)*(a|a)*b"), "a" * 300), (compile_like("%e" * 200 + "x"), "e" * 300),
     (compile_regex("(.*.*.*){5}z", is_whole=True), "y" * 300)],
    ids=["stars", "like", "dots"],
)  # fmt: skip
def test_no_pattern_is_tried_in_many_ways(pattern: Pattern, key: str) -> None:
    """`re` would take longer than there is time for each of these."""
    counted, CountedPattern.looks = CountedPattern(pattern.states, pattern.first, pattern.last), 0
    assert counted.match_keys([key]) == [False]
    assert CountedPattern.looks <= len(pattern.states) * (len(key) + 1)


def test_many_keys_and_a_long_pattern_are_refused() -> None:
    pattern = compile_like("%e" * 300)
    count = MAX_STEPS // (len(pattern.states) * 101) + 1
    with pytest.raises(UnsupportedQuery, match="pattern this long"):
        pattern.match_keys(["e" * 100] * count)


@pytest.mark.parametrize("part", ["()", "(a{0})", "(|)", "(^|$)"])
def test_parts_that_read_nothing_are_counted(part: str) -> None:
    """They have few states, or none, and would be written out for years."""
    for _ in range(12):
        part = f"({part}){{50}}"
    with pytest.raises(UnsupportedQuery, match="pattern this long"):
        compile_regex(part)


def test_ways_without_a_sign_are_counted() -> None:
    pattern = compile_regex(f"({'|' * 180}){{15}}")
    assert len(pattern.states) < 50
    with pytest.raises(UnsupportedQuery, match="over this many keys"):
        pattern.match_keys(["e" * 100] * 100)


def test_a_refusal_says_what_can_be_written() -> None:
    with pytest.raises(BadQuery, match=r"use letters"):
        compile_regex("(?=x)")

"""Patterns for declared keys: LIKE, SIMILAR TO and regular expressions, matched in a time that no pattern can stretch.

A pattern becomes an automaton that reads a key once, from left to right, in all of its states together (Thompson 1968).
Python's `re` tries one way after the other, so that a pattern of thirty signs could keep it busy for years.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.effort import add_steps

PATTERNS = (
    exp.Like, exp.ILike, exp.StartsWith, exp.Contains, exp.SimilarTo, exp.RegexpLike, exp.RegexpILike,
    exp.RegexpFullMatch,
)  # fmt: skip
"""Conditions that match a text."""
MAX_STATES = 1_000
MAX_PARTS = 4_000
"""Of a pattern whose counts are written out. Parts that read no sign have no state: only this bounds them."""
MAX_STEPS = 6_000_000
"""States of a pattern and ways out of them, times signs of all keys."""
STEPS_OF_EFFORT = 40
"""Such steps take as long as one step of `effort`."""
MAX_REPEATS = 50
Test = Callable[[str], bool]
CLASSES: dict[str, Test] = {"d": str.isdecimal, "w": lambda sign: sign.isalnum() or sign == "_", "s": str.isspace}
ADVICE = "use letters, ., [...], (...), |, *, +, ?, {2,3}, ^ and $"


@dataclass(frozen=True, slots=True)
class _State:
    """What an automaton does in a state: reads a sign that passes a test, or goes on without one."""

    test: Test | None
    following: tuple[int, ...]
    anchor: str = ""
    """`^` and `$`: goes on at the beginning or the end only."""


@dataclass
class Pattern:
    """An automaton: a key matches if its last sign leads to the last state."""

    states: list[_State] = field(default_factory=list)
    first: int = 0
    last: int = 0
    parts: int = 0
    """Of the pattern, counts written out."""

    def match_keys(self, keys: Sequence[str]) -> list[bool]:
        """Returns for each key whether it matches."""
        ways = sum(1 + len(state.following) for state in self.states)
        steps = ways * sum(len(key) + 1 for key in keys)
        if steps > MAX_STEPS:
            raise UnsupportedQuery("a pattern this long over this many keys", "write a shorter one, or list the keys")
        add_steps(1 + steps // STEPS_OF_EFFORT)
        return [self._matches(key) for key in keys]

    def _matches(self, key: str) -> bool:
        current = self._follow({self.first}, 0, len(key))
        for place, sign in enumerate(key):
            read = (self.states[number] for number in current)
            reached = {each.following[0] for each in read if each.test is not None and each.test(sign)}
            current = self._follow(reached, place + 1, len(key))
        return self.last in current

    def _follow(self, start: Iterable[int], place: int, length: int) -> set[int]:
        """Returns the states that are reached without reading a sign."""
        reached, waiting = set[int](), list(start)
        while waiting:
            number = waiting.pop()
            state = self.states[number]
            blocked = (state.anchor == "^" and place > 0) or (state.anchor == "$" and place < length)
            if number in reached or blocked:
                continue
            reached.add(number)
            waiting += [] if state.test is not None else state.following
        return reached


def read_pattern(node: exp.Expr) -> Callable[[Sequence[str]], list[bool]]:
    """Returns what says for each key whether it matches the pattern of a condition."""
    pattern, flags = node.expression.unnest(), node.args.get("flag") or node.args.get("options")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise UnsupportedQuery(str(node.sql(dialect="duckdb"))[:60], "write the pattern in single quotes")
    if flags is not None and (not isinstance(flags, exp.Literal) or flags.name not in ("", "i")):
        raise UnsupportedQuery(str(node.sql(dialect="duckdb"))[:60], "of flags there is i, which ignores case")
    text, ignores_case = str(pattern.this), flags is not None and flags.name == "i"
    if isinstance(node, exp.StartsWith):
        return lambda keys: [key.startswith(text) for key in keys]
    if isinstance(node, exp.Contains):
        return lambda keys: [text in key for key in keys]
    if isinstance(node, (exp.Like, exp.ILike)):
        return compile_like(text, isinstance(node, exp.ILike)).match_keys
    if isinstance(node, exp.SimilarTo):
        return compile_similar(text).match_keys
    ignores_case = ignores_case or isinstance(node, exp.RegexpILike)
    return compile_regex(text, ignores_case, isinstance(node, exp.RegexpFullMatch)).match_keys


def compile_like(text: str, ignores_case: bool = False) -> Pattern:
    """Returns the automaton of LIKE: % is anything, _ one sign; a backslash takes the next sign as it stands.

    >>> compile_like("I2%").match_keys(["I20", "C34", "I2"])
    [True, False, True]
    """
    parts, signs = [], iter(text)
    for sign in signs:
        if sign == "%":
            parts.append(_Node("*", (_Node("test", test=_any_sign),)))
        elif sign == "_":
            parts.append(_Node("test", test=_any_sign))
        else:
            parts.append(_literal(next(signs, sign) if sign == "\\" else sign, ignores_case))
    return _compile(_Node("list", tuple(parts)))


def compile_similar(text: str) -> Pattern:
    """Returns the automaton of SIMILAR TO: LIKE with |, *, +, ?, (...) and [...].

    >>> compile_similar("(I|C)[0-9]+").match_keys(["I20", "C3x", "E11"])
    [True, False, False]
    """
    return _compile(_Reader(text, is_similar=True).read_all())


def compile_regex(text: str, ignores_case: bool = False, is_whole: bool = False) -> Pattern:
    """Returns the automaton of a regular expression that a key matches somewhere, or as a whole.

    >>> compile_regex("^S|port$").match_keys(["Sales", "Support", "airport", "HR"])
    [True, True, True, False]
    """
    node = _Reader(text, ignores_case=ignores_case).read_all()
    around = () if is_whole else (_Node("*", (_Node("test", test=_any_sign),)),)
    return _compile(_Node("list", (*around, node, *around)))


def _any_sign(sign: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a pattern: `test` of one sign, `list` and `|` of parts, `*`, `+`, `?` of one, `^` and `$`."""

    kind: str
    parts: tuple[_Node, ...] = ()
    test: Test | None = None


def _literal(sign: str, ignores_case: bool) -> _Node:
    if ignores_case:
        return _Node("test", test=lambda each: each.lower() == sign.lower())
    return _Node("test", test=lambda each: each == sign)


def _compile(node: _Node) -> Pattern:
    pattern = Pattern([_State(None, ())])
    pattern.first = _add_node(pattern, node, 0)
    return pattern


def _add_node(pattern: Pattern, node: _Node, following: int) -> int:
    """Returns the first state of a part that goes on to `following`."""
    pattern.parts += 1
    if pattern.parts > MAX_PARTS:
        raise UnsupportedQuery("a pattern this long", "write a shorter one, or list the keys")
    if node.kind == "list":
        for part in reversed(node.parts):
            following = _add_node(pattern, part, following)
        return following
    if node.kind == "|":
        return _add_state(pattern, _State(None, tuple(_add_node(pattern, part, following) for part in node.parts)))
    if node.kind in ("*", "+"):
        loop = _add_state(pattern, _State(None, ()))
        body = _add_node(pattern, node.parts[0], loop)
        pattern.states[loop] = _State(None, (body, following))
        return loop if node.kind == "*" else body
    if node.kind == "?":
        return _add_state(pattern, _State(None, (_add_node(pattern, node.parts[0], following), following)))
    return _add_state(pattern, _State(node.test, (following,), "" if node.kind == "test" else node.kind))


def _add_state(pattern: Pattern, state: _State) -> int:
    if len(pattern.states) >= MAX_STATES:
        raise UnsupportedQuery("a pattern this long", "write a shorter one, or list the keys")
    pattern.states.append(state)
    return len(pattern.states) - 1


class _Reader:
    """Reads a regular expression, or the pattern of SIMILAR TO."""

    def __init__(self, text: str, ignores_case: bool = False, is_similar: bool = False) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.ignores_case, self.is_similar = ignores_case, is_similar

    def read_all(self) -> _Node:
        """Returns the whole pattern."""
        if len(self.text) > MAX_STATES:
            raise UnsupportedQuery("a pattern this long", "write a shorter one, or list the keys")
        node = self._read_choice()
        if self.place < len(self.text):
            raise self._refuse("a bracket that is closed and was not opened")
        return node

    def _refuse(self, what: str) -> BadQuery:
        return BadQuery(f"the pattern {self.text[:40]!r} has {what}: {ADVICE}")

    def _peek(self) -> str:
        return self.text[self.place] if self.place < len(self.text) else ""

    def _take(self) -> str:
        sign = self._peek()
        if not sign:
            raise self._refuse("no end")
        self.place += 1
        return sign

    def _read_choice(self) -> _Node:
        choices = [self._read_list()]
        while self._peek() == "|":
            self.place += 1
            choices.append(self._read_list())
        return choices[0] if len(choices) == 1 else _Node("|", tuple(choices))

    def _read_list(self) -> _Node:
        parts = []
        while self._peek() and self._peek() not in "|)":
            parts.append(self._read_repeated())
        return _Node("list", tuple(parts))

    def _read_repeated(self) -> _Node:
        node = self._read_single()
        if self._peek() and self._peek() in "*+?{":
            sign = self._take()
            node = self._read_counts(node) if sign == "{" else _Node(sign, (node,))
            if not self.is_similar and self._peek() == "?":  # takes as little as it can: the same keys match
                self.place += 1
        return node

    def _read_counts(self, node: _Node) -> _Node:
        end = self.text.find("}", self.place)
        written = self.text[self.place : max(end, self.place)].split(",")
        if end < 0 or len(written) > 2 or not all(part.isdecimal() for part in written if part) or not written[0]:
            raise self._refuse("a count that is none")
        self.place = end + 1
        least, most = int(written[0]), written[-1] and int(written[-1])
        if least > MAX_REPEATS or (most and (most > MAX_REPEATS or most < least)):
            raise self._refuse(f"a count beyond {MAX_REPEATS}")
        rest = (_Node("*", (node,)),) if most == "" else (_Node("?", (node,)),) * (int(most) - least)
        return _Node("list", ((node,) * least) + rest)

    def _read_single(self) -> _Node:
        sign = self._take()
        if sign == "(":
            return self._read_group()
        if sign == "[":
            return self._read_set()
        if sign == "\\":
            return self._read_escape()
        if sign in ("%_" if self.is_similar else "."):
            node = _Node("test", test=_any_sign)
            return _Node("*", (node,)) if sign == "%" else node
        if sign in "*+?{":
            raise self._refuse(f"a {sign} after nothing")
        return _Node(sign) if sign in "^$" and not self.is_similar else _literal(sign, self.ignores_case)

    def _read_group(self) -> _Node:
        if self.text.startswith("?:", self.place):
            self.place += 2
        elif self._peek() == "?":
            raise self._refuse("a group that starts with ?")
        self.depth += 1
        if self.depth > 20:
            raise self._refuse("too many brackets in each other")
        node = self._read_choice()
        if self._take() != ")":
            raise self._refuse("a bracket that is not closed")
        self.depth -= 1
        return node

    def _read_escape(self) -> _Node:
        sign = self._take()
        if not sign.isalnum():
            return _literal(sign, self.ignores_case)
        if sign.lower() not in CLASSES or self.is_similar:
            raise self._refuse(f"the escape \\{sign}")
        test = CLASSES[sign.lower()]
        return _Node("test", test=test if sign.islower() else lambda each: not test(each))

    def _read_set(self) -> _Node:
        is_negated = self._peek() == "^"
        self.place += is_negated
        tests: list[Test] = []
        while not tests or self._peek() != "]":
            first = self._take()
            if first == "[":
                raise self._refuse("a [ inside of [...]")
            if first == "\\":
                node = self._read_escape()
                assert node.test is not None
                tests.append(node.test)
                continue
            last = first
            if self._peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("]", ""):
                self.place += 1
                last = self._take()
            tests.append(_make_range(first, last, self.ignores_case))
        self.place += 1
        return _Node("test", test=lambda sign: any(test(sign) for test in tests) is not is_negated)


def _make_range(first: str, last: str, ignores_case: bool) -> Test:
    if ignores_case:
        return lambda sign: any(first <= each <= last for each in (sign, sign.lower(), sign.upper()))
    return lambda sign: first <= sign <= last

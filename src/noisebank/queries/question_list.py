"""Reads a list of questions from a text, as people keep them in a file."""

from __future__ import annotations

import re

STATEMENT_PIECE = re.compile(r"""--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|;|[^;'"-]+|.""", re.DOTALL)


def split_questions(text: str) -> list[str]:
    """Returns the questions in a text: each ends with a semicolon, or with its line if there is none; SQL, or names of
    queries. Comments begin with two dashes.

    >>> split_questions("smokers; SELECT COUNT(*) -- all;\\nFROM t WHERE town = 'a;b';")
    ['smokers', "SELECT COUNT(*) \\nFROM t WHERE town = 'a;b'"]
    >>> split_questions("smokers\\n\\naverage_age\\n")
    ['smokers', 'average_age']
    """
    pieces = [piece for piece in STATEMENT_PIECE.findall(text) if not piece.startswith("--")]
    if ";" not in pieces:
        return [line.strip() for line in "".join(pieces).splitlines() if line.strip()]
    questions = [""]
    for piece in pieces:
        if piece == ";":
            questions.append("")
        else:
            questions[-1] += piece
    return [question.strip() for question in questions if question.strip()]

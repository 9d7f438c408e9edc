"""Guesses the type of a column for the draft of a policy, from counts over a sample.

Every rule compares a count with a share of the sample, so one odd value changes nothing unless a count lies at its
threshold. A guess holds a type, a step and reasons in words: no bound, key or count of the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from noisebank.engines.column_profile import ColumnProfile
from noisebank.policy.model import Kind

MIN_VALUES = 20
"""In a smaller sample, that all values differ says nothing."""
MIN_COUNTED_ROWS = 100
"""In a smaller sample, numbers that rise by one may be ages in a sorted table."""
MIN_NUMBERS = 0.5
MIN_CLEAN_NUMBERS = 0.9
MIN_WHOLE = 0.95
MIN_TRUTH_VALUES = 0.99
MIN_EITHER_TRUTH_VALUE = 0.01
"""Of true, and of false: a column of amounts that are nearly all 0 is no column of truth values."""
MIN_OWN_VALUES = 0.9
"""The share of different values that makes an identifier."""
MAX_CATEGORY_SHARE = 0.1
MIN_MAX_CATEGORIES = 20
"""A category has at most this many values, or this share of different values if that is more."""
MIN_CODES = 0.05
MAX_CODES = 20
"""A column with at most this many different whole numbers may hold codes."""
MIN_FORMATTED = 0.05
IDENTIFIER_WORDS = frozenset({"id", "uuid", "guid", "identifier", "nr", "ssn", "email", "mail", "phone", "iban", "key"})
DATE_TYPES = ("DATE", "TIME", "INTERVAL")
PLAIN_TYPES = ("VARCHAR", "ENUM", "UUID")
UNTYPED = '"NULL"'
"""The type of a Parquet column of which the writer has seen no value."""

IS_DATE = "dates in a form that is not read; write the file with dates like 2026-11-18, then draft again"
MAY_BE_CODES = "if these are codes and not amounts, write keys = [1, 2] from the code book instead of bounds"
IS_NESTED = "its type cannot be asked about"
IS_EMPTY = "the sample has no value of it, so nothing tells its type"
IS_FREE_TEXT = "free text, which may name people and has no keys"
IS_IDENTIFIER = "an identifier, by its name or because nearly every row has a value of its own"
IS_MANY_VALUED = "too many different values for keys: a name, a code or free text"
IS_FORMATTED = (
    "numbers written as 1,234 or 7,5 or 12%, which are read as missing; "
    "write the file with plain numbers, then draft again"
)


@dataclass(frozen=True, slots=True)
class ColumnGuess:
    """What a draft says about one column: its type and step, or why it is left out."""

    name: str
    kind: Kind | None
    """The type; None if unknown, because the table has no rows."""
    step: str = ""
    """Of decimals: their step; empty if the sample has too many decimal places for one."""
    omitted: str = ""
    """Why the column is left out; empty if it is not."""
    may_be_unit: bool = False
    """Whether a column that is left out could tell people apart."""
    notes: tuple[str, ...] = ()


def guess_column(profile: ColumnProfile, has_rows: bool) -> ColumnGuess:
    """Returns what the draft says about a column. `has_rows`: whether the table has any."""
    name, storage = profile.name, profile.storage
    if storage == "BOOLEAN":
        return ColumnGuess(name, Kind.BOOLEAN)
    if storage == UNTYPED:
        return _guess_without_values(profile, has_rows)
    if storage.startswith(DATE_TYPES):
        return _guess_date(profile)
    if not profile.is_numeric and not (storage.startswith(PLAIN_TYPES) and not storage.endswith("]")):
        return ColumnGuess(name, Kind.TEXT, omitted=IS_NESTED)
    if not profile.values:
        return _guess_without_values(profile, has_rows)
    if _are_truth_values(profile):
        return ColumnGuess(name, Kind.BOOLEAN)
    if profile.dates > MIN_NUMBERS * profile.values:
        return _guess_date(profile)
    if profile.is_numeric or _are_numbers(profile):
        return _guess_number(profile)
    if (
        profile.formatted_numbers >= MIN_FORMATTED * profile.values
        and profile.formatted_numbers + profile.numbers > MIN_NUMBERS * profile.values
    ):
        return ColumnGuess(name, Kind.NUMBER, omitted=IS_FORMATTED)
    return _guess_text(profile)


def _guess_without_values(profile: ColumnProfile, has_rows: bool) -> ColumnGuess:
    if profile.is_numeric:
        whole = "INT" in profile.storage
        scale = re.search(r"DECIMAL\(\d+,\s*(\d+)\)", profile.storage)
        return ColumnGuess(
            profile.name, Kind.INTEGER if whole else Kind.NUMBER, _format_step(int(scale.group(1))) if scale else ""
        )
    return ColumnGuess(profile.name, None, omitted=IS_EMPTY if has_rows else "")


def _guess_date(profile: ColumnProfile) -> ColumnGuess:
    if profile.storage.startswith("TIMESTAMP"):
        return ColumnGuess(profile.name, Kind.TIMESTAMP)
    if profile.storage == "DATE" or 0 < MIN_CLEAN_NUMBERS * profile.values <= profile.iso_dates:
        with_time = profile.timed_dates > MIN_NUMBERS * profile.values
        return ColumnGuess(profile.name, Kind.TIMESTAMP if with_time else Kind.DATE)
    if profile.values and profile.distinct <= MAX_CATEGORY_SHARE * profile.values:
        return ColumnGuess(profile.name, Kind.TEXT, notes=("dates in a form that is not read: these are texts",))
    return ColumnGuess(profile.name, Kind.TEXT, omitted=IS_DATE)


def _guess_number(profile: ColumnProfile) -> ColumnGuess:
    if _is_numeric_identifier(profile):
        return ColumnGuess(profile.name, Kind.TEXT, omitted=IS_IDENTIFIER, may_be_unit=True)
    clean = profile.numbers >= MIN_CLEAN_NUMBERS * profile.values
    notes = () if clean else ("many values are no numbers: they count as missing",)
    if profile.whole_numbers >= MIN_WHOLE * profile.numbers:
        few = profile.values >= MIN_COUNTED_ROWS and profile.distinct <= MAX_CODES
        return ColumnGuess(profile.name, Kind.INTEGER, notes=(*notes, MAY_BE_CODES) if few else notes)
    for places, count in enumerate(profile.within_decimals):
        if places and count >= MIN_WHOLE * profile.numbers:
            return ColumnGuess(profile.name, Kind.NUMBER, _format_step(places), notes=notes)
    return ColumnGuess(profile.name, Kind.NUMBER, notes=notes)


def _guess_text(profile: ColumnProfile) -> ColumnGuess:
    padded = profile.padded > MIN_NUMBERS * profile.values
    notes = ("the values begin or end with a space in the file, so the keys must, too",) if padded else ()
    own_values = _has_own_values(profile)
    if not own_values and not _has_many_values(profile):
        is_prose = profile.values < MIN_VALUES and profile.long_texts > MIN_NUMBERS * profile.values
        return ColumnGuess(profile.name, Kind.TEXT, omitted=IS_FREE_TEXT if is_prose else "", notes=notes)
    if profile.long_texts > MIN_NUMBERS * profile.values:
        return ColumnGuess(profile.name, Kind.TEXT, omitted=IS_FREE_TEXT)
    is_identifier = own_values or _is_named_identifier(profile.name)
    reason = IS_IDENTIFIER if is_identifier else IS_MANY_VALUED
    return ColumnGuess(profile.name, Kind.TEXT, omitted=reason, may_be_unit=True, notes=notes)


def _are_truth_values(profile: ColumnProfile) -> bool:
    both = profile.trues + profile.falses >= MIN_TRUTH_VALUES * profile.values
    return both and min(profile.trues, profile.falses) >= max(1, MIN_EITHER_TRUTH_VALUE * profile.values)


def _are_numbers(profile: ColumnProfile) -> bool:
    """Whether most texts are numbers that engines read as such, and not codes like 0123."""
    return (
        profile.numbers > MIN_NUMBERS * profile.values
        and profile.formatted_numbers < MIN_FORMATTED * profile.values
        and profile.zero_led < MIN_CODES * profile.values
    )


def _is_numeric_identifier(profile: ColumnProfile) -> bool:
    if profile.whole_numbers < MIN_WHOLE * profile.values:
        return False
    own_values = profile.distinct >= MIN_OWN_VALUES * profile.values
    if _is_named_identifier(profile.name):
        return own_values or _has_many_values(profile)
    counting = profile.values >= MIN_COUNTED_ROWS and profile.counting >= MIN_OWN_VALUES * profile.values
    return _has_own_values(profile) and (counting or profile.long_numbers >= MIN_OWN_VALUES * profile.values)


def _has_own_values(profile: ColumnProfile) -> bool:
    return profile.values >= MIN_VALUES and profile.distinct >= MIN_OWN_VALUES * profile.values


def _has_many_values(profile: ColumnProfile) -> bool:
    return profile.distinct > max(MIN_MAX_CATEGORIES, MAX_CATEGORY_SHARE * profile.values)


def _is_named_identifier(name: str) -> bool:
    """Whether a word of the name says so.

    >>> [_is_named_identifier(name) for name in ("patient_id", "PersonId", "E-mail", "valid", "idea")]
    [True, True, True, False, False]
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return any(word.lower() in IDENTIFIER_WORDS for word in words)


def _format_step(places: int) -> str:
    """Returns ten to the power of minus `places`, as TOML.

    >>> _format_step(2), _format_step(0)
    ('0.01', '1')
    """
    return f"0.{'0' * (places - 1)}1" if places else "1"

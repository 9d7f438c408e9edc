"""SQL that reads a stored value as days, or as seconds of a clock, since 1970: the same integers in every engine.

Never fails. What an engine stores as a date or a timestamp it counts itself; texts are taken apart by our own
arithmetic, since engines read different ones. Infinite dates, and texts in any other form, are missing.
"""

from __future__ import annotations

from noisebank.core.calendar import DAY_SECONDS, zone_offsets
from noisebank.engines.dialect import Dialect, StorageType
from noisebank.policy.model import Column, Kind

DATE_FORM = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
TIME_FORM = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
OFFSET_FORM = "( ?(Z|[+-](0[0-9]|1[0-8])(:?[0-5][0-9])?))?"
CLOCK_FORM = f"{DATE_FORM}([ T]{TIME_FORM}{OFFSET_FORM})?"
"""2026-11-18, 2026-11-18 13:00, 2026-11-18T13:00:00.5, with Z or an offset such as +01:00."""
DAYS_BEFORE_1970 = 719_468
"""From the first of March of year 0."""


def clock_steps_sql(column: Column, raw: str, dialect: Dialect, stored: StorageType) -> str:
    """Returns SQL for a stored value as steps of a date or timestamp column, below and above its bounds too."""
    if column.kind is Kind.DATE:
        return _days_sql(raw, dialect, stored)
    seconds = _clock_seconds_sql(column, raw, dialect, stored)
    return seconds if column.step == 1 else floor_quotient(seconds, int(column.step), dialect)


def floor_quotient(integer: str, divisor: int, dialect: Dialect) -> str:
    """Returns SQL for a quotient rounded down, also of negative integers: engines cut towards zero."""
    by = dialect.cast_long(str(divisor))
    rest = f"((({integer}) % {by} + {by}) % {by})"
    return dialect.divide_whole(f"({integer}) - {rest}", divisor)


def _days_sql(raw: str, dialect: Dialect, stored: StorageType) -> str:
    if stored is StorageType.DATE:
        return dialect.date_days(raw)
    if stored in (StorageType.CLOCK, StorageType.INSTANT):  # an instant's date is that of UTC: a date has no zone
        return floor_quotient(dialect.clock_seconds(raw, stored), DAY_SECONDS, dialect)
    text = dialect.cast_text(raw, stored)
    return f"CASE WHEN {_is_date(text, dialect)} THEN {_text_days(text, dialect)} END"


def _clock_seconds_sql(column: Column, raw: str, dialect: Dialect, stored: StorageType) -> str:
    if stored is StorageType.DATE:
        return f"({dialect.date_days(raw)}) * {dialect.cast_long(str(DAY_SECONDS))}"
    if stored is StorageType.CLOCK:
        return dialect.clock_seconds(raw, stored)
    if stored is StorageType.INSTANT:
        return _to_zone(column, dialect.clock_seconds(raw, stored), dialect)
    text = dialect.cast_text(raw, stored)
    seconds = f"({_text_days(text, dialect)}) * {dialect.cast_long(str(DAY_SECONDS))} + {_text_time(text, dialect)}"
    instant = _to_zone(column, f"({seconds} - {_text_offset(text, dialect)})", dialect)
    return (
        f"CASE WHEN NOT {_is_date(text, dialect)} THEN NULL "
        f"WHEN length({text}) > 10 AND {dialect.matches(text, '.*(Z|[+-][0-9:]+)')} THEN {instant} ELSE {seconds} END"
    )


def _to_zone(column: Column, seconds: str, dialect: Dialect) -> str:
    """Returns SQL for seconds of UTC as seconds of the zone's clock, by a table of its offsets over the bounds."""
    low, high = (int(bound * column.step // DAY_SECONDS) for bound in column.bounds)
    offsets = zone_offsets(column.zone, low, high)
    return f"({seconds} + {_bisect_offsets(seconds, list(offsets), dialect)})"


def _bisect_offsets(seconds: str, offsets: list[tuple[int, int]], dialect: Dialect) -> str:
    if len(offsets) == 1:
        return dialect.cast_long(str(offsets[0][1]))
    half = len(offsets) // 2
    below, above = (_bisect_offsets(seconds, part, dialect) for part in (offsets[:half], offsets[half:]))
    return f"CASE WHEN {seconds} >= {dialect.cast_long(str(offsets[half][0]))} THEN {above} ELSE {below} END"


def _is_date(text: str, dialect: Dialect) -> str:
    """Returns an SQL test: a text is a date of the years 1 to 9999, perhaps with a time. TRUE or FALSE, never NULL."""
    month, day, year = _digits(text, 6, 2, dialect), _digits(text, 9, 2, dialect), _digits(text, 1, 4, dialect)
    leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))"
    february = f"CASE WHEN {leap} THEN 29 ELSE 28 END"
    length = f"CASE WHEN {month} = 2 THEN {february} WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    return (
        f"(CASE WHEN {text} IS NULL THEN FALSE WHEN {dialect.matches(text, CLOCK_FORM)} "
        f"THEN {year} > 0 AND {day} <= {length} ELSE FALSE END)"
    )


def _text_days(text: str, dialect: Dialect) -> str:
    """Returns SQL for the days since 1970 of a text that is a date: years and months are counted from March."""
    year, month, day = _digits(text, 1, 4, dialect), _digits(text, 6, 2, dialect), _digits(text, 9, 2, dialect)
    years = f"({year} - CASE WHEN {month} <= 2 THEN 1 ELSE 0 END)"
    leaps = " ".join(
        f"{sign} {dialect.divide_whole(years, number)}" for sign, number in (("+", 4), ("-", 100), ("+", 400))
    )
    months = dialect.divide_whole(f"153 * (({month} + 9) % 12) + 2", 5)
    return f"(365 * {years} {leaps} + {months} + {day} - 1 - {DAYS_BEFORE_1970})"


def _text_time(text: str, dialect: Dialect) -> str:
    """Returns SQL for the seconds since midnight of a text that is a date, with or without a time."""
    hours, minutes = _digits(text, 12, 2, dialect), _digits(text, 15, 2, dialect)
    seconds = f"CASE WHEN substr({text}, 17, 1) = ':' THEN {_digits(text, 18, 2, dialect)} ELSE 0 END"
    return f"CASE WHEN length({text}) > 10 THEN {hours} * 3600 + {minutes} * 60 + {seconds} ELSE 0 END"


def _text_offset(text: str, dialect: Dialect) -> str:
    """Returns SQL for the seconds that the clock of a text is ahead of UTC; 0 where it does not say."""

    def read(sign: str, hours: str, minutes: str) -> str:
        return f"({hours} * 3600 + {minutes} * 60) * CASE WHEN {sign} = '-' THEN -1 ELSE 1 END"

    def at(back: int, width: int) -> str:
        return f"substr({text}, length({text}) - {back - 1}, {width})"

    def number(back: int) -> str:
        return dialect.digits_number(at(back, 2))

    arms = [
        (".*[+-][0-9][0-9]:[0-9][0-9]", read(at(6, 1), number(5), number(2))),
        (".*[+-][0-9][0-9][0-9][0-9]", read(at(5, 1), number(4), number(2))),
        (".*[+-][0-9][0-9]", read(at(3, 1), number(2), "0")),
    ]
    tests = " ".join(f"WHEN {dialect.matches(text, form)} THEN {value}" for form, value in arms)
    return f"CASE {tests} ELSE 0 END"


def _digits(text: str, start: int, count: int, dialect: Dialect) -> str:
    return dialect.digits_number(f"substr({text}, {start}, {count})")

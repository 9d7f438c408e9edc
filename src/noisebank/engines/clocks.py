"""SQL that reads a stored value as days, or as steps of a clock, since 1970: the same integers in every engine.

Never fails. What an engine stores as a date or a timestamp it counts itself; of texts, one form is read, by its
characters. Infinite dates, and texts in any other form, are missing. A timestamp is read in two stages, so that its
zone is looked up once: first twice its seconds, plus one where they are seconds of UTC; then the steps of its clock.
"""

from __future__ import annotations

from noisebank.core.calendar import DAY_SECONDS, zone_offsets
from noisebank.engines.dialect import Dialect, StorageType
from noisebank.policy.model import Column, Kind

YEAR_FORM = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE_FORM = f"{YEAR_FORM}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
TIME_FORM = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
OFFSET_FORM = "( ?(Z|[+-](0[0-9]|1[0-8])(:?[0-5][0-9])?))?"
CLOCK_FORM = f"{DATE_FORM}([ T]{TIME_FORM}{OFFSET_FORM})?"
"""2026-11-18, 2026-11-18 13:00, 2026-11-18T13:00:00.5, with Z or an offset such as +01:00."""


def first_stage_sql(column: Column, raw: str, dialect: Dialect, stored: StorageType) -> str:
    """Returns SQL for a stored value as days of a date column, or as twice the seconds of a timestamp."""
    text = dialect.cast_text(raw, stored)
    if column.kind is Kind.DATE:
        if stored is StorageType.DATE:
            return dialect.date_days(raw)
        if stored in (StorageType.CLOCK, StorageType.INSTANT):  # an instant's date is that of UTC: dates have no zone
            return floor_quotient(dialect.clock_seconds(raw, stored), DAY_SECONDS, dialect)
        return f"CASE WHEN {dialect.matches(text, CLOCK_FORM)} THEN {_text_days(text, dialect)} END"
    if stored is StorageType.DATE:
        return f"({dialect.date_days(raw)}) * {dialect.cast_long(str(2 * DAY_SECONDS))}"
    if stored in (StorageType.CLOCK, StorageType.INSTANT):
        return f"({dialect.clock_seconds(raw, stored)}) * 2 + {1 if stored is StorageType.INSTANT else 0}"
    days = f"({_text_days(text, dialect)}) * {dialect.cast_long(str(2 * DAY_SECONDS))}"
    return f"CASE WHEN {dialect.matches(text, CLOCK_FORM)} THEN {days} + {_text_time(text, dialect)} END"


def second_stage_sql(column: Column, name: str, dialect: Dialect) -> str:
    """Returns SQL for the steps of a timestamp's clock, from what the first stage says under this name."""
    seconds = floor_quotient(name, 2, dialect)
    if column.low is not None and column.high is not None:
        low, high = (int(bound * column.step // DAY_SECONDS) for bound in (column.low, column.high))
        offset = _bisect_offsets(name, list(zone_offsets(column.zone, low, high)), dialect)
        seconds = f"({seconds} + CASE WHEN {name} % 2 = 0 THEN {dialect.cast_long('0')} ELSE {offset} END)"
    return seconds if column.step == 1 else floor_quotient(seconds, int(column.step), dialect)


def floor_quotient(integer: str, divisor: int, dialect: Dialect) -> str:
    """Returns SQL for a quotient rounded down, also of negative integers: engines cut towards zero."""
    by = dialect.cast_long(str(divisor))
    rest = f"((({integer}) % {by} + {by}) % {by})"
    return dialect.divide_whole(f"({integer}) - {rest}", divisor)


def _bisect_offsets(doubled: str, offsets: list[tuple[int, int]], dialect: Dialect) -> str:
    if len(offsets) == 1:
        return dialect.cast_long(str(offsets[0][1]))
    half = len(offsets) // 2
    below, above = (_bisect_offsets(doubled, part, dialect) for part in (offsets[:half], offsets[half:]))
    first = dialect.cast_long(str(2 * offsets[half][0]))
    return f"CASE WHEN {doubled} >= {first} THEN {above} ELSE {below} END"


def _text_days(text: str, dialect: Dialect) -> str:
    return dialect.text_days(f"substr({text}, 1, 10)")


def _text_time(text: str, dialect: Dialect) -> str:
    """Returns SQL for twice the seconds since midnight of a text that is a date; if it has an offset, less twice that,
    plus one."""
    hours, minutes = _digits(text, 12, dialect), _digits(text, 15, dialect)
    seconds = f"CASE WHEN substr({text}, 17, 1) = ':' THEN {_digits(text, 18, dialect)} ELSE 0 END"
    offsets = [f"WHEN substr({text}, length({text}), 1) = 'Z' THEN 1"]
    for back, has_minutes in ((6, True), (5, True), (3, False)):
        sign = f"substr({text}, length({text}) - {back - 1}, 1)"
        ahead = f"{_digits(text, f'length({text}) - {back - 2}', dialect)} * 7200"
        ahead += f" + {_digits(text, f'length({text}) - 1', dialect)} * 120" if has_minutes else ""
        colon = f" AND substr({text}, length({text}) - 2, 1) = ':'" if back == 6 else ""
        offsets.append(f"WHEN {sign} = '+'{colon} THEN 1 - ({ahead}) WHEN {sign} = '-'{colon} THEN 1 + {ahead}")
    time = f"{hours} * 7200 + {minutes} * 120 + 2 * ({seconds}) + CASE {' '.join(offsets)} ELSE 0 END"
    return f"CASE WHEN length({text}) <= 10 THEN 0 ELSE {time} END"


def _digits(text: str, start: int | str, dialect: Dialect) -> str:
    return dialect.digits_number(f"substr({text}, {start}, 2)")

"""Days and seconds since 1970 as numbers, and dates as texts. A timestamp is what the clock of its zone shows.

Clock readings have no offset: on the day on which clocks are put back, an hour of them stands for two.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from noisebank.core.errors import BadQuery

EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = date.min.toordinal() - EPOCH, date.max.toordinal() - EPOCH
DAY_SECONDS = 86_400
CLOCK_FORM = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?", re.ASCII)
SCAN_DAYS = 5
"""Offsets of a zone are looked up this often: none is changed and changed back within so few days."""


def parse_clock(text: str) -> Fraction | None:
    """Returns a date, or a date and a time, as days since 1970; None if it is neither.

    >>> parse_clock("1970-01-02"), parse_clock("1970-01-01 06:00"), parse_clock("2026-02-29")
    (Fraction(1, 1), Fraction(1, 4), None)
    """
    match = CLOCK_FORM.fullmatch(text.strip())
    if match is None:
        return None
    try:
        day = date.fromisoformat(match[1]).toordinal() - EPOCH
    except ValueError:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return day + Fraction(hours * 3600 + minutes * 60 + seconds, DAY_SECONDS)


def to_date(days: Fraction | int) -> date:
    """Returns the day that a number of days since 1970 lies in; raises `BadQuery` beyond the years 1 to 9999."""
    day = int(days // 1)
    if not FIRST_DAY <= day <= LAST_DAY:
        raise BadQuery("this moves a date beyond the years 1 to 9999")
    return date.fromordinal(day + EPOCH)


def from_date(day: date) -> int:
    """Returns the days since 1970."""
    return day.toordinal() - EPOCH


def format_clock(days: Fraction, with_time: bool = False) -> str:
    """Returns days since 1970 as a date, with the time if it is not midnight or if it must be there.

    >>> format_clock(Fraction(1)), format_clock(Fraction(1, 4)), format_clock(Fraction(0), with_time=True)
    ('1970-01-02', '1970-01-01 06:00', '1970-01-01 00:00')
    """
    seconds = int(days % 1 * DAY_SECONDS)
    text = f"{to_date(days).isoformat():0>10}"
    if not seconds and not with_time:
        return text
    clock = f"{text} {seconds // 3600:02}:{seconds // 60 % 60:02}"
    return f"{clock}:{seconds % 60:02}" if seconds % 60 else clock


def is_zone(name: str) -> bool:
    """Whether this machine knows a time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@lru_cache(maxsize=64)
def zone_offsets(zone: str, first_day: int, last_day: int) -> tuple[tuple[int, int], ...]:
    """Returns the offsets of a zone between two days: from which second of UTC on, and how many seconds it is ahead.

    The first offset holds before, too, and the last one after.
    """
    clock = ZoneInfo(zone)

    def offset_at(second: int) -> int:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        offset = moment.astimezone(clock).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    start, stop = max(first_day - 2, FIRST_DAY + 2), min(last_day + 2, LAST_DAY - 2)
    position = start * DAY_SECONDS
    offsets = [(position, offset_at(position))]
    while position < stop * DAY_SECONDS:
        after = min(position + SCAN_DAYS * DAY_SECONDS, stop * DAY_SECONDS)
        if offset_at(after) != offsets[-1][1]:
            low, high = position, after
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == offsets[-1][1] else (low, middle)
            offsets.append((high, offset_at(high)))
            after = high
        position = after
    return tuple(offsets)


def clock_now(zone: str) -> datetime:
    """Returns what the clock on the wall of a zone shows now, in whole seconds."""
    return datetime.now(ZoneInfo(zone)).replace(tzinfo=None, microsecond=0)

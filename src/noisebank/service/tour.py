"""Stops of a tour through a bank: what the start page of a demonstration points out. Other banks have none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TourStop:
    """One thing to look at: what it shows in a sentence, where, and which page of the documentation tells more."""

    title: str
    sentence: str
    links: tuple[tuple[str, str], ...]
    """Paths on this server with their labels."""
    paper: str
    """The file below docs/papers, without its ending."""

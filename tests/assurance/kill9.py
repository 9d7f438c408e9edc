"""kill -9 in the middle of a loop of asks, at random moments, over and over on the same bank.

The killed process says each answer that it was given. After each kill another process opens the bank,
retries the request that was cut off, and asks everything of that round again, and some older requests.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

from assurance.crashes import SPELLINGS, Asked, bank_with_account, room_for
from assurance.report import Finding
from assurance.strace_kills import Ended, Notes, Server
from support.internals import workload_rng

KILLS = 200
KILLS_A_BANK = 25
"""Opening replays the whole journal: a bank is left alone when its history grows long."""
ASKS_A_ROUND = 60
LONGEST_WAIT = 0.06
"""Seconds until the kill, after the start, the first ask or the first answer of a process."""
OLDER = 20


def random_request(random: Random, key: str) -> Asked:
    """Any query at any of many precisions, so that all cases come up all the time."""
    (query, moves), spellings = random.choice(list(SPELLINGS.items()))
    factor = Fraction(random.randint(20, 100), 20)
    return Asked(key, query, spellings, factor, str(moves * factor))


@dataclass
class Rounds:
    """One bank and everything that was ever asked of it."""

    server: Server
    folder: Path
    random: Random
    planted: bool = False
    history: list[Asked] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    moments: Counter[str] = field(default_factory=Counter)
    begun: int = 0

    def kill(self) -> None:
        """One round: a loop of asks, a kill, and a look at what is left. Keys are those of no other round."""
        self.begun += 1
        loop = [random_request(self.random, f"round {self.begun}, {place}") for place in range(ASKS_A_ROUND)]
        ended = self._killed(loop)
        begun = {line["asking"] for line in ended.lines if "asking" in line}
        answered = dict(ended.answers()).keys()
        self.moments["in an ask" if begun - answered else "elsewhere"] += ended.killed
        self.notes.saw(ended)
        older = self.random.sample(self.history, min(OLDER, len(self.history)))
        mine = [asked for asked in loop if asked.key in begun]
        self.history += mine
        again = [(asked, self.random.randrange(3)) for asked in [*mine, *older]]
        self.notes.audit(self.server.run(self.folder, again, books=True, planted=self.planted), self.history)

    def _killed(self, loop: list[Asked]) -> Ended:
        process, out = self.server.start(self.folder, [(asked, 0) for asked in loop], planted=self.planted)
        sign = self.random.choice(("", '"asking"', '"answered"', '"answered"'))
        while sign and not (out.exists() and sign in out.read_text()) and Path(f"/proc/{process}").exists():
            time.sleep(0.001)
        time.sleep(self.random.uniform(0, LONGEST_WAIT))
        with suppress(ProcessLookupError):  # it came to its end before: not a kill, and not counted as one
            os.kill(process, signal.SIGKILL)
        return self.server.end(out)

    def ask_everything(self) -> None:
        """At the end: all of it, once more."""
        everything = [(asked, 1) for asked in self.history]
        self.notes.audit(self.server.run(self.folder, everything, books=True), self.history)


def kill9(share: float) -> Finding:
    """A record lost, unbalanced books, or a second sample after kill -9."""
    enough, random = max(1, round(KILLS * share)), workload_rng(5)
    kills, answers, banks, moments = 0, 0, 0, Counter[str]()
    wrong: list[str] = []
    with room_for("kill9") as name, Server(Path(name)) as server:
        while kills < enough and not wrong:
            banks += 1
            rounds = Rounds(server, bank_with_account(Path(name), f"bank{banks}"), random)
            while rounds.moments.total() < min(KILLS_A_BANK, enough - kills) and not rounds.notes.wrong:
                rounds.kill()
            rounds.ask_everything()
            kills, answers = kills + rounds.moments.total(), answers + len(rounds.notes.shown)
            moments += rounds.moments
            wrong = rounds.notes.wrong
        hasty = Rounds(server, bank_with_account(Path(name), "planted"), random, planted=True)
        while hasty.moments.total() < KILLS and not hasty.notes.wrong:
            hasty.kill()
    return Finding(
        row="an answer without a record; a record lost after it was acknowledged",
        tried=f"{kills} times kill -9 in a loop of asks ({moments['in an ask']} in the middle of an ask)",
        figure=f"{len(wrong)} violations; {answers:,} answers, the same bits when asked again, in {banks} banks",
        violations=len(wrong),
        planted={"shows before it seals": any("other bits" in what for what in hasty.notes.wrong)},
        note="; ".join(dict.fromkeys(wrong)),
    )

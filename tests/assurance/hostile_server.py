"""Whoever holds data and obeys somebody else, against a hostile other side that chooses every field of every message.

Two checks on every party of `hostile.judging.PARTIES`. Conversations with drawn fields, on two drawn records: both are
refused, charged and answered alike. Known attacks, many times on each of two records: what leaves the party tells them
apart by no more than the epsilon that was charged (a lower confidence bound, Clopper-Pearson). Timing is out of scope.
"""

from __future__ import annotations

from assurance.report import Finding
from hostile.judging import Party, all_parties, judge_attack
from support.internals import workload_rng

CONVERSATIONS, FEWEST = 10_000, 60
"""For each party; and how many, at least, a tiny share plays."""


def hostile_server(share: float) -> Finding:
    parties = all_parties()
    conversations = max(FEWEST, round(CONVERSATIONS * share))
    told: list[str] = []
    plays, attacks, planted = 0, 0, {}
    for party in parties:
        told += told_apart(party, conversations)
        for attack in party.ATTACKS:
            verdict = judge_attack(attack, max(FEWEST, round(attack.plays * share)))
            plays, attacks = plays + 2 * verdict.plays, attacks + 1
            if verdict.refuted:
                told.append(f"{attack.name}: epsilon {verdict.lower:.3f} of {float(verdict.charged):.3f} charged")
        planted |= {f"{party.NAME}: {name}": caught for name, caught in catch_planted(party).items()}
    names = ", ".join(party.NAME for party in parties)
    return Finding(
        "a hostile server tells two records apart better than the charged epsilon says",
        f"{len(parties) * conversations:,} conversations with drawn fields, {attacks} attacks in {plays:,} plays; "
        f"against {names}",
        f"{len(told)} told apart" + (f": {told[0]}" if told else ""),
        len(told),
        planted,
        "refusals, errors, sizes, charges and reports count as output; timing does not",
    )


def told_apart(party: Party, conversations: int, seed: int = 17) -> list[str]:
    """What told two records apart in so many conversations."""
    chance = workload_rng(seed)
    return [why for why in (party.play_random(chance) for _ in range(conversations)) if why]


def catch_planted(party: Party) -> dict[str, bool]:
    """Bug by bug: is it caught by its attack?"""
    attacks = {attack.name: attack for attack in party.ATTACKS}
    caught = {}
    for bug in party.PLANTED:
        with bug.plant():
            caught[bug.name] = judge_attack(attacks[bug.attack], bug.plays).refuted
    return caught

"""Plans, promises and chances for many terms, compared number by number with what they were; a second.

Plans are signed and promises are shown to members: both must not change with the code that computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from hashlib import shake_256
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.federated.relay import RelayTerms, collusion, compute_guarantees, game
from noisebank.federated.relay.grid import clip_norm, dequantize_sum, quantize_vector, scale_for_bid, scale_for_variance
from noisebank.federated.relay.guarantee import worst_guarantees
from noisebank.federated.relay.remedies import (
    ever_exposed,
    may_join,
    past_error,
    reclip_slices,
    skip_error,
    slice_norm,
    vector_to_send,
)  # fmt: skip
from noisebank.federated.relay.split import order_by_preference, split_error, split_groups
from snapshots.comparing import compact_json, hold_text
from support.relay import made_plan

BIDS = ([0.3, 1.3, 0.7, 0.9], [1.0, 1.0, 1.0], [0.5, 2.0, 0.1, 0.4, 0.8, 0.0, 1.1])
F = Fraction
TERMS = (
    {}, {"colluders": 1}, {"colluders": 2, "floor": F(1, 3)}, {"bound": F(5, 2), "delta": F(1, 10**9), "publish": True},
    {"mode": "bas"}, {"mode": "bas", "groups": 2}, {"mode": "bas", "groups": 2, "split": "random", "least": F(2)},
    {"mode": "bas", "floor": F(1, 2), "publish": True}, {"mode": "sar", "slices": 3}, {"mode": "sar", "slices": 3,
    "groups": 2, "skip": F(1, 4)}, {"mode": "sar", "slices": 2, "skip": F(1, 2), "instead": "past"},
    {"mode": "sar", "slices": 3, "slice_norm": F(3, 4), "least": F(1, 5), "floor": F(1, 9)}, {"attempts": 5},
)  # fmt: skip
ENDS: tuple[tuple[dict[str, Any], str, Any, Any], ...] = (
    ({}, "dimension", 1, 0), ({"attempts": 1}, "dimension", 2**20, 2**20 + 1), ({}, "attempts", 1, 0),
    ({"dimension": 2**18}, "attempts", 4, 5), ({"mode": "sar"}, "slices", 1, 0), ({"mode": "sar"}, "slices", 5, 6),
    ({"mode": "sar", "dimension": 999}, "slices", 256, 257), ({"mode": "bas"}, "groups", 1, 0),
    ({"mode": "bas"}, "groups", 128, 129), ({}, "least_members", 2, 1), ({}, "least_members", 256, 257),
    ({}, "colluders", 0, -1), ({}, "colluders", 254, 255), ({}, "patience_ms", 100, 99),
    ({}, "patience_ms", 600_000, 600_001), ({}, "bound", F(1, 10**12), F(1, 10**12 + 1)),
    ({}, "bound", F(10**12), F(10**12 + 1)), ({"mode": "sar"}, "skip", 1 - F(1, 10**9), 1 - F(1, 10**9 + 1)),
    ({"mode": "sar"}, "skip", F(0), F(-1, 9)), ({"mode": "sar"}, "slice_norm", F(1, 10**6), F(1, 10**6 + 1)),
    ({"mode": "sar"}, "slice_norm", F(1024), F(10241, 10)), ({}, "delta", F(1, 10**30), F(1, 10**30 + 1)),
    ({}, "delta", F(1, 2), F(51, 100)), ({}, "floor", F(0), F(-1)), ({}, "floor", F(1, 2**28), F(1, 2**28 + 9)),
    ({}, "least", F(2**28), F(2**28 + 9)), ({}, "mode", "masked", "open"), ({}, "split", "sorted", "by age"),
    ({"mode": "sar", "skip": F(1, 2)}, "instead", "past", "noise"), ({"mode": "sar"}, "instead", "zeros", "past"),
    ({"mode": "bas"}, "colluders", 0, 1), ({"mode": "bas"}, "slices", 1, 2), ({}, "groups", 1, 2),
    ({}, "bound", F(1), 1), ({}, "dimension", 5, True), ({}, "attempts", 2, 2.0),
)  # fmt: skip
"""Terms beside the one that is looked at, its name, what is just allowed and what just is not."""


@pytest.mark.parametrize("number", range(len(ENDS)))
def test_terms_end_where_they_end(number: int) -> None:
    others, name, allowed, refused = ENDS[number]
    terms = RelayTerms(**{"dimension": 5, **others, name: allowed})
    assert RelayTerms.from_json(terms.to_json()) == terms and getattr(terms, name) == allowed
    with pytest.raises(BadRequest):
        RelayTerms(**{"dimension": 5, **others, name: refused})


@pytest.mark.parametrize("name", ["bound", "skip", "slice_norm", "delta", "floor", "least"])
def test_a_refusal_quotes_the_first_signs_and_no_more(name: str) -> None:
    long = -F(10**60 + 1, 3)
    for given in (long, str(long)):
        with pytest.raises(BadRequest) as refused:
            RelayTerms(**{"dimension": 5, "mode": "sar", name: given})
        assert (refused.value.parameter, refused.value.got) == (name, str(long)[:40])


def describe_plan(terms: RelayTerms, bids: list[float], salt: int) -> Iterator[str]:
    try:
        plan = made_plan(terms, bids, attempt=1 + salt, salt=salt)
    except NoisebankError as error:
        yield f"! {error}"
        return
    yield f"{plan.digest.hex()[:16]} {plan.member_scale} {float(plan.variance):.6g}"
    yield f"  {terms.slice_ranges} {terms.share_sent} {terms.patience_seconds}"
    yield from (
        f"  {chain.start}:{chain.stop} {' '.join(who[-1] for who in chain.order)} {chain.scales} {chain.size}"
        for chain in plan.chains
    )
    address = plan.members[1].address
    for name, promises in (("own", compute_guarantees(plan, address, [plan])), ("worst", worst_guarantees(plan))):
        yield f"  {name} " + compact_json([[str(each), *each.to_json().values()] for each in promises])


def test_plans_and_promises_are_what_they_were() -> None:
    seen = []
    for number, (options, bids) in enumerate(product(TERMS, BIDS)):
        seen.append(f"-- {options} {bids}")
        seen += describe_plan(RelayTerms(**{"dimension": 7, **options}), bids, number % 3)
    hold_text("relay/plans.txt", "\n".join(seen))


def test_the_game_and_the_chances_are_what_they_were() -> None:
    betas = [[0.5, 1.3, 0.9, 0.2], [1.0, 1.0], [0.1, 0.2, 3.0, 0.7, 0.7]]
    functions = (
        game.nash_equilibrium, game.subgame_perfect, game.central_optimum, game.local_variances, game.local_costs,
        game.price_of_anarchy, game.printed_anarchy_bound, order_by_preference,
    )  # fmt: skip
    seen = [
        f"{function.__name__} {each} " + compact_json(np.asarray(function(each)).tolist())
        for function in functions
        for each in betas
    ]
    for each in betas:
        groups = split_groups(order_by_preference(each), 2)
        seen.append(
            compact_json(
                [
                    [list(map(int, group)) for group in groups],
                    float(split_error(each, groups)),
                    game.anarchy_limit(len(each)),
                ]
            )
        )
        seen.append(compact_json([game.best_response(each[0], before) for before in (0.0, 0.1, 5.0)]))
        seen.append(compact_json([game.bid_cost(each[0], bid, each[1:]) for bid in (0.0, 0.2, 1.0, 4.0)]))
        seen.append(compact_json(game.relay_costs(each, game.nash_equilibrium(each)).tolist()))
    chances = (
        collusion.weak_chance, collusion.strong_chance, collusion.published_chance, collusion.printed_strong_chance,
    )  # fmt: skip
    for chance, users in product(chances, (2, 3, 10, 50)):
        seen.append(f"{chance.__name__} {users} " + compact_json([chance(users, p) for p in (0.0001, 0.1, 0.5)]))
    for kind, users in product(("weak", "strong", "published"), (3, 10, 40)):
        answers = "".join(str(int(may_join(p / 100, users, kind))) for p in range(0, 101, 4))
        seen.append(f"{kind} {users} {answers} {collusion.collusion_threshold(collusion.weak_chance, users):.6g}")
    for skip in (0.0, 0.25, 0.9):
        numbers = [skip_error(skip, 2.0, 5), past_error(skip, 2.0, 5), past_error(skip, 2.0, 5, 0.3)]
        seen.append(compact_json([*numbers, *(ever_exposed(0.2, skip, kind) for kind in ("zeros", "past"))]))
    seen.append(compact_json([slice_norm(3.0, slices) for slices in (1, 2, 9)]))
    hold_text("relay/chances.txt", "\n".join(seen))


def test_what_is_sent_and_how_it_is_rounded_is_what_it_was() -> None:
    vector = np.array([0.5, -1.7, 0.0, 2.4, -0.001, 0.25, 9.0])
    seen = []
    for bound in (F(1), F(5, 2), F(1, 3)):
        made = quantize_vector(vector, bound, 7)
        seen.append(f"{bound} {made.steps.tolist()} {made.clipped_count}")
        seen.append(compact_json(dequantize_sum(made.steps, bound, 1.0).tolist()))
        limit = 2**31
        seen.append(str(clip_norm(made.steps, limit).tolist()))
    seen.append(str([scale_for_bid(bid) for bid in (1, 10**6, 1_300_000_000, 10**15)]))
    seen.append(str([scale_for_variance(F(top, 7)) for top in (0, 1, 7, 50)]))
    seen.append(compact_json(reclip_slices(vector, [(0, 3), (3, 7)], 1.0).tolist()))
    count = iter(range(100))
    with patch("noisebank.core.entropy.os.urandom", lambda size: shake_256(b"%d" % next(count)).digest(size)):
        for skip, instead in ((F(0), "zeros"), (F(1, 2), "zeros"), (F(1, 2), "past"), (F(4, 5), "past")):
            terms = RelayTerms(7, mode="sar", slices=4, skip=skip, instead=instead)
            for past in (None, vector / 9):
                said: list[str] = []
                sent = vector_to_send(vector, past, terms, said.append)
                seen.append(compact_json([str(skip), instead, sent.tolist(), said]))
    hold_text("relay/vectors.txt", "\n".join(seen))

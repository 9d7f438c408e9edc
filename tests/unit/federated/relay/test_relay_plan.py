"""Plans and promises: what follows from terms, bids and seeds, checked by hand and by enumeration."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest

from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.relay import Coalition, RelayTerms, Requirements, compute_guarantees, make_plan, min_variance
from noisebank.federated.relay.grid import (
    MIN_SCALE,
    STEPS_PER_BOUND,
    quantize_vector,
    scale_for_bid,
    scale_for_variance,
)
from noisebank.federated.relay.guarantee import attempt_loss, compute_guarantee, hiding_variance, worst_guarantees
from noisebank.federated.relay.plan import MemberEntry, RelayChain, seed_commitment
from noisebank.federated.relay.requirements import ONE_CURIOUS_MEMBER
from noisebank.federated.relay.terms import MAX_DRAWS
from support.relay import made_plan

BIDS = [0.3, 1.3, 0.7, 0.9]


def test_the_first_takes_all_noise_and_is_never_the_largest():
    firsts = Counter()
    for salt in range(200):
        chain = made_plan(RelayTerms(6, mode="bas"), BIDS, salt=salt).chains[0]
        firsts[int(chain.order[0], 16)] += 1
        assert sorted(chain.order) == sorted(f"0x{n:040x}" for n in range(4))
        assert chain.scales == (scale_for_bid(1_300_000_000), 0, 0, 0)
    assert firsts[1] == 0 and min(firsts[n] for n in (0, 2, 3)) > 40


def test_wanted_scale_is_the_least_that_reaches_m_beta():
    for bid in (1, 10**6, 1_300_000_000, 10**15):
        scale = scale_for_bid(bid)
        reached, missed = (4 * Fraction(s, STEPS_PER_BOUND) ** 6 for s in (scale, scale - 1))
        assert missed < Fraction(bid, 10**9) ** 3 <= reached
    assert scale_for_variance(Fraction(1)) == STEPS_PER_BOUND and scale_for_variance(Fraction(0)) == 0
    assert scale_for_variance(Fraction(2)) ** 2 >= 2 * STEPS_PER_BOUND**2 > (scale_for_variance(Fraction(2)) - 1) ** 2


def test_equal_bids_end_and_zero_bids_are_refused():
    assert made_plan(RelayTerms(2, mode="bas"), [1.0, 1.0, 1.0]).chains
    with pytest.raises(Refused, match="exact sum"):
        made_plan(RelayTerms(2, mode="bas"), [0.0, 0.0])
    assert (
        made_plan(RelayTerms(2), [1e-9, 0.0]).member_scale == MIN_SCALE
    )  # tiny wishes are rounded up to what is proved


def test_slices_cover_every_coordinate_once():
    for dimension, slices in ((10, 3), (50, 50), (7, 2), (11, 4)):
        cuts = RelayTerms(dimension, mode="sar", slices=slices).slice_ranges
        assert [place for start, stop in cuts for place in range(start, stop)] == list(range(dimension))
    plan = made_plan(RelayTerms(50, mode="sar", slices=50), BIDS)
    assert len({chain.order for chain in plan.chains}) > 5


def test_groups_have_their_own_noise():
    plan = made_plan(RelayTerms(4, mode="bas", groups=2), [0.1, 1.0, 0.2, 0.9])
    assert [chain.scales[0] for chain in plan.chains] == [scale_for_bid(200_000_000), scale_for_bid(1_000_000_000)]
    assert made_plan(RelayTerms(4, mode="bas", groups=2, split="random"), BIDS).chains
    with pytest.raises(Refused, match="needs 4"):
        made_plan(RelayTerms(4, mode="bas", groups=2), [0.1, 1.0, 0.2])


@pytest.mark.parametrize("bids", [[], [1.0]])
def test_a_relay_of_one_is_refused(bids):
    with pytest.raises(Refused, match="a round needs"):
        made_plan(RelayTerms(2), bids)


@pytest.mark.parametrize("name", ["address", "endpoint", "public_key", "commitment"])
def test_duplicate_members_are_refused(name):
    seeds = [bytes([n]) * 32 for n in range(3)]
    members = [MemberEntry(f"0x{n}", f"h:{n}", 10**9, seed_commitment(seed), seed) for n, seed in enumerate(seeds)]
    fields = {key: getattr(members[2], key) for key in MemberEntry.__slots__} | {name: getattr(members[0], name)}
    copied = [*seeds[:2], seeds[0] if name == "commitment" else seeds[2]]
    with pytest.raises(Refused, match="same"):
        make_plan(RelayTerms(2), "r", 1, [*members[:2], MemberEntry(**fields)], copied, b"")


def test_a_seed_that_was_changed_is_refused():
    entry = [MemberEntry(f"0x{n}", f"h:{n}", 10**9, seed_commitment(bytes([n]) * 32), bytes([n])) for n in range(2)]
    with pytest.raises(Refused, match="another seed"):
        make_plan(RelayTerms(2), "r", 1, entry, [bytes([0]) * 32, bytes([7]) * 32], b"")


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": 0}, {"dimension": -1}, {"dimension": 2**21}, {"dimension": True}, {"dimension": 4, "bound": 0},
        {"dimension": 4, "mode": "ring"}, {"dimension": 4, "slices": 2}, {"dimension": 4, "attempts": 0},
        {"dimension": MAX_DRAWS, "attempts": 2}, {"dimension": 4, "delta": Fraction(0)}, {"dimension": 4, "delta": 1},
        {"dimension": 4, "floor": Fraction(-1)}, {"dimension": 4, "mode": "sar", "skip": Fraction(1)},
        {"dimension": 4, "mode": "bas", "colluders": 1}, {"dimension": 4, "groups": 2}, {"dimension": 4, "split": "x"},
        {"dimension": 4, "least_members": 1}, {"dimension": 4, "floor": Fraction(1, 2**40)},
    ],
)  # fmt: skip
def test_bad_terms_are_refused(wrong):
    with pytest.raises(BadRequest):
        RelayTerms(**wrong)


@pytest.mark.parametrize("epsilon", ["0", "-1", "1000"])
def test_epsilon_must_be_positive_and_ordinary(epsilon):
    with pytest.raises(BadRequest):
        min_variance(Fraction(epsilon), Fraction(1, 10**6), 4, 1)
    if Fraction(epsilon) <= 0:
        with pytest.raises(BadRequest):
            Requirements(max_epsilon=float(epsilon))


def test_terms_survive_the_wire_and_unknown_ones_do_not():
    terms = RelayTerms(9, Fraction(5, 2), "sar", 3, floor=Fraction(1, 7), slice_norm=Fraction(2), publish=True)
    assert RelayTerms.from_json(terms.to_json()) == terms
    for change in ({"more": 1}, {"publish": "yes"}, {"dimension": "9"}, {"delta": "nan"}):
        with pytest.raises(BadRequest):
            RelayTerms.from_json({**terms.to_json(), **change})


@pytest.mark.parametrize("bad", [[float("nan"), 0.0], [float("inf"), 0.0], [0.0], [[0.0, 0.0]], ["a", "b"]])
def test_bad_vectors_are_refused(bad):
    with pytest.raises(BadRequest):
        quantize_vector(bad, Fraction(1), 2)


def test_vectors_are_clipped_and_it_is_counted():
    made = quantize_vector([2.0, -0.5, -9.0, 1.0], Fraction(1), 4)
    assert made.clipped_count == 2
    assert made.steps.view("int64").tolist() == [
        STEPS_PER_BOUND,
        -STEPS_PER_BOUND // 2,
        -STEPS_PER_BOUND,
        STEPS_PER_BOUND,
    ]


def test_hiding_is_what_the_best_coalition_finds_by_enumeration():
    """Against every coalition: sums known on both sides, the least noise in between."""
    scales, size = (7, 1, 0, 3, 2), 5
    chain = RelayChain(0, 1, tuple("abcde"), scales)
    for place in range(size):
        others = [p for p in range(size) if p != place]
        for count in range(size):
            for ends in (False, True):
                least = None
                for coalition in combinations(others, count):
                    known = {0} | set(coalition) | {p + 1 for p in coalition} | ({size} if ends else set())
                    right = [k for k in known if k > place]
                    if right:
                        left = max(k for k in known if k <= place)
                        noise = sum(s * s for s in scales[left : min(right)])
                        least = noise if least is None else min(least, noise)
                assert hiding_variance(chain, place, count, ends) == least, (place, count, ends)


def test_what_a_relay_promises():
    plan = made_plan(RelayTerms(50, mode="bas", delta=Fraction(1, 10**5)), BIDS)
    first, second, _, last = plan.chains[0].order
    total = plan.chains[0].variance()
    whole = Fraction(4 * 50 * STEPS_PER_BOUND**2, total)
    assert float(attempt_loss(plan, second, Coalition(1, False))) == pytest.approx(float(whole))
    assert attempt_loss(plan, second, Coalition(2, False)) is None  # bracketed
    assert attempt_loss(plan, last, Coalition(1, True)) is None  # the member before it and the sum
    assert not attempt_loss(plan, last, Coalition(3, False))  # nobody but the server sees what the last sends
    assert float(attempt_loss(plan, first, Coalition(3, True))) == pytest.approx(float(whole))  # its own noise
    published = made_plan(RelayTerms(50, mode="bas", publish=True), BIDS)
    assert attempt_loss(published, published.chains[0].order[-1], Coalition(1, False)) is None


def test_slicing_promises_nothing_more():
    one, many = (made_plan(RelayTerms(50, mode=m, slices=s), BIDS) for m, s in (("bas", 1), ("sar", 50)))
    server = Coalition(0, True)
    assert float(attempt_loss(one, one.members[0].address, server)) == pytest.approx(
        float(attempt_loss(many, many.members[0].address, server))
    )
    assert attempt_loss(many, many.members[0].address, Coalition(2, False)) is None  # some slice is bracketed


def test_default_preferences_protect_nobody():
    plan = made_plan(RelayTerms(50, mode="bas", delta=Fraction(1, 10**5)), [1.3 * 10 / 11, 0.5])
    assert compute_guarantee([plan], plan.chains[0].order[0], Coalition(0, True)).epsilon == pytest.approx(
        203.33, abs=0.01
    )


def test_floor_and_masks_protect_from_coalitions():
    floored = made_plan(RelayTerms(50, mode="bas", floor=Fraction(1)), BIDS)
    middle = floored.chains[0].order[1]
    assert float(attempt_loss(floored, middle, Coalition(3, True))) == pytest.approx(200.0)
    masked = made_plan(RelayTerms(50, colluders=2), BIDS)
    goal = Fraction(4 * 50 * STEPS_PER_BOUND**2, scale_for_bid(1_300_000_000) ** 2)
    who = masked.members[0].address
    assert float(attempt_loss(masked, who, Coalition(2, True))) == pytest.approx(float(goal), rel=1e-9)
    assert float(attempt_loss(masked, who, Coalition(2, True))) <= float(goal)
    assert float(attempt_loss(masked, who, Coalition(3, True))) > float(goal)
    assert not attempt_loss(masked, who, Coalition(3, False))
    assert float(attempt_loss(masked, who, Coalition(99, True))) == float(attempt_loss(masked, who, Coalition(3, True)))


def test_a_second_attempt_costs_again():
    plans = [made_plan(RelayTerms(5, mode="bas"), BIDS, attempt) for attempt in (1, 2)]
    who, server = plans[0].members[0].address, Coalition(0, True)
    one, two = compute_guarantee(plans[:1], who, server), compute_guarantee(plans, who, server)
    assert two.loss.units == 2 * one.loss.units and two.epsilon > one.epsilon


def test_noise_for_an_epsilon_keeps_it():
    delta, attempts = Fraction(1, 10**6), 2
    least = min_variance(Fraction(4), delta, 20, attempts)
    plans = [made_plan(RelayTerms(20, mode="bas", least=least, delta=delta, attempts=2), BIDS, n) for n in (1, 2)]
    assert 3.99 < compute_guarantee(plans, plans[0].chains[0].order[1], ONE_CURIOUS_MEMBER).epsilon <= 4.0


def test_demands():
    plan = made_plan(RelayTerms(5, mode="bas", publish=True), BIDS)
    last = plan.chains[0].order[-1]
    with pytest.raises(Refused, match="could compute"):
        Requirements().check_plan(plan, last)
    Requirements(unprotected=True).check_plan(plan, last)
    masked = made_plan(RelayTerms(5), BIDS)
    who = masked.members[0].address
    Requirements(Coalition(0, True), max_epsilon=1e6).check_plan(masked, who)
    with pytest.raises(Refused, match="would learn"):
        Requirements(Coalition(0, True), max_epsilon=0.5).check_plan(masked, who)
    with pytest.raises(Refused, match="too likely"):
        Requirements(suspicion=0.9).check_plan(masked, who)
    with pytest.raises(Refused, match="expected peers"):
        Requirements(peers=frozenset({"0x1"})).check_plan(masked, who)
    Requirements(peers=frozenset(member.address for member in masked.members)).check_plan(masked, who)


def test_every_coalition_is_reported_and_the_worst_off_counts():
    plan = made_plan(RelayTerms(5, mode="bas"), BIDS)
    worst = worst_guarantees(plan)
    for member in plan.members:
        for mine, theirs in zip(compute_guarantees(plan, member.address), worst, strict=True):
            assert mine.epsilon <= theirs.epsilon
    assert {str(row.coalition) for row in worst} >= {"outsiders", "the server alone", "one curious member"}
    assert "NO PROTECTION" in str(worst[-1]) and worst[-1].to_json()["epsilon"] is None

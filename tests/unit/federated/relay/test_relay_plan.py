"""Plans and promises: what follows from terms, bids and seeds, checked by hand and by enumeration."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest

from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.relay import Demand, Terms, Trust, guarantees, least_variance, make_plan
from noisebank.federated.relay.grid import LEAST_SCALE, STEPS, contribution, scale_of_variance, wanted_scale
from noisebank.federated.relay.guarantee import guarantee, hiding, loss, worst_guarantees
from noisebank.federated.relay.plan import Chain, Entry, seed_commitment
from noisebank.federated.relay.requirements import ONE_CURIOUS_MEMBER
from noisebank.federated.relay.terms import MAX_DRAWS
from support.relay import made_plan

BIDS = [0.3, 1.3, 0.7, 0.9]


def test_the_first_takes_all_noise_and_is_never_the_largest():
    firsts = Counter()
    for salt in range(200):
        chain = made_plan(Terms(6, mode="bas"), BIDS, salt=salt).chains[0]
        firsts[int(chain.order[0], 16)] += 1
        assert sorted(chain.order) == sorted(f"0x{n:040x}" for n in range(4))
        assert chain.scales == (wanted_scale(1_300_000_000), 0, 0, 0)
    assert firsts[1] == 0 and min(firsts[n] for n in (0, 2, 3)) > 40


def test_wanted_scale_is_the_least_that_reaches_m_beta():
    for bid in (1, 10**6, 1_300_000_000, 10**15):
        scale = wanted_scale(bid)
        reached, missed = (4 * Fraction(s, STEPS) ** 6 for s in (scale, scale - 1))
        assert missed < Fraction(bid, 10**9) ** 3 <= reached
    assert scale_of_variance(Fraction(1)) == STEPS and scale_of_variance(Fraction(0)) == 0
    assert scale_of_variance(Fraction(2)) ** 2 >= 2 * STEPS**2 > (scale_of_variance(Fraction(2)) - 1) ** 2


def test_equal_bids_end_and_zero_bids_are_refused():
    assert made_plan(Terms(2, mode="bas"), [1.0, 1.0, 1.0]).chains
    with pytest.raises(Refused, match="exact sum"):
        made_plan(Terms(2, mode="bas"), [0.0, 0.0])
    assert made_plan(Terms(2), [1e-9, 0.0]).scale == LEAST_SCALE  # tiny wishes are rounded up to what is proved


def test_slices_cover_every_coordinate_once():
    for dimension, slices in ((10, 3), (50, 50), (7, 2), (11, 4)):
        cuts = Terms(dimension, mode="sar", slices=slices).cuts
        assert [place for start, stop in cuts for place in range(start, stop)] == list(range(dimension))
    plan = made_plan(Terms(50, mode="sar", slices=50), BIDS)
    assert len({chain.order for chain in plan.chains}) > 5


def test_groups_have_their_own_noise():
    plan = made_plan(Terms(4, mode="bas", groups=2), [0.1, 1.0, 0.2, 0.9])
    assert [chain.scales[0] for chain in plan.chains] == [wanted_scale(200_000_000), wanted_scale(1_000_000_000)]
    assert made_plan(Terms(4, mode="bas", groups=2, split="random"), BIDS).chains
    with pytest.raises(Refused, match="needs 4"):
        made_plan(Terms(4, mode="bas", groups=2), [0.1, 1.0, 0.2])


@pytest.mark.parametrize("bids", [[], [1.0]])
def test_a_relay_of_one_is_refused(bids):
    with pytest.raises(Refused, match="a round needs"):
        made_plan(Terms(2), bids)


@pytest.mark.parametrize("name", ["address", "endpoint", "public_key", "commitment"])
def test_duplicate_members_are_refused(name):
    seeds = [bytes([n]) * 32 for n in range(3)]
    members = [Entry(f"0x{n}", f"h:{n}", 10**9, seed_commitment(seed), seed) for n, seed in enumerate(seeds)]
    fields = {key: getattr(members[2], key) for key in Entry.__slots__} | {name: getattr(members[0], name)}
    copied = [*seeds[:2], seeds[0] if name == "commitment" else seeds[2]]
    with pytest.raises(Refused, match="same"):
        make_plan(Terms(2), "r", 1, [*members[:2], Entry(**fields)], copied, b"")


def test_a_seed_that_was_changed_is_refused():
    entry = [Entry(f"0x{n}", f"h:{n}", 10**9, seed_commitment(bytes([n]) * 32), bytes([n])) for n in range(2)]
    with pytest.raises(Refused, match="another seed"):
        make_plan(Terms(2), "r", 1, entry, [bytes([0]) * 32, bytes([7]) * 32], b"")


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
        Terms(**wrong)


@pytest.mark.parametrize("epsilon", ["0", "-1", "1000"])
def test_epsilon_must_be_positive_and_ordinary(epsilon):
    with pytest.raises(BadRequest):
        least_variance(Fraction(epsilon), Fraction(1, 10**6), 4, 1)
    if Fraction(epsilon) <= 0:
        with pytest.raises(BadRequest):
            Demand(epsilon=float(epsilon))


def test_terms_survive_the_wire_and_unknown_ones_do_not():
    terms = Terms(9, Fraction(5, 2), "sar", 3, floor=Fraction(1, 7), slice_norm=Fraction(2), publish=True)
    assert Terms.parse(terms.plain()) == terms
    for change in ({"more": 1}, {"publish": "yes"}, {"dimension": "9"}, {"delta": "nan"}):
        with pytest.raises(BadRequest):
            Terms.parse({**terms.plain(), **change})


@pytest.mark.parametrize("bad", [[float("nan"), 0.0], [float("inf"), 0.0], [0.0], [[0.0, 0.0]], ["a", "b"]])
def test_bad_vectors_are_refused(bad):
    with pytest.raises(BadRequest):
        contribution(bad, Fraction(1), 2)


def test_vectors_are_clipped_and_it_is_counted():
    made = contribution([2.0, -0.5, -9.0, 1.0], Fraction(1), 4)
    assert made.clipped == 2
    assert made.steps.view("int64").tolist() == [STEPS, -STEPS // 2, -STEPS, STEPS]


def test_hiding_is_what_the_best_coalition_finds_by_enumeration():
    """Against every coalition: sums known on both sides, the least noise in between."""
    scales, size = (7, 1, 0, 3, 2), 5
    chain = Chain(0, 1, tuple("abcde"), scales)
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
                assert hiding(chain, place, count, ends) == least, (place, count, ends)


def test_what_a_relay_promises():
    plan = made_plan(Terms(50, mode="bas", delta=Fraction(1, 10**5)), BIDS)
    first, second, _, last = plan.chains[0].order
    total = plan.chains[0].variance()
    whole = Fraction(4 * 50 * STEPS**2, total)
    assert float(loss(plan, second, Trust(1, False))) == pytest.approx(float(whole))
    assert loss(plan, second, Trust(2, False)) is None  # bracketed
    assert loss(plan, last, Trust(1, True)) is None  # the member before it and the sum
    assert not loss(plan, last, Trust(3, False))  # nobody but the server sees what the last sends
    assert float(loss(plan, first, Trust(3, True))) == pytest.approx(float(whole))  # its own noise
    published = made_plan(Terms(50, mode="bas", publish=True), BIDS)
    assert loss(published, published.chains[0].order[-1], Trust(1, False)) is None


def test_slicing_promises_nothing_more():
    one, many = (made_plan(Terms(50, mode=m, slices=s), BIDS) for m, s in (("bas", 1), ("sar", 50)))
    server = Trust(0, True)
    assert float(loss(one, one.members[0].address, server)) == pytest.approx(
        float(loss(many, many.members[0].address, server))
    )
    assert loss(many, many.members[0].address, Trust(2, False)) is None  # some slice is bracketed


def test_default_preferences_protect_nobody():
    plan = made_plan(Terms(50, mode="bas", delta=Fraction(1, 10**5)), [1.3 * 10 / 11, 0.5])
    assert guarantee([plan], plan.chains[0].order[0], Trust(0, True)).epsilon == pytest.approx(203.33, abs=0.01)


def test_floor_and_masks_protect_from_coalitions():
    floored = made_plan(Terms(50, mode="bas", floor=Fraction(1)), BIDS)
    middle = floored.chains[0].order[1]
    assert float(loss(floored, middle, Trust(3, True))) == pytest.approx(200.0)
    masked = made_plan(Terms(50, colluders=2), BIDS)
    goal = Fraction(4 * 50 * STEPS**2, wanted_scale(1_300_000_000) ** 2)
    who = masked.members[0].address
    assert float(loss(masked, who, Trust(2, True))) == pytest.approx(float(goal), rel=1e-9)
    assert float(loss(masked, who, Trust(2, True))) <= float(goal)
    assert float(loss(masked, who, Trust(3, True))) > float(goal)
    assert not loss(masked, who, Trust(3, False))
    assert float(loss(masked, who, Trust(99, True))) == float(loss(masked, who, Trust(3, True)))


def test_a_second_attempt_costs_again():
    plans = [made_plan(Terms(5, mode="bas"), BIDS, attempt) for attempt in (1, 2)]
    who, server = plans[0].members[0].address, Trust(0, True)
    one, two = guarantee(plans[:1], who, server), guarantee(plans, who, server)
    assert two.loss.units == 2 * one.loss.units and two.epsilon > one.epsilon


def test_noise_for_an_epsilon_keeps_it():
    delta, attempts = Fraction(1, 10**6), 2
    least = least_variance(Fraction(4), delta, 20, attempts)
    plans = [made_plan(Terms(20, mode="bas", least=least, delta=delta, attempts=2), BIDS, n) for n in (1, 2)]
    assert 3.99 < guarantee(plans, plans[0].chains[0].order[1], ONE_CURIOUS_MEMBER).epsilon <= 4.0


def test_demands():
    plan = made_plan(Terms(5, mode="bas", publish=True), BIDS)
    last = plan.chains[0].order[-1]
    with pytest.raises(Refused, match="could compute"):
        Demand().check(plan, last)
    Demand(unprotected=True).check(plan, last)
    masked = made_plan(Terms(5), BIDS)
    who = masked.members[0].address
    Demand(Trust(0, True), epsilon=1e6).check(masked, who)
    with pytest.raises(Refused, match="would learn"):
        Demand(Trust(0, True), epsilon=0.5).check(masked, who)
    with pytest.raises(Refused, match="too likely"):
        Demand(suspicion=0.9).check(masked, who)
    with pytest.raises(Refused, match="expected peers"):
        Demand(peers=frozenset({"0x1"})).check(masked, who)
    Demand(peers=frozenset(member.address for member in masked.members)).check(masked, who)


def test_every_coalition_is_reported_and_the_worst_off_counts():
    plan = made_plan(Terms(5, mode="bas"), BIDS)
    worst = worst_guarantees(plan)
    for member in plan.members:
        for mine, theirs in zip(guarantees(plan, member.address), worst, strict=True):
            assert mine.epsilon <= theirs.epsilon
    assert {str(row.trust) for row in worst} >= {"outsiders", "the server alone", "one curious member"}
    assert "NO PROTECTION" in str(worst[-1]) and worst[-1].plain()["epsilon"] is None

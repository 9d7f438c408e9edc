"""Over many inputs: the game, plans, promises, messages and masks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import NoisebankError, Tampered
from noisebank.federated.relay import Coalition, RelayTerms, game
from noisebank.federated.relay.grid import STEPS_PER_BOUND, dequantize_sum, is_plausible, quantize_vector
from noisebank.federated.relay.guarantee import attempt_loss
from noisebank.federated.relay.messages import Message, MessageSigner
from noisebank.federated.relay.sealing import AttemptKey, sum_masks
from noisebank.federated.relay.split import order_by_preference, split_error, split_groups
from noisebank.ledger.signing import Key
from support.relay import made_plan

BETAS = st.lists(st.floats(0.001, 100.0), min_size=2, max_size=12)
PEN = MessageSigner(Key(b"\x05" * 32))


@given(BETAS)
def test_equilibria(betas):
    assert game.is_nash(betas, game.nash_equilibrium(betas), tolerance=1e-9 * max(betas))
    top = game.TOP_UP * max(betas)
    assert float(game.nash_equilibrium(betas).sum()) == pytest.approx(top)
    assert float(game.subgame_perfect(betas).sum()) == pytest.approx(top)
    price = float(game.price_of_anarchy(betas))
    assert 1.0 - 1e-12 <= price <= min(game.anarchy_limit(len(betas)), max(betas) / min(betas)) * (1 + 1e-12)


@given(BETAS, st.integers(0, 11), st.floats(0.001, 200.0))
def test_no_bid_beats_the_truth(betas, who, bid):
    who %= len(betas)
    others = betas[:who] + betas[who + 1 :]
    honest = game.bid_cost(betas[who], betas[who], others)
    assert game.bid_cost(betas[who], bid, others) >= honest * (1 - 1e-12)


@given(BETAS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_sorted_groups_of_equal_size_have_the_least_noise(betas, size, mixer):
    groups = max(1, len(betas) // size)
    betas = betas[: groups * (len(betas) // groups)]
    order = list(range(len(betas)))
    mixer.shuffle(order)
    best = split_error(betas, split_groups(order_by_preference(betas), groups))
    assert best <= split_error(betas, split_groups(order, groups)) * (1 + 1e-12)
    assert split_error(betas, split_groups(order, groups)) <= float(game.local_variances(betas).sum()) / len(
        betas
    ) ** 2 * (1 + 1e-12)


@given(BETAS, st.sampled_from(["bas", "sar", "masked"]), st.integers(1, 30), st.integers(0, 3), st.booleans())
@settings(max_examples=30)
def test_a_larger_coalition_never_learns_less_and_a_floor_bounds_it(betas, mode, dimension, salt, publish):
    slices = min(4, dimension) if mode == "sar" else 1
    floor = Fraction(1, 16)
    plain = RelayTerms(dimension, mode=mode, slices=slices, publish=publish)
    floored = RelayTerms(dimension, mode=mode, slices=slices, publish=publish, floor=floor)
    for terms in (plain, floored):
        plan = made_plan(terms, betas, salt=salt)
        for member in plan.members:
            for server in (False, True):
                found = [attempt_loss(plan, member.address, Coalition(n, server)) for n in range(len(betas))]
                sizes = [float("inf") if one is None else float(one) for one in found]
                assert sizes == sorted(sizes)
            least = [attempt_loss(plan, member.address, Coalition(n, True)) for n in range(len(betas))]
            if terms is floored:
                assert all(one is not None and float(one) <= 4 * dimension / float(floor) * 1.001 for one in least)


@given(BETAS, st.integers(0, 50))
def test_every_relay_has_the_noise_that_the_largest_bid_asks_for(betas, salt):
    plan = made_plan(RelayTerms(3, mode="bas"), betas, salt=salt)
    chain = plan.chains[0]
    assert chain.variance() / STEPS_PER_BOUND**2 >= game.TOP_UP * max(betas) * (1 - 1e-8)
    largest = max(plan.members, key=lambda member: (member.bid, member.address))
    assert chain.order[0] != largest.address and len(set(chain.order)) == len(betas)


@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=20), st.fractions(Fraction(1, 100), 100))
def test_numbers_stay_inside_their_bound(vector, bound):
    made = quantize_vector(vector, bound, len(vector))
    assert np.abs(made.steps.view(np.int64)).max() <= STEPS_PER_BOUND
    back = dequantize_sum(made.steps, bound, 1)
    wanted = np.clip(vector, -float(bound), float(bound))
    assert np.allclose(back, wanted, atol=float(bound) * 2**-39)
    assert is_plausible(made.steps, 1, 0)


@given(st.binary(max_size=300))
def test_noise_on_the_line_is_no_message(raw):
    with pytest.raises(Tampered):
        Message.decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.binary(max_size=50), st.data())
@settings(max_examples=50)
def test_messages_come_back_as_sent_or_not_at_all(body, payload, data):
    sent = PEN.sign_message("r", 1, "pass", "0x0", body, payload)
    raw = sent.encode()
    assert Message.decode(raw) == sent
    place = data.draw(st.integers(0, len(raw) - 1))
    spoiled = raw[:place] + bytes([raw[place] ^ data.draw(st.integers(1, 255))]) + raw[place + 1 :]
    with pytest.raises(NoisebankError):
        Message.decode(spoiled)


@given(st.integers(2, 6), st.integers(1, 20), st.binary(min_size=32, max_size=32))
@settings(max_examples=25)
def test_masks_add_up_to_nothing(members, size, salt):
    keys = {f"0x{n:02d}": AttemptKey(bytes([n + 1]) * 32) for n in range(members)}
    total = np.zeros(size, dtype=np.uint64)
    for who, key in keys.items():
        total += sum_masks(key, who, [(other, k.public_key) for other, k in keys.items() if other != who], size, salt)
    assert not total.any()

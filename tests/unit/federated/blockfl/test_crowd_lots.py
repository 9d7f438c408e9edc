"""Lots: unique, checkable by anybody, with the right number of seats, and leadership proportional to coins."""

from __future__ import annotations

import pytest

from contract.real import Real
from noisebank.core.digests import keccak
from noisebank.federated.blockfl.sortition import (
    FIELD_MODULUS,
    PublicKey,
    SortitionKey,
    compute_priority,
    count_seats,
    hash_signature,
    hash_to_curve,
    verify_signatures,
)
from noisebank.ledger.abi import model_registry

KEYS = [SortitionKey(bytes([number]) * 32) for number in range(1, 4)]
MESSAGE = keccak(b"a round")


def test_signatures_check_and_no_other_does():
    signatures = [key.sign(MESSAGE) for key in KEYS]
    public = [key.public_key for key in KEYS]
    assert signatures == [key.sign(MESSAGE) for key in KEYS]  # one a key and message
    assert verify_signatures(public, MESSAGE, signatures) and verify_signatures([], MESSAGE, [])
    x, y = signatures[0]
    assert not verify_signatures(public, MESSAGE, [(x, FIELD_MODULUS - y), *signatures[1:]])
    assert not verify_signatures(public, MESSAGE, [signatures[1], signatures[0], signatures[2]])
    assert not verify_signatures(public[:1], MESSAGE, [(x, y + 1)])
    assert not verify_signatures([PublicKey(1, 2, 3, 4)], MESSAGE, [(x, y)])


def test_hash_to_the_curve_is_a_point_with_an_even_y():
    for number in range(50):
        x, y = hash_to_curve(keccak(number.to_bytes(32, "big")))
        assert (y * y - x**3 - 3) % FIELD_MODULUS == 0 and y % 2 == 0


def test_seats_follow_the_binomial_distribution():
    from scipy.stats import binom

    for coins, wanted, total in ((10, 5, 50), (64, 20, 640), (1, 1, 3), (5, 20, 50)):
        cdf = binom.cdf(range(coins + 1), coins, wanted / total)
        for number in range(2_000):
            lot = keccak(b"lot", number.to_bytes(4, "big"))
            u = int.from_bytes(lot[:16], "big") / 2**128
            expected = next((j for j in range(coins + 1) if u < cdf[j]), coins)
            near = min(abs(u - value) for value in cdf) < 1e-12
            assert near or count_seats(lot, coins, wanted, total) == expected
    assert count_seats(MESSAGE, 7, 50, 50) == 7  # everybody


def test_leadership_is_proportional_to_coins():
    coins = [20, 10, 5, 5]
    led = [0] * 4
    for number in range(3_000):
        lots = [keccak(bytes([place]), number.to_bytes(4, "big")) for place in range(4)]
        won = [count_seats(lot, own, 20, 40) for lot, own in zip(lots, coins, strict=True)]
        if any(won):
            led[min(range(4), key=lambda place: compute_priority(lots[place], won[place]))] += 1
    shares = [count / sum(led) for count in led]
    assert shares == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.035)


def test_contract_counts_the_same_seats(tmp_path):
    """Through `draw`: a whole committee of one attempt."""
    real = Real(model_registry())
    poster, people = "0x" + "aa" * 20, [f"0x{number:040x}" for number in range(0x2001, 0x2004)]
    (task,), _ = real.call(
        poster, "post", MESSAGE, MESSAGE, keccak(MESSAGE), 1, 0, 9, 60, 0, False, 0,
        tuple(zip(people, (64, 3, 9), strict=True)),
    )  # fmt: skip
    for who, key in zip(people, KEYS, strict=True):
        owned = keccak(*(n.to_bytes(32, "big") for n in (real.chain_id, int(real.address, 16))), task,
                       int(who, 16).to_bytes(32, "big"))  # fmt: skip
        real.call(who, "join", task, *key.public_key.abi_words, *key.sign(owned))
    real.call(poster, "begin", task, MESSAGE)
    for who in people:
        real.call(who, "submit", task, 1, MESSAGE, bytes(32))
    (message,) = real.view("lot_message", task, 1, 1)
    for who, key, coins in zip(people, KEYS, (64, 3, 9), strict=True):
        signature = key.sign(message)
        _, logged = real.call(who, "draw", task, 1, 1, *signature)
        drawn = dict(logged)["Drawn"]
        won = count_seats(hash_signature(signature), coins, 9, 76)
        assert (drawn["seats"], drawn["priority"]) == (won, compute_priority(hash_signature(signature), won))

"""The guarantees of `Vault`, held against both kinds; what one object has kept is read by another."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noisebank import Precision
from support.internals import GridValue, KeyReused, Request, SealedAnswer, Tampered, keccak
from support.patience import patience
from vault.conftest import Opens

ACCOUNT, OTHER, QUERY = b"a" * 32, b"o" * 32, b"q" * 32


def request(number: int, key: str = "k", analyst: str = "owner", account: bytes = ACCOUNT) -> Request:
    return Request(number.to_bytes(32, "big"), account, analyst, key, {"sql": f"SELECT {number}", "wanted": number})


def sealed(number: int, value: int, wanted: int = 1, salt: bytes = b"s" * 32, **body: Any) -> SealedAnswer:
    return SealedAnswer(
        number.to_bytes(32, "big"), ACCOUNT, QUERY, {"wanted": wanted, "value": [value, 0], **body}, salt
    )


def test_openings_cubes_analysts_and_identities_are_kept(opens: Opens) -> None:
    vault = opens()
    vault.save_opening(b"d" * 32, {"policy": {"name": "äöü \u2603"}, "identity": "first", "source": 1})
    vault.save_opening(b"d" * 32, {"policy": "another"})  # the first stays
    assert vault.find_opening(b"x" * 32) is None
    vault.save_identity(b"d" * 32, "second", {"path": "p"})
    vault.save_identity(b"d" * 32, "third", {"path": "q"})
    body = bytes(range(256)) * 10
    digest = vault.save_cube(body)
    assert vault.save_cube(body) == digest == keccak(body)
    for name in ("zoe", "anna", "zoe"):
        vault.save_analyst(ACCOUNT, keccak(name.encode()), name)
    again = opens()
    assert again.find_opening(b"d" * 32) == {
        "policy": {"name": "äöü \u2603"}, "identity": "third", "source": {"path": "q"}
    }  # fmt: skip
    assert (
        again.read_cube(digest) == body
        and again.list_analysts(ACCOUNT) == ("zoe", "anna")
        and not again.list_analysts(OTHER)
    )
    with pytest.raises(Tampered, match="lost a cube"):
        again.read_cube(b"n" * 32)


def test_a_key_belongs_to_one_request_whoever_comes_second(opens: Opens) -> None:
    first, second = opens(), opens()
    first.save_request(request(1))
    second.save_request(request(1))
    with pytest.raises(KeyReused):
        second.save_request(request(2))
    second.save_request(request(3, key="another"))
    second.save_request(request(4, analyst="maria"))
    second.save_request(request(5, account=OTHER))
    assert first.find_request(request(3).id) == request(3, key="another")
    assert first.find_request(request(2).id) is None
    assert first.find_request_by_key(ACCOUNT, "maria", "k") == request(4, analyst="maria")
    assert first.find_request_by_key(ACCOUNT, "maria", "none") is None


def test_the_first_answer_that_is_sealed_stays(opens: Opens) -> None:
    vault = opens()
    with vault.acquire_locks([QUERY]):
        assert vault.seal(sealed(1, 10)) == sealed(1, 10)
        kept = vault.seal(sealed(1, 11, salt=b"t" * 32))
    assert kept == sealed(1, 10) and kept.digest == sealed(1, 10).digest
    assert opens().find_answer(sealed(1, 0).id) == sealed(1, 10)
    assert vault.list_released(ACCOUNT, QUERY) == ((Precision(1), (GridValue(10, 0),)),)
    assert vault.sealed_ids() == ((ACCOUNT, sealed(1, 0).id),)
    assert list(vault.list_answers(ACCOUNT)) == [sealed(1, 10)] and not list(vault.list_answers(OTHER))


def test_points_rise_and_those_of_cubes_are_none(opens: Opens) -> None:
    vault = opens()
    with vault.acquire_locks([QUERY]):
        for number, wanted in enumerate((5, 2, 9), 1):
            body = {"values": [[number, 0], [-number, 3]]}
            vault.seal(sealed(number, 0, wanted, **body))
            assert [precision.units for precision, _ in vault.list_released(ACCOUNT, QUERY)] == sorted(
                (5, 2, 9)[:number]
            )
        vault.seal(sealed(4, 0, 7, cube=1))
    other = opens()
    for each in (vault, other):
        assert [values[1] for _, values in each.list_released(ACCOUNT, QUERY)] == [
            GridValue(-2, 3), GridValue(-1, 3), GridValue(-3, 3)
        ]  # fmt: skip
        assert each.list_released(OTHER, QUERY) == each.list_released(ACCOUNT, OTHER) == ()


def test_two_answers_of_one_precision_are_noticed(opens: Opens) -> None:
    with pytest.raises(Tampered, match="same precision"):
        vault = opens()
        with vault.acquire_locks([QUERY]):
            vault.seal(sealed(1, 10, 4))
            vault.seal(sealed(2, 11, 4))
            vault.list_released(ACCOUNT, QUERY)


def test_turns_are_taken_one_at_a_time_and_given_back_after_an_error(opens: Opens) -> None:
    vault = opens()
    busy, most, rounds = [0, 0], [0, 0], 12

    def work(names: tuple[int, ...]) -> None:
        for _ in range(rounds):
            with vault.acquire_locks([bytes([name]) for name in names]):
                for name in names:
                    busy[name] += 1
                    most[name] = max(most[name], busy[name])
                for name in names:
                    busy[name] -= 1

    # In both orders: nobody waits for somebody who waits for it.
    threads = [threading.Thread(target=work, args=(names,)) for names in ((0, 1), (1, 0), (0,), (1,)) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience())
        assert not thread.is_alive()
    assert most == [1, 1]
    with pytest.raises(ZeroDivisionError), vault.acquire_locks([b"x"]):
        _ = 1 / 0
    with vault.acquire_locks([b"x"]):
        pass


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40), st.binary(max_size=200))
def test_any_text_and_bytes_come_back(vaults: tuple[Any, ...], text: str, raw: bytes) -> None:
    for number, vault in enumerate(vaults):
        digest = vault.save_cube(raw)
        assert vault.read_cube(digest) == raw
        made = Request(keccak(text.encode(), raw, bytes([number])), ACCOUNT, "owner", f"k {text}", {"sql": text})
        if vault.find_request(made.id) is None:
            try:
                vault.save_request(made)
            except KeyReused:  # an earlier example had the same text
                continue
        assert vault.find_request(made.id) == made


@pytest.fixture
def vaults(opens: Opens) -> tuple[Any, ...]:
    return (opens(),)

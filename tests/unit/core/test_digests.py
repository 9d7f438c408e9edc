from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.digests import derive_salt, digest_tagged, keccak, make_commitment, slow_keccak, to_canonical_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def test_keccak_is_the_hash_of_ethereum_not_sha3():
    assert keccak().hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    assert keccak(b"a", b"bc") == keccak(b"abc")


def test_canonical_text_is_fixed():
    assert to_canonical_json({"b": [1, "ü"], "a": None}) == '{"a":null,"b":[1,"\\u00fc"]}'


@settings(max_examples=50, deadline=None)
@given(plain)
def test_canonical_text_reads_back_and_is_ascii(value):
    assert json.loads(to_canonical_json(value)) == value
    assert to_canonical_json(value).isascii()


@given(st.dictionaries(st.text(max_size=4), st.integers(), min_size=2, max_size=6))
def test_order_of_keys_makes_no_difference(facts):
    backwards = dict(reversed(facts.items()))
    assert to_canonical_json(facts) == to_canonical_json(backwards)
    assert digest_tagged("x", facts) == digest_tagged("x", backwards)


@pytest.mark.parametrize("value", [1.0, [1, 2.0], {"a": 0.5}, {"a": [{"b": (1, 2.5)}]}, float("nan"), {1.5: "a"}])
def test_floats_have_no_place(value):
    with pytest.raises(TypeError, match="floats"):
        to_canonical_json(value)


@settings(max_examples=50, deadline=None)
@given(plain, plain)
def test_different_values_have_different_digests(a, b):
    # True == 1 in Python but not in JSON, so compare texts
    assert (digest_tagged("x", a) == digest_tagged("x", b)) == (
        json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    )


def test_tags_keep_kinds_apart():
    assert digest_tagged("policy 1", [1]) != digest_tagged("query 1", [1])
    assert digest_tagged("query 1", [1]) == keccak(b"noisebank query 1\n[1]")


def test_derived_salts_differ_by_secret_purpose_and_subject():
    salts = {
        derive_salt(secret, purpose, subject)
        for secret in (b"k" * 32, b"l" * 32)
        for purpose in ("record", "answer")
        for subject in (b"", b"1", b"2")
    }
    assert len(salts) == 12
    assert {len(salt) for salt in salts} == {32}
    assert derive_salt(b"k" * 32, "record", b"1") == derive_salt(b"k" * 32, "record", b"1")


def test_commitment_depends_on_salt_and_digest():
    salt, other, digest = bytes(32), bytes(31) + b"\1", keccak(b"q")
    assert make_commitment(salt, digest) == keccak(b"noisebank commitment\n" + salt + digest)
    assert (
        len({make_commitment(salt, digest), make_commitment(other, digest), make_commitment(salt, keccak(b"r"))}) == 3
    )


@pytest.mark.parametrize("size", [0, 31, 33])
def test_commitment_needs_a_full_salt(size):
    with pytest.raises(ValueError, match="32 bytes"):
        make_commitment(bytes(size), keccak())


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_both_libraries_have_the_same_keccak(parts: list[bytes]):
    assert keccak(*parts) == slow_keccak(b"".join(parts))

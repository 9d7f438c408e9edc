"""Keys and signatures against published vectors of Ethereum."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from coincurve import PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.digests import keccak
from noisebank.core.errors import BadBank, Tampered
from noisebank.ledger.signing import HALF_ORDER, Key, Transaction, _encode_rlp, contract_address, recover_address

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECRET = bytes.fromhex("46" * 32)
KEY = Key(SECRET)
DIGEST = keccak(b"some digest")
TO = "0x" + "35" * 20


def split(signature: bytes) -> tuple[int, int, int]:
    return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big"), signature[64]


def joined(r: int, s: int, parity: int) -> bytes:
    return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([parity])


# -- known vectors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "address"),
    [
        ("46" * 32, "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"),
        ("00" * 31 + "01", "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf"),
        (
            "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
            "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        ),
    ],
)
def test_address_of_a_known_key(secret: str, address: str):
    assert Key(bytes.fromhex(secret)).address == address


def test_example_of_eip_155():
    digest = keccak(_encode_rlp([9, 20 * 10**9, 21_000, bytes.fromhex(TO[2:]), 10**18, b"", 1, 0, 0]))
    assert digest.hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    r = "28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
    s = "67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    assert KEY.sign(digest).hex() == r + s + "00"


LOREM = b"Lorem ipsum dolor sit amet, consectetur adipisicing elit"


@pytest.mark.parametrize(
    ("item", "encoded"),
    [
        (b"dog", "83646f67"),
        ([b"cat", b"dog"], "c88363617483646f67"),
        (b"", "80"),
        (0, "80"),
        ([], "c0"),
        (b"\x00", "00"),
        (15, "0f"),
        (127, "7f"),
        (128, "8180"),
        (1024, "820400"),
        ([[], [[]], [[], [[]]]], "c7c0c1c0c3c0c1c0"),
        (LOREM, "b838" + LOREM.hex()),
        (bytes(1024), "b90400" + "00" * 1024),
        ([LOREM], "f83ab838" + LOREM.hex()),
    ],
)
def test_recursive_length_prefix(item: object, encoded: str):
    assert _encode_rlp(item).hex() == encoded


def test_what_has_no_recursive_length_prefix_is_refused():
    with pytest.raises(TypeError):
        _encode_rlp("text")


@pytest.mark.parametrize(
    ("nonce", "address"),
    [
        (0, "0xcd234a471b72ba2f1ccf0a70fcaba648a5eecd8d"),
        (1, "0x343c43a37d37dff08ae8c4a11544c718abb4fcf8"),
        (2, "0xf778b86fa74e846c4f0a1fbd1335fe81c00a0c91"),
        (3, "0xfffd933a0bc612844eaf0c6fe3e5b8e9b6c1d19c"),
    ],
)
def test_known_contract_addresses(nonce: int, address: str):
    assert contract_address("0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0", nonce) == address


def test_transaction_is_signed_as_eip_1559_says():
    spelled = "02e4" + "01808080" + "8401c9c380" + "94" + TO[2:] + "80" + "83abcdef" + "c0"
    transaction = Transaction(1, 0, TO, bytes.fromhex("abcdef"))
    assert transaction.signing_digest == keccak(bytes.fromhex(spelled))
    signed = transaction.sign_with(KEY)
    r, s, parity = split(signed.signature)
    body = spelled[4:] + _encode_rlp(parity).hex() + "a0" + f"{r:064x}" + "a0" + f"{s:064x}"
    assert signed.digest == keccak(bytes.fromhex("02" + f"f8{len(body) // 2:02x}" + body))


def test_creation_has_an_empty_recipient():
    spelled = "02d0" + "01058080" + "8401c9c380" + "80" + "80" + "83abcdef" + "c0"
    assert Transaction(1, 5, "", bytes.fromhex("abcdef")).signing_digest == keccak(bytes.fromhex(spelled))


# -- signatures -----------------------------------------------------------------------------------


@given(st.binary(min_size=32, max_size=32), st.integers(1, ORDER - 1))
@settings(max_examples=50, deadline=None)
def test_signer_is_recovered_and_s_is_low(digest: bytes, secret: int):
    key = Key(secret.to_bytes(32, "big"))
    signature = key.sign(digest)
    assert recover_address(digest, signature) == key.address
    assert signature == key.sign(digest)
    assert split(signature)[1] <= HALF_ORDER


def test_other_spelling_with_a_high_s_is_refused():
    r, s, parity = split(KEY.sign(DIGEST))
    twin = joined(r, ORDER - s, 1 - parity)
    public = PublicKey.from_signature_and_message(twin, DIGEST, hasher=None)
    assert "0x" + keccak(public.format(compressed=False)[1:])[12:].hex() == KEY.address
    with pytest.raises(Tampered, match="malformed"):
        recover_address(DIGEST, twin)


@pytest.mark.parametrize("parity", [2, 3, 4, 27, 28, 255])
def test_other_parities_are_refused(parity: int):
    r, s, _ = split(KEY.sign(DIGEST))
    with pytest.raises(Tampered, match="malformed"):
        recover_address(DIGEST, joined(r, s, parity))


@pytest.mark.parametrize("wrong", [b"", KEY.sign(DIGEST)[:64], KEY.sign(DIGEST) + b"\0", bytes(64), b"\0"])
def test_signatures_have_65_bytes(wrong: bytes):
    with pytest.raises(Tampered, match="malformed"):
        recover_address(DIGEST, wrong)


@pytest.mark.parametrize(("r", "s"), [(0, 1), (1, 0), (0, 0), (ORDER, 1), (ORDER + 1, 1), (2**256 - 1, 1), (5, 1)])
def test_numbers_that_are_no_signature_are_refused(r: int, s: int):
    with pytest.raises(Tampered, match="does not belong to any key"):
        recover_address(DIGEST, joined(r, s, 0))


@given(bit=st.integers(0, 65 * 8 - 1))
@settings(max_examples=60, deadline=None)
def test_changed_signature_is_never_the_signers(bit: int):
    signature = bytearray(KEY.sign(DIGEST))
    signature[bit // 8] ^= 1 << bit % 8
    with suppress(Tampered):
        assert recover_address(DIGEST, bytes(signature)) != KEY.address


@pytest.mark.parametrize("change", [{"chain_id": 2}, {"nonce": 1}, {"to": "0x" + "36" * 20}, {"to": ""}, {"data": b""}])
def test_signature_binds_every_field(change: dict[str, object]):
    fields = {"chain_id": 1, "nonce": 0, "to": TO, "data": b"\x01"}
    signed = Transaction(**fields).sign_with(KEY)  # type: ignore[arg-type]
    assert signed.recover_sender() == KEY.address
    other = Transaction(**{**fields, **change}, signature=signed.signature)  # type: ignore[arg-type]
    assert other.recover_sender() != KEY.address


# -- key files ------------------------------------------------------------------------------------


def test_key_file_is_for_its_owners_eyes_only(tmp_path: Path):
    path = tmp_path / "keys" / "owner.key"
    old = os.umask(0)
    try:
        KEY.save(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert Key.load(path).address == KEY.address


def test_key_file_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "owner.key"
    KEY.save(path)
    with pytest.raises(FileExistsError):
        Key(b"\x01" * 32).save(path)
    assert Key.load(path).address == KEY.address


def test_key_is_not_written_through_a_link(tmp_path: Path):
    (tmp_path / "owner.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        KEY.save(tmp_path / "owner.key")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o610, 0o602, 0o777])
def test_key_that_others_may_read_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "owner.key"
    KEY.save(path)
    path.chmod(mode)
    with pytest.raises(BadBank, match="chmod 600"):
        Key.load(path)


@pytest.mark.parametrize("text", ["", "zz" * 32, "46" * 31, "46" * 33, "46", "00" * 32, "ff" * 32, "\0", "46 " * 31])
def test_file_that_holds_no_key_is_refused_without_quoting_it(tmp_path: Path, text: str):
    path = tmp_path / "owner.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadBank, match="no readable key") as refusal:
        Key.load(path)
    assert text == "" or text not in str(refusal.value)


@pytest.mark.parametrize("text", ["0x" + "46" * 32, "46" * 32 + "\n", "  " + "46" * 32])
def test_usual_spellings_of_a_key_are_read(tmp_path: Path, text: str):
    path = tmp_path / "owner.key"
    path.write_text(text)
    path.chmod(0o600)
    assert Key.load(path).address == KEY.address


def test_missing_key_and_folder_are_named(tmp_path: Path):
    with pytest.raises(BadBank, match="no key at"):
        Key.load(tmp_path / "owner.key")
    (tmp_path / "folder").mkdir(mode=0o700)
    with pytest.raises(BadBank, match="no readable key"):
        Key.load(tmp_path / "folder")


def test_key_never_shows_itself():
    shown = f"{KEY!r} {KEY!s} {[KEY]} {vars(KEY)}"
    assert KEY.address in shown
    assert SECRET.hex() not in shown
    assert repr(SECRET)[2:-1] not in shown
    assert str(int.from_bytes(SECRET, "big")) not in shown


@pytest.mark.parametrize("secret", [b"", b"\x01", bytes(31) + b"", b"\x01" * 33, bytes(32), b"\xff" * 32])
def test_other_secrets_make_no_key(secret: bytes):
    with pytest.raises(ValueError):
        Key(secret)

"""Wallet signatures: sign-in by EIP-4361 messages, and agreement to spending by EIP-712 typed data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from noisebank.core.digests import keccak
from noisebank.core.errors import Tampered
from noisebank.ledger.abi import ADDRESS
from noisebank.ledger.signing import recover
from noisebank.service.errors import Turned

STATEMENT = "Sign in to noisebank. This costs nothing and sends no transaction."
MAX_MESSAGE = 2_000
_MESSAGE = re.compile(
    r"(?P<domain>[^\s]{1,253}) wants you to sign in with your Ethereum account:\n"
    r"(?P<address>0x[0-9a-fA-F]{40})\n\n"
    r"(?:(?P<statement>[^\n]{1,500})\n)?\n"
    r"URI: (?P<uri>[^\s]{1,300})\n"
    r"Version: (?P<version>1)\n"
    r"Chain ID: (?P<chain_id>[0-9]{1,20})\n"
    r"Nonce: (?P<nonce>[0-9A-Za-z]{8,64})\n"
    r"Issued At: (?P<issued>[0-9TZ:.+-]{20,40})"
    r"(?:\nExpiration Time: (?P<expires>[0-9TZ:.+-]{20,40}))?"
    r"(?:\nNot Before: (?P<not_before>[0-9TZ:.+-]{20,40}))?"
    r"(?:\nRequest ID: (?P<request_id>[^\n]{0,100}))?"
)
"""The form of EIP-4361 without resources, which we do not use."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """The fields of a sign-in message whose form and signature are valid. Times are seconds since 1970."""

    address: str
    domain: str
    uri: str
    chain_id: int
    nonce: str
    issued: float
    expires: float | None
    not_before: float | None


def message_to_sign(domain: str, uri: str, address: str, chain_id: int, nonce: str, issued: float) -> str:
    """Return the text for a wallet to sign, in the form of EIP-4361."""
    when = datetime.fromtimestamp(issued, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{domain} wants you to sign in with your Ethereum account:\n{address}\n\n{STATEMENT}\n\nURI: {uri}\n"
        f"Version: 1\nChain ID: {chain_id}\nNonce: {nonce}\nIssued At: {when}"
    )


def read_sign_in(message: str, signature: str) -> SignIn:
    """Parse a message and check its signature; `check_sign_in` checks what it says."""
    fields = _MESSAGE.fullmatch(message) if len(message) <= MAX_MESSAGE else None
    if fields is None:
        raise Turned("bad-signature", "this is no EIP-4361 message as this service makes them")
    text = message.encode()
    digest = keccak(b"\x19Ethereum Signed Message:\n%d" % len(text) + text)
    address = fields["address"].lower()
    if _signer(digest, signature) != address:
        raise Turned("bad-signature", "the signature is not of the address in the message")
    times = [None if fields[name] is None else _time(fields[name]) for name in ("expires", "not_before")]
    chain_id, issued = int(fields["chain_id"]), _time(fields["issued"])
    return SignIn(address, fields["domain"], fields["uri"], chain_id, fields["nonce"], issued, *times)


def check_sign_in(said: SignIn, domain: str, origin: str, chain_id: int, now: float, skew: float, age: float) -> None:
    """Raise unless the message is for this site and chain, now. Using up the nonce is left to the caller."""
    if said.domain != domain or _origin(said.uri) != _origin(origin):
        raise Turned("bad-signature", f"the message is for another site than {domain}")
    if said.chain_id != chain_id:
        raise Turned("bad-signature", f"the message is for chain {said.chain_id}; this ledger is on chain {chain_id}")
    if said.issued > now + skew:
        raise Turned("bad-signature", "the message was issued in the future: look at the clock of the wallet's machine")
    if said.issued < now - age - skew or (said.expires is not None and said.expires < now - skew):
        raise Turned("bad-signature", "the message has expired: sign in again")
    if said.not_before is not None and said.not_before > now + skew:
        raise Turned("bad-signature", "the message is not valid yet")


@dataclass(frozen=True, slots=True)
class Spend:
    """What a wallet agrees to: this question, this accuracy, at most this cost, until the deadline."""

    account: bytes
    sql: str
    wish: str
    """The accuracy, as canonical JSON; named as in the signed type."""
    key: str
    max_cost: int
    """In units of 1e-18 precision."""
    deadline: int
    """Seconds since 1970."""


SPEND = "Spend(bytes32 account,string sql,string wish,string key,uint256 maxCost,uint256 deadline)"
_DOMAIN = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"


def spend_digest(spend: Spend, chain_id: int, contract: str) -> bytes:
    """Return the digest that the wallet signs (EIP-712); it covers the ledger's chain and contract."""
    domain = keccak(
        keccak(_DOMAIN.encode()), keccak(b"noisebank"), keccak(b"1"), _word(chain_id),
        bytes(12) + bytes.fromhex(contract.removeprefix("0x")),
    )  # fmt: skip
    body = keccak(
        keccak(SPEND.encode()), spend.account, keccak(spend.sql.encode()), keccak(spend.wish.encode()),
        keccak(spend.key.encode()), _word(spend.max_cost), _word(spend.deadline),
    )  # fmt: skip
    return keccak(b"\x19\x01", domain, body)


def typed_spend(spend: Spend, chain_id: int, contract: str) -> dict[str, object]:
    """Return the same as the JSON that `eth_signTypedData_v4` takes."""
    fields = [part.split(" ") for part in SPEND.removesuffix(")").partition("(")[2].split(",")]
    domain = [part.split(" ") for part in _DOMAIN.removesuffix(")").partition("(")[2].split(",")]
    return {
        "types": {
            "EIP712Domain": [{"name": name, "type": kind} for kind, name in domain],
            "Spend": [{"name": name, "type": kind} for kind, name in fields],
        },
        "primaryType": "Spend",
        "domain": {"name": "noisebank", "version": "1", "chainId": chain_id, "verifyingContract": contract},
        "message": {
            "account": "0x" + spend.account.hex(), "sql": spend.sql, "wish": spend.wish, "key": spend.key,
            "maxCost": str(spend.max_cost), "deadline": str(spend.deadline),
        },
    }  # fmt: skip


def check_spend(
    spend: Spend, signature: str, wallet: str, chain_id: int, contract: str, now: float, skew: float
) -> None:
    """Raise unless this wallet has agreed to exactly this, and in time."""
    if not ADDRESS.fullmatch(wallet) or _signer(spend_digest(spend, chain_id, contract), signature) != wallet.lower():
        raise Turned("bad-signature", "the signature does not agree to this request by this analyst's wallet")
    if spend.deadline < now - skew:
        raise Turned("bad-signature", "the deadline that was signed has passed: sign again")


def _signer(digest: bytes, signature: str) -> str:
    try:
        raw = bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        raise Turned("bad-signature", "a signature has 65 bytes, in hexadecimal digits") from None
    if len(raw) == 65 and raw[64] in (27, 28):
        raw = raw[:64] + bytes([raw[64] - 27])
    try:
        return recover(digest, raw)
    except Tampered as error:
        raise Turned("bad-signature", str(error)) from None


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _origin(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise Turned("bad-signature", "a time in the message cannot be read") from None

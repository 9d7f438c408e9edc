"""Wallet signatures: sign-in by EIP-4361 messages, and agreement to spending by EIP-712 typed data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from noisebank.core.errors import Tampered
from noisebank.core.spend import Spend, message_digest, spend_digest
from noisebank.ledger.abi import ADDRESS_PATTERN
from noisebank.ledger.signing import recover_address
from noisebank.service.errors import ApiError

STATEMENT = "Sign in to noisebank. This costs nothing and sends no transaction."
MAX_MESSAGE = 2_000
_MESSAGE_PATTERN = re.compile(
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
class SignInMessage:
    """The fields of a sign-in message whose form and signature are valid. Times are seconds since 1970."""

    address: str
    domain: str
    uri: str
    chain_id: int
    nonce: str
    issued: float
    expires: float | None
    not_before: float | None


def make_sign_in_message(domain: str, uri: str, address: str, chain_id: int, nonce: str, issued: float) -> str:
    """Return the text for a wallet to sign, in the form of EIP-4361."""
    when = datetime.fromtimestamp(issued, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{domain} wants you to sign in with your Ethereum account:\n{address}\n\n{STATEMENT}\n\nURI: {uri}\n"
        f"Version: 1\nChain ID: {chain_id}\nNonce: {nonce}\nIssued At: {when}"
    )


def read_sign_in(message: str, signature: str) -> SignInMessage:
    """Parse a message and check its signature; `check_sign_in` checks what it says."""
    fields = _MESSAGE_PATTERN.fullmatch(message) if len(message) <= MAX_MESSAGE else None
    if fields is None:
        raise ApiError("bad-signature", "this is no EIP-4361 message as this service makes them")
    digest = message_digest(message)
    address = fields["address"].lower()
    if _recover_signer(digest, signature) != address:
        raise ApiError("bad-signature", "the signature is not of the address in the message")
    times = [None if fields[name] is None else _parse_time(fields[name]) for name in ("expires", "not_before")]
    chain_id, issued = int(fields["chain_id"]), _parse_time(fields["issued"])
    return SignInMessage(address, fields["domain"], fields["uri"], chain_id, fields["nonce"], issued, *times)


def check_sign_in(
    message: SignInMessage, domain: str, origin: str, chain_id: int, now: float, skew: float, max_age: float
) -> None:
    """Raise unless the message is for this site and chain, now. Using up the nonce is left to the caller."""
    if message.domain != domain or _parse_origin(message.uri) != _parse_origin(origin):
        raise ApiError("bad-signature", f"the message is for another site than {domain}")
    if message.chain_id != chain_id:
        raise ApiError(
            "bad-signature", f"the message is for chain {message.chain_id}; this ledger is on chain {chain_id}"
        )
    if message.issued > now + skew:
        raise ApiError(
            "bad-signature", "the message was issued in the future: look at the clock of the wallet's machine"
        )
    if message.issued < now - max_age - skew or (message.expires is not None and message.expires < now - skew):
        raise ApiError("bad-signature", "the message has expired: sign in again")
    if message.not_before is not None and message.not_before > now + skew:
        raise ApiError("bad-signature", "the message is not valid yet")


def check_spend(
    spend: Spend, signature: str, wallet: str, chain_id: int, contract: str, now: float, skew: float
) -> None:
    """Raise unless this wallet has agreed to exactly this, and in time."""
    if (
        not ADDRESS_PATTERN.fullmatch(wallet)
        or _recover_signer(spend_digest(spend, chain_id, contract), signature) != wallet.lower()
    ):
        raise ApiError("bad-signature", "the signature does not agree to this request by this analyst's wallet")
    if spend.deadline < now - skew:
        raise ApiError("bad-signature", "the deadline that was signed has passed: sign again")


def _recover_signer(digest: bytes, signature: str) -> str:
    try:
        raw = bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        raise ApiError("bad-signature", "a signature has 65 bytes, in hexadecimal digits") from None
    if len(raw) == 65 and raw[64] in (27, 28):
        raw = raw[:64] + bytes([raw[64] - 27])
    try:
        return recover_address(digest, raw)
    except Tampered as error:
        raise ApiError("bad-signature", str(error)) from None


def _parse_origin(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc


def _parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise ApiError("bad-signature", "a time in the message cannot be read") from None

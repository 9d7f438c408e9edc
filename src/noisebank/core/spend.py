"""`Spend`: what a wallet agrees to before it is charged, and the digests that it signs (EIP-712, EIP-191)."""

from __future__ import annotations

from dataclasses import dataclass

from noisebank.core.digests import keccak


def message_digest(message: str) -> bytes:
    """Return the digest that a wallet signs for a text (`personal_sign`, EIP-191)."""
    text = message.encode()
    return keccak(b"\x19Ethereum Signed Message:\n%d" % len(text) + text)


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


SPEND_TYPE = "Spend(bytes32 account,string sql,string wish,string key,uint256 maxCost,uint256 deadline)"
_DOMAIN_TYPE = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"


def spend_digest(spend: Spend, chain_id: int, contract: str) -> bytes:
    """Return the digest that the wallet signs (EIP-712); it covers the ledger's chain and contract."""
    domain = keccak(
        keccak(_DOMAIN_TYPE.encode()), keccak(b"noisebank"), keccak(b"1"), _encode_word(chain_id),
        bytes(12) + bytes.fromhex(contract.removeprefix("0x")),
    )  # fmt: skip
    body = keccak(
        keccak(SPEND_TYPE.encode()), spend.account, keccak(spend.sql.encode()), keccak(spend.wish.encode()),
        keccak(spend.key.encode()), _encode_word(spend.max_cost), _encode_word(spend.deadline),
    )  # fmt: skip
    return keccak(b"\x19\x01", domain, body)


def typed_spend(spend: Spend, chain_id: int, contract: str) -> dict[str, object]:
    """Return the same as the JSON that `eth_signTypedData_v4` takes."""
    fields = [part.split(" ") for part in SPEND_TYPE.removesuffix(")").partition("(")[2].split(",")]
    domain = [part.split(" ") for part in _DOMAIN_TYPE.removesuffix(")").partition("(")[2].split(",")]
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


def _encode_word(number: int) -> bytes:
    return number.to_bytes(32, "big")

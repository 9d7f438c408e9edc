"""Genesis and blocks of the embedded chain, and their canonical form: one line of JSON per block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from noisebank.core.digests import digest_tagged, keccak, to_canonical_json
from noisebank.core.errors import BadBank, Tampered
from noisebank.ledger.evm import Log
from noisebank.ledger.signing import Key, Transaction, recover_address

FORMAT, DEV_FORMAT = "noisebank journal 2", "noisebank crowd journal 1"
"""A bank's journal, and that of a development chain (`federated.blockfl.dev_chain`): one begins like the other."""
GENESIS_TAGS = {FORMAT: "genesis 1", DEV_FORMAT: "crowd genesis 1"}
NUMBER_REGEX, HEX_REGEX = "0|[1-9][0-9]*+", "[0-9a-f]*+"
BALANCE_PATTERN = re.compile(rf'\["({HEX_REGEX})",({NUMBER_REGEX}),({NUMBER_REGEX})\]')
LINE_START_PATTERN = re.compile(
    rf'\{{"block":\{{"balances":\[([^{{}}]*?)\],"number":({NUMBER_REGEX}),"parent":"({HEX_REGEX})",'
    rf'"results":"({HEX_REGEX})","time":({NUMBER_REGEX}),"transactions":\['
)
"""How a line begins. A match proves nothing: the parsed block is encoded again and must give the same line."""
SEAL_PREFIX = ']},"signature":"'
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)
"""All that parsing a line can raise. Each means tampering, and none may crash a verifier."""
NOT_CANONICAL = "the line is no sealed block in canonical form"


@dataclass(frozen=True, slots=True)
class Genesis:
    """The first line: which chain this is and whose key seals its blocks."""

    chain_id: int
    sealer: str
    created_at: int
    format: str = FORMAT

    @property
    def digest(self) -> bytes:
        """The parent digest of block 0, and the journal's name in anchors."""
        return digest_tagged(GENESIS_TAGS[self.format], self._to_json())

    def to_canonical_json(self) -> str:
        """Returns the first line of the journal."""
        return to_canonical_json(self._to_json())

    def _to_json(self) -> dict[str, Any]:
        return {"format": self.format, "chain_id": self.chain_id, "sealer": self.sealer, "created": self.created_at}

    @classmethod
    def from_canonical_json(cls, line: str, format: str = FORMAT) -> Genesis:
        """Parses the first line of a journal. `Tampered` unless it is in canonical form."""
        try:
            fields = _parse_object(line, {"format", "chain_id", "sealer", "created"})
            chain_id, created_at = _check_uint64(fields["chain_id"]), _check_uint64(fields["created"])
            genesis = cls(chain_id, str(fields["sealer"]), created_at, format)
            encoded = genesis.to_canonical_json()
        except MALFORMED:
            raise Tampered("the first line is malformed") from None
        if encoded != line:
            raise Tampered(f"the first line does not begin a {format!r}")
        return genesis


@dataclass(frozen=True)
class Block:
    """One group commit.

    The seal covers every byte, so a transaction sent by the sealer itself carries no signature of
    its own: a curator with a hundred calls in a block signs once. All others sign theirs.
    """

    number: int
    parent: bytes
    time: int
    transactions: tuple[Transaction, ...]
    results: bytes
    """Digest of everything that the contract logged, see `results_digest`."""
    balances: tuple[tuple[bytes, int, int], ...]
    """(account, budget, spent) after the block, for each account that it touched."""
    signature: bytes = b""

    @cached_property
    def text(self) -> str:
        """Everything but the seal as canonical JSON: sorted keys, no spaces.

        Built by hand, since integers and hexadecimal need no escaping: with a JSON encoder replay is half as fast.
        """
        balances = ",".join(f'["{account.hex()}",{budget},{spent}]' for account, budget, spent in self.balances)
        sent = ",".join(f'[{t.nonce},"{t.to}","{t.data.hex()}","{t.signature.hex()}"]' for t in self.transactions)
        return (
            f'{{"balances":[{balances}],"number":{self.number},"parent":"{self.parent.hex()}",'
            f'"results":"{self.results.hex()}","time":{self.time},"transactions":[{sent}]}}'
        )

    @cached_property
    def digest(self) -> bytes:
        """Digest of everything but the seal; the next block's parent."""
        return keccak(b"noisebank block 2\n", self.text.encode())

    def seal_with(self, key: Key) -> Block:
        """Returns the same block with the key's signature. Its text and digest do not cover the seal: they are copied,
        not computed again."""
        sealed = replace(self, signature=key.sign(self.digest))
        sealed.__dict__.update(text=self.text, digest=self.digest)
        return sealed

    def recover_sealer(self) -> str:
        """Returns the address whose key signed the block."""
        return recover_address(self.digest, self.signature)

    def to_canonical_json(self) -> str:
        """Returns the block's line in the journal, seal included."""
        return f'{{"block":{self.text},"signature":"{self.signature.hex()}"}}'

    @classmethod
    def from_canonical_json(cls, line: str, chain_id: int, expected_number: int) -> Block:
        """Parses a line of a journal. `Tampered`, naming block `expected_number`, unless it is in canonical form."""
        head, seal = LINE_START_PATTERN.match(line), line.rfind(SEAL_PREFIX)
        if not head or seal < head.end():
            raise Tampered(NOT_CANONICAL, expected_number)
        balances, number, parent, results, time = head.groups()
        sent = line[head.end() + 1 : seal - 2]  # without the first "[" and the last '"]'
        try:
            block = cls(
                number=_check_uint64(int(number)),
                parent=bytes.fromhex(parent),
                time=_check_uint64(int(time)),
                transactions=tuple([_parse_transaction(entry, chain_id) for entry in sent.split('"],[') if entry]),
                results=bytes.fromhex(results),
                balances=tuple((bytes.fromhex(a), int(b), int(s)) for a, b, s in BALANCE_PATTERN.findall(balances)),
                signature=bytes.fromhex(line[seal + len(SEAL_PREFIX) : -2]),
            )
        except MALFORMED:
            raise Tampered("the block is malformed", expected_number) from None
        if block.to_canonical_json() != line:
            raise Tampered(NOT_CANONICAL, expected_number)
        return block


def _parse_transaction(entry: str, chain_id: int) -> Transaction:
    """Parses one entry of the list of transactions, without its opening and closing characters."""
    nonce, to, _, data, _, signature = entry.split('"')
    return Transaction(
        chain_id, _check_uint64(int(nonce[:-1])), _check_address(to), bytes.fromhex(data), bytes.fromhex(signature)
    )


@lru_cache(16)
def _check_address(text: str) -> str:
    if not re.fullmatch("(0x[0-9a-f]{40})?", text):
        raise ValueError("no address")
    return text


def results_digest(results: Iterable[tuple[Log, ...]]) -> bytes:
    """Returns one digest of all logs, transaction by transaction. Lengths go first, so that no byte can be counted to
    another log than its own."""
    parts: list[bytes] = []
    for logs in results:
        parts.append(len(logs).to_bytes(4, "big"))
        for topics, data in logs:
            parts += (_encode_lengths(len(topics), len(data)), *topics, data)
    return keccak(b"noisebank results\n", b"".join(parts))


@lru_cache(1024)
def _encode_lengths(topics: int, data: int) -> bytes:
    return topics.to_bytes(1, "big") + data.to_bytes(4, "big")


def _check_uint64(value: object) -> int:
    """Returns the value; ValueError unless it fits 64 bits. The EVM takes no larger number, time, nonce or chain id."""
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError("no number of 64 bits")
    return value


def _parse_object(text: str, keys: set[str]) -> dict[str, Any]:
    fields = json.loads(text)
    if not isinstance(fields, dict) or set(fields) != keys:
        raise ValueError("unknown or missing fields")
    return fields


def read_exported_lines(source: Path) -> Iterable[str]:
    """Returns the lines of an exported journal (a text file)."""
    try:
        text = source.read_bytes()
    except OSError as error:
        raise BadBank(f"the journal {source} cannot be read: {error.strerror}") from None
    return text.decode("utf-8", "replace").removesuffix("\n").split("\n")

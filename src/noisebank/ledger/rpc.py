"""`ChainLedger`: the contract on any EVM chain, through a JSON-RPC node, with confirmations and batches.

Nothing returns before it is final, so nothing is measured for a reservation that a reorganisation
could still drop. One that was dropped before that is sent again with its id; the contract stores ids,
so a reservation that arrives twice is charged once. A final block that vanishes halts the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noisebank.core.durability import GroupCommit, Turn
from noisebank.core.errors import BadLedger, LedgerHalted, LedgerRefused, NoisebankError, OutcomeUnknown, Tampered
from noisebank.ledger.abi import Value, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Chain
from noisebank.ledger.chain_config import Where
from noisebank.ledger.encoding import MOST_IN_BATCH, explained, publish_many_call, reserve_many_call
from noisebank.ledger.evm import Event, events
from noisebank.ledger.follower import Follower
from noisebank.ledger.node import Node, NodeError, Overtaken, raw_log, transact, try_call
from noisebank.ledger.outbox import Outbox
from noisebank.ledger.protocol import Claim, Head, Reservation, Role, Seal
from noisebank.ledger.signing import Key, Transaction

RESEND = 1.0
"""Seconds without news after which a transaction is sent again."""
PATIENCE = 180.0
"""Seconds until the outcome of a transaction that does not become final is reported as unknown."""
LOOKS = 4
"""How often logs and state are compared before a difference counts as a contradiction."""
MOST_GAS = 15_000_000
"""Of one transaction: below the cap of 2^24 that Ethereum sets since 2025."""
GAS_OF_SEAL, GAS_OF_CLAIM, GAS_OF_RUN, GAS_OF_BATCH = 45_000, 110_000, 900_000, 200_000
"""Above what docs/results/gas.md measures; the last one covers what a batch pays once."""
OWNERS_GAS = 1_000_000
DEPLOY_GAS = 6_000_000


@dataclass(frozen=True, slots=True)
class Group:
    """One caller's claims or seals: all of them or none."""

    account: bytes
    claims: tuple[Claim, ...] = ()
    seals: tuple[Seal, ...] = ()

    @property
    def first(self) -> bytes:
        """The id under which the contract logs a refusal of the group."""
        return self.claims[0].id if self.claims else self.seals[0].id

    @property
    def gas(self) -> int:
        """Gas; more than the group can use."""
        runs = sum(len(claim.runs) for claim in self.claims)
        return len(self.seals) * GAS_OF_SEAL + len(self.claims) * GAS_OF_CLAIM + runs * GAS_OF_RUN


def deploy(url: str, key: Key, patience: float = PATIENCE) -> Where:
    """Deploys the contract on a chain, paid by `key`; returns where it is."""
    node = Node(url)
    chain_id = node.chain_id()
    if not node.balance(key.address):
        raise BadLedger(f"{key.address} has no funds on chain {chain_id} to pay for the deployment")
    receipt = transact(node, key, chain_id, "", budget_ledger().initcode, DEPLOY_GAS, patience)
    return Where(url, str(receipt["contractAddress"]).lower(), chain_id, int(receipt["blockNumber"], 16))


class RpcChain(Chain):
    """A `Ledger` on a chain that others run. Several gateways may share an account."""

    shared = True

    def __init__(
        self, where: Where, keys: Mapping[Role, Key], outbox: Path | str, patience: float = PATIENCE, poll: float = 0.05
    ) -> None:
        super().__init__(keys)
        self._where, self._patience, self._poll = where, patience, poll
        self.node = Node(where.url)
        self.follower = Follower(self.node, where.contract, where.created, where.confirmations)
        self.follower.check_contract(where.chain_id)
        self._outbox = Outbox(outbox)
        self._sent_at = 0.0
        self._sending: GroupCommit[Group, None] = GroupCommit(self._deliver_all, die=lambda reason: None)
        try:
            self.follower.sync(patience)
            self._remind()
        except BaseException:
            self._outbox.close()
            raise

    # -- Ledger --------------------------------------------------------------------------------

    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        with self._only_once(group):
            try:
                self._sending(Group(group[0].account, claims=group))
            except LedgerRefused as refusal:
                raise explained(refusal, group, self.books) from None
        return tuple(self._known(claim.account, claim.id) for claim in group)

    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        self._sending(Group(account, seals=group))
        return tuple(self._known(account, seal.id) for seal in group)

    def head(self) -> Head:
        return self.follower.head

    def close(self) -> None:
        self._outbox.close()

    # -- reading -------------------------------------------------------------------------------

    def refresh(self, patience: float | None = None) -> None:
        """Reads the blocks that have become final, whoever sent their transactions."""
        try:
            self.follower.sync(self._patience if patience is None else patience)
        except NoisebankError:
            raise
        except Exception as error:  # a faulty node may answer anything
            what = f"the node {self.node.name} answers nonsense ({type(error).__name__})"
            raise OutcomeUnknown(f"{what}: ask again with the same key") from None

    @property
    def books(self) -> Books:
        """The books of all final blocks."""
        return self.follower.books

    @property
    def contract(self) -> str:
        """The contract's address."""
        return self._where.contract

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        return self._where.chain_id

    @property
    def url(self) -> str:
        """The node's address. It may hold a key: never show it."""
        return self._where.url

    @property
    def created(self) -> int:
        """The block of the contract's deployment."""
        return self._where.created

    def charged_accounts(self) -> frozenset[bytes]:
        """Returns the accounts that this gateway has charged, according to its own outbox."""
        return frozenset(group[0].account for group in self._outbox.final())

    def block_digest(self, number: int) -> bytes:
        """Returns the hash of a block, for receipts."""
        return self.follower.block_hash(number)

    # -- writing -------------------------------------------------------------------------------

    def _transact(self, role: Role, function: str, *arguments: Value) -> Event:
        data = budget_ledger().call(function, *arguments)
        receipt = transact(
            self.node, self._key(role), self.chain_id, self.contract, data, OWNERS_GAS, self._patience
        )  # fmt: skip
        self._until_final(int(receipt["blockNumber"], 16))
        again = self.node.ask("eth_getTransactionReceipt", receipt["transactionHash"])
        if not again or again["blockHash"] != receipt["blockHash"]:
            raise OutcomeUnknown("the chain was reorganised under this call: look at the account, then call again")
        (event,) = events(budget_ledger(), [raw_log(entry) for entry in receipt["logs"]])
        return event

    def _until_final(self, number: int) -> None:
        deadline = time.monotonic() + self._patience
        self.follower.sync(self._patience)
        while self.follower.head.number < number:
            if time.monotonic() > deadline:
                raise OutcomeUnknown(f"block {number} has not become final in {self._patience:.0f} s")
            time.sleep(self._poll)
            self.follower.sync(self._patience)

    def _deliver_all(self, turns: Sequence[Turn[Group, None]]) -> None:
        """Delivers all waiting groups in as few transactions as their accounts and the gas allow. Never raises."""
        waiting = list(turns)
        while waiting:
            batch = self._batch(waiting)
            waiting = [turn for turn in waiting if turn not in batch]
            try:
                refused = self._deliver([turn.item for turn in batch])
            except NoisebankError as error:
                for turn in batch:
                    turn.refusal = error
                continue
            except Exception as error:  # a faulty node may answer anything; every caller must get an outcome
                for turn in batch:
                    turn.refusal = OutcomeUnknown(
                        f"the node {self.node.name} answers nonsense ({type(error).__name__})"
                    )
                continue
            for turn in batch:
                reason = refused.get(turn.item.first)
                turn.refusal = None if reason is None else LedgerRefused(reason)

    def _batch(self, turns: Sequence[Turn[Group, None]]) -> list[Turn[Group, None]]:
        """Returns the first waiting group and those that fit into the same transaction."""
        first = turns[0].item
        batch: list[Turn[Group, None]] = []
        parts, runs, gas = 0, 0, GAS_OF_BATCH
        for turn in turns:
            group = turn.item
            if group.account != first.account or bool(group.claims) != bool(first.claims):
                continue
            parts += len(group.claims) + len(group.seals)
            runs += sum(len(claim.runs) for claim in group.claims)
            gas += group.gas
            if batch and (parts > MOST_IN_BATCH or runs > MOST_IN_BATCH or gas > MOST_GAS):
                break
            batch.append(turn)
        return batch

    def _deliver(self, groups: Sequence[Group]) -> dict[bytes, str]:
        """Sends groups of one account until their outcome is final; returns the reason of each refused one, by its
        first id."""
        if self.follower.halted:
            raise LedgerHalted(self.follower.halted)
        account = groups[0].account
        if groups[0].claims:
            self._outbox.save(group.claims for group in groups)
            data = reserve_many_call([group.claims for group in groups])
        else:
            data = publish_many_call(account, [group.seals for group in groups])
        gas = min(MOST_GAS + GAS_OF_BATCH, GAS_OF_BATCH + sum(group.gas for group in groups))
        sent: list[Transaction] = []
        deadline = time.monotonic() + self._patience
        self.follower.sync(self._patience)  # raises if a final block has changed: nothing is sent to such a chain
        while time.monotonic() < deadline:
            self._send_if_gone(sent, data, gas)
            self.follower.sync(self._patience)
            if all(self._decided(group, sent) for group in groups):
                return self._settle(groups, sent)
            time.sleep(self._poll)
        raise OutcomeUnknown(f"a batch has not become final in {self._patience:.0f} s; ask again with the same key")

    def _send_if_gone(self, sent: list[Transaction], data: bytes, gas: int) -> None:
        """Sends the batch, unless a transaction with it is in a block or may still get into one."""
        key = self._key(Role.CURATOR)
        if sent:
            newest = sent[-1]
            gone = self.node.nonce(key.address, "latest") > newest.nonce
            receipt = self.node.receipt(newest)
            if receipt is not None:
                if int(receipt["status"], 16) != 1:
                    raise LedgerRefused(self._why(data))
                return
            if not gone and time.monotonic() - self._sent_at < RESEND:
                return  # it may be on its way
            if not gone and self.node.nonce(key.address) >= newest.nonce:
                with suppress(Overtaken):  # in a block meanwhile, this one or another of the key: look again
                    self.node.send(newest)  # a reorganisation or a lost connection may have dropped it
                self._sent_at = time.monotonic()
                return
            # Its nonce is used, or earlier ones were dropped and nobody sends them again: sign anew.
        transaction = Transaction(
            self.chain_id, self.node.nonce(key.address), self.contract, data, fees=self.node.fees(gas)
        ).signed(key)
        try:
            self.node.send(transaction)
        except Overtaken:
            return  # another gateway was quicker: the next attempt takes the next nonce
        sent.append(transaction)
        self._sent_at = time.monotonic()

    def _decided(self, group: Group, sent: Sequence[Transaction]) -> bool:
        """Whether a group's outcome is final: it is in the books, or one of our transactions had it refused."""
        return self._accepted(group) or self._refusal(group, sent) is not None

    def _accepted(self, group: Group) -> bool:
        if group.claims:
            return all(self.books.reservation(group.account, claim.id) is not None for claim in group.claims)
        known = [self.books.reservation(group.account, seal.id) for seal in group.seals]
        return all(reservation is not None and reservation.answer is not None for reservation in known)

    def _refusal(self, group: Group, sent: Sequence[Transaction]) -> str | None:
        for transaction in sent:
            reason = self.follower.refusals.get((transaction.digest, group.first))
            if reason is not None:
                return reason or "ledger: out of gas"
        return None

    def _settle(self, groups: Sequence[Group], sent: Sequence[Transaction]) -> dict[bytes, str]:
        accepted = [group for group in groups if self._accepted(group)]
        refused = [group for group in groups if not self._accepted(group)]
        # Before any caller can measure: from here on these are spent, whatever the chain forgets.
        self._outbox.mark_final(claim.id for group in accepted for claim in group.claims)
        self._outbox.forget(claim.id for group in refused for claim in group.claims)
        self._compare(groups[0].account)
        for group in accepted:
            for seal in group.seals:
                if self._known(group.account, seal.id).answer != seal.answer:
                    raise Tampered(f"another answer than ours is published for {seal.id.hex()[:12]}")
        return {group.first: self._refusal(group, sent) or "" for group in refused}

    def _compare(self, account: bytes) -> None:
        """Compares the contract's state with its logs at the same block: a node where they differ makes one of them up.

        Compared several times before it halts: a node may answer for its newest block while it makes the next one.
        """
        for attempt in range(LOOKS):
            if attempt:
                time.sleep(self._poll * 2**attempt)
                self.follower.sync(self._patience)
            block = self.follower.head.number
            try:
                budget, spent, _ = self.node.view(budget_ledger(), self.contract, "money", account, block=block)
            except (NodeError, ValueError):
                return  # the node keeps no old state: only the logs can be used
            state = self.account(account)
            if self.follower.head.number != block or (budget, spent) == (state.budget.units, state.spent.units):
                return
        raise self.follower.halt(
            f"the node {self.node.name} contradicts itself: by its logs {state.spent} is spent at block {block}, "
            f"by its state {spent / 1e18:g}"
        )

    def _remind(self) -> None:
        """Sends again what was final once and is not on the chain now. Runs before anything else is charged."""
        forgotten = [
            group
            for group in self._outbox.final()
            if any(self.books.reservation(claim.account, claim.id) is None for claim in group) and self._ours(group)
        ]
        for group in forgotten:
            refused = self._deliver([Group(group[0].account, claims=group)])
            if refused:
                raise LedgerHalted(
                    f"the chain has forgotten the spend {group[0].id.hex()[:12]} and now refuses it "
                    f"({next(iter(refused.values()))}): more was answered than the chain knows. Nothing more is spent"
                )

    def _ours(self, group: Sequence[Claim]) -> bool:
        """Returns True; `LedgerHalted` if the chain has forgotten the account as well, since nothing can charge it."""
        if self.books.account(group[0].account) is None:
            raise LedgerHalted(
                f"the chain has forgotten the account {group[0].account.hex()[:12]}, on which answers were given: "
                "this is another chain, or it was rolled back beyond repair"
            )
        return True

    def _why(self, data: bytes) -> str:
        try:
            try_call(self.node, self._key(Role.CURATOR), self.contract, data)
        except LedgerRefused as refusal:
            return refusal.reason
        return "ledger: the transaction failed"

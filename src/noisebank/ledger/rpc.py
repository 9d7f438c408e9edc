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

from noisebank.core.durability import GroupCommit, PendingItem
from noisebank.core.errors import BadLedger, LedgerHalted, LedgerRefused, NoisebankError, OutcomeUnknown, Tampered
from noisebank.ledger.abi import Value, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Ledger
from noisebank.ledger.chain_config import ChainConfig
from noisebank.ledger.encoding import MAX_BATCH_PARTS, encode_publish_many, encode_reserve_many
from noisebank.ledger.evm import Event, decode_events
from noisebank.ledger.follower import Follower
from noisebank.ledger.node import Node, NodeError, NonceTaken, parse_log, send_and_wait, simulate_call
from noisebank.ledger.outbox import Outbox
from noisebank.ledger.protocol import Claim, Head, Role, Seal
from noisebank.ledger.signing import Key, Transaction

RESEND_SECONDS = 1.0
"""Seconds without news after which a transaction is sent again."""
PATIENCE = 180.0
"""Seconds until the outcome of a transaction that does not become final is reported as unknown."""
MAX_STATE_CHECKS = 4
"""How often logs and state are compared before a difference counts as a contradiction."""
MAX_GAS = 15_000_000
"""Of one transaction: below the cap of 2^24 that Ethereum sets since 2025."""
GAS_PER_SEAL, GAS_PER_CLAIM, GAS_PER_RUN, GAS_PER_BATCH = 45_000, 110_000, 900_000, 200_000
"""Above what docs/results/gas.md measures; the last one covers what a batch pays once."""
OWNER_CALL_GAS = 1_000_000
DEPLOY_GAS = 6_000_000


@dataclass(frozen=True, slots=True)
class CallGroup:
    """One caller's claims or seals: all of them or none."""

    account: bytes
    claims: tuple[Claim, ...] = ()
    seals: tuple[Seal, ...] = ()

    @property
    def first_id(self) -> bytes:
        """The id under which the contract logs a refusal of the group."""
        return self.claims[0].id if self.claims else self.seals[0].id

    @property
    def gas_bound(self) -> int:
        """Gas; more than the group can use."""
        runs = sum(len(claim.runs) for claim in self.claims)
        return len(self.seals) * GAS_PER_SEAL + len(self.claims) * GAS_PER_CLAIM + runs * GAS_PER_RUN


def deploy_contract(url: str, key: Key, patience: float = PATIENCE) -> ChainConfig:
    """Deploys the contract on a chain, paid by `key`; returns where it is."""
    node = Node(url)
    chain_id = node.chain_id()
    if not node.get_balance(key.address):
        raise BadLedger(f"{key.address} has no funds on chain {chain_id} to pay for the deployment")
    receipt = send_and_wait(node, key, chain_id, "", budget_ledger().initcode, DEPLOY_GAS, patience)
    return ChainConfig(url, str(receipt["contractAddress"]).lower(), chain_id, int(receipt["blockNumber"], 16))


class ChainLedger(Ledger):
    """A `Ledger` on a chain that others run. Several gateways may share an account."""

    is_shared = True

    def __init__(
        self,
        config: ChainConfig,
        keys: Mapping[Role, Key],
        outbox: Path | str,
        patience: float = PATIENCE,
        poll_seconds: float = 0.05,
    ) -> None:
        super().__init__(keys)
        self._config, self._patience, self._poll_seconds = config, patience, poll_seconds
        self.node = Node(config.url)
        self.follower = Follower(self.node, config.contract, config.deployment_block, config.confirmations)
        self.follower.check_contract(config.chain_id)
        self._outbox = Outbox(outbox)
        self._sent_at = 0.0
        self._submit: GroupCommit[CallGroup, None] = GroupCommit(self._deliver_all, on_failure=lambda reason: None)
        try:
            self.follower.sync(patience)
            self._resend_forgotten()
        except BaseException:
            self._outbox.close()
            raise

    # -- Ledger --------------------------------------------------------------------------------

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
        return self._config.contract

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        return self._config.chain_id

    @property
    def url(self) -> str:
        """The node's address. It may hold a key: never show it."""
        return self._config.url

    @property
    def deployment_block(self) -> int:
        """The block of the contract's deployment."""
        return self._config.deployment_block

    def charged_accounts(self) -> frozenset[bytes]:
        """Returns the accounts that this gateway has charged, according to its own outbox."""
        return frozenset(group[0].account for group in self._outbox.list_final_groups())

    def block_digest(self, number: int) -> bytes:
        """Returns the hash of a block, for receipts."""
        return self.follower.block_hash(number)

    # -- writing -------------------------------------------------------------------------------

    def _send_reserves(self, groups: Sequence[Sequence[Claim]]) -> list[NoisebankError | None]:
        return self._submit_groups([CallGroup(group[0].account, claims=tuple(group)) for group in groups])

    def _send_publishes(self, account: bytes, groups: Sequence[Sequence[Seal]]) -> list[NoisebankError | None]:
        return self._submit_groups([CallGroup(account, seals=tuple(group)) for group in groups])

    def _submit_groups(self, groups: Sequence[CallGroup]) -> list[NoisebankError | None]:
        """Delivers groups, with those of other callers; returns the refusal of each, if any."""
        refusals: list[NoisebankError | None] = []
        for group in self._submit.commit_all(groups):
            if not isinstance(group.refusal, NoisebankError):
                group.get_outcome()
            refusals.append(group.refusal if isinstance(group.refusal, NoisebankError) else None)
        return refusals

    def _call_contract(self, role: Role, function: str, *arguments: Value) -> Event:
        data = budget_ledger().encode_call(function, *arguments)
        receipt = send_and_wait(
            self.node, self._require_key(role), self.chain_id, self.contract, data, OWNER_CALL_GAS, self._patience
        )  # fmt: skip
        self._wait_until_final(int(receipt["blockNumber"], 16))
        again = self.node.ask("eth_getTransactionReceipt", receipt["transactionHash"])
        if not again or again["blockHash"] != receipt["blockHash"]:
            raise OutcomeUnknown("the chain was reorganised under this call: look at the account, then call again")
        (event,) = decode_events(budget_ledger(), [parse_log(entry) for entry in receipt["logs"]])
        return event

    def _wait_until_final(self, number: int) -> None:
        deadline = time.monotonic() + self._patience
        self.follower.sync(self._patience)
        while self.follower.head.number < number:
            if time.monotonic() > deadline:
                raise OutcomeUnknown(f"block {number} has not become final in {self._patience:.0f} s")
            time.sleep(self._poll_seconds)
            self.follower.sync(self._patience)

    def _deliver_all(self, turns: Sequence[PendingItem[CallGroup, None]]) -> None:
        """Delivers all waiting groups in as few transactions as their accounts and the gas allow. Never raises."""
        waiting = list(turns)
        while waiting:
            batch = self._next_batch(waiting)
            waiting = [turn for turn in waiting if turn not in batch]
            try:
                refused = self._deliver_groups([turn.item for turn in batch])
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
                reason = refused.get(turn.item.first_id)
                turn.refusal = None if reason is None else LedgerRefused(reason)

    def _next_batch(self, turns: Sequence[PendingItem[CallGroup, None]]) -> list[PendingItem[CallGroup, None]]:
        """Returns the first waiting group and those that fit into the same transaction."""
        first = turns[0].item
        batch: list[PendingItem[CallGroup, None]] = []
        parts, runs, gas = 0, 0, GAS_PER_BATCH
        for turn in turns:
            group = turn.item
            if group.account != first.account or bool(group.claims) != bool(first.claims):
                continue
            parts += len(group.claims) + len(group.seals)
            runs += sum(len(claim.runs) for claim in group.claims)
            gas += group.gas_bound
            if batch and (parts > MAX_BATCH_PARTS or runs > MAX_BATCH_PARTS or gas > MAX_GAS):
                break
            batch.append(turn)
        return batch

    def _deliver_groups(self, groups: Sequence[CallGroup]) -> dict[bytes, str]:
        """Sends groups of one account until their outcome is final; returns the reason of each refused one, by its
        first id."""
        if self.follower.halt_reason:
            raise LedgerHalted(self.follower.halt_reason)
        account = groups[0].account
        if groups[0].claims:
            self._outbox.save_groups(group.claims for group in groups)
            data = encode_reserve_many([group.claims for group in groups])
        else:
            data = encode_publish_many(account, [group.seals for group in groups])
        gas = min(MAX_GAS + GAS_PER_BATCH, GAS_PER_BATCH + sum(group.gas_bound for group in groups))
        sent: list[Transaction] = []
        deadline = time.monotonic() + self._patience
        self.follower.sync(self._patience)  # raises if a final block has changed: nothing is sent to such a chain
        while time.monotonic() < deadline:
            self._send_unless_pending(sent, data, gas)
            self.follower.sync(self._patience)
            if all(self._is_decided(group, sent) for group in groups):
                return self._record_outcomes(groups, sent)
            time.sleep(self._poll_seconds)
        raise OutcomeUnknown(f"a batch has not become final in {self._patience:.0f} s; ask again with the same key")

    def _send_unless_pending(self, sent: list[Transaction], data: bytes, gas: int) -> None:
        """Sends the batch, unless a transaction with it is in a block or may still get into one."""
        key = self._require_key(Role.CURATOR)
        if sent:
            newest = sent[-1]
            gone = self.node.get_nonce(key.address, "latest") > newest.nonce
            receipt = self.node.find_receipt(newest)
            if receipt is not None:
                if int(receipt["status"], 16) != 1:
                    raise LedgerRefused(self._revert_reason(data))
                return
            if not gone and time.monotonic() - self._sent_at < RESEND_SECONDS:
                return  # it may be on its way
            if not gone and self.node.get_nonce(key.address) >= newest.nonce:
                with suppress(NonceTaken):  # in a block meanwhile, this one or another of the key: look again
                    self.node.send_transaction(newest)  # a reorganisation or a lost connection may have dropped it
                self._sent_at = time.monotonic()
                return
            # Its nonce is used, or earlier ones were dropped and nobody sends them again: sign anew.
        transaction = Transaction(
            self.chain_id, self.node.get_nonce(key.address), self.contract, data, fees=self.node.offer_fees(gas)
        ).sign_with(key)
        try:
            self.node.send_transaction(transaction)
        except NonceTaken:
            return  # another gateway was quicker: the next attempt takes the next nonce
        sent.append(transaction)
        self._sent_at = time.monotonic()

    def _is_decided(self, group: CallGroup, sent: Sequence[Transaction]) -> bool:
        """Whether a group's outcome is final: it is in the books, or one of our transactions had it refused."""
        return self._is_accepted(group) or self._find_refusal(group, sent) is not None

    def _is_accepted(self, group: CallGroup) -> bool:
        if group.claims:
            return all(self.books.find_reservation(group.account, claim.id) is not None for claim in group.claims)
        known = [self.books.find_reservation(group.account, seal.id) for seal in group.seals]
        return all(reservation is not None and reservation.answer_digest is not None for reservation in known)

    def _find_refusal(self, group: CallGroup, sent: Sequence[Transaction]) -> str | None:
        for transaction in sent:
            reason = self.follower.refusals.get((transaction.digest, group.first_id))
            if reason is not None:
                return reason or "ledger: out of gas"
        return None

    def _record_outcomes(self, groups: Sequence[CallGroup], sent: Sequence[Transaction]) -> dict[bytes, str]:
        accepted = [group for group in groups if self._is_accepted(group)]
        refused = [group for group in groups if not self._is_accepted(group)]
        # Before any caller can measure: from here on these are spent, whatever the chain forgets.
        self._outbox.mark_final(claim.id for group in accepted for claim in group.claims)
        self._outbox.forget_claims(claim.id for group in refused for claim in group.claims)
        self._compare_state(groups[0].account)
        for group in accepted:
            for seal in group.seals:
                if self._require_reservation(group.account, seal.id).answer_digest != seal.answer_digest:
                    raise Tampered(f"another answer than ours is published for {seal.id.hex()[:12]}")
        return {group.first_id: self._find_refusal(group, sent) or "" for group in refused}

    def _compare_state(self, account: bytes) -> None:
        """Compares the contract's state with its logs at the same block: a node where they differ makes one of them up.

        Compared several times before it halts: a node may answer for its newest block while it makes the next one.
        """
        for attempt in range(MAX_STATE_CHECKS):
            if attempt:
                time.sleep(self._poll_seconds * 2**attempt)
                self.follower.sync(self._patience)
            block = self.follower.head.number
            try:
                budget, spent, _ = self.node.call_view(budget_ledger(), self.contract, "money", account, block=block)
            except (NodeError, ValueError):
                return  # the node keeps no old state: only the logs can be used
            state = self.get_account(account)
            if self.follower.head.number != block or (budget, spent) == (state.budget.units, state.spent.units):
                return
        raise self.follower.halt(
            f"the node {self.node.name} contradicts itself: by its logs {state.spent} is spent at block {block}, "
            f"by its state {spent / 1e18:g}"
        )

    def _resend_forgotten(self) -> None:
        """Sends again what was final once and is not on the chain now. Runs before anything else is charged."""
        forgotten = [
            group
            for group in self._outbox.list_final_groups()
            if any(self.books.find_reservation(claim.account, claim.id) is None for claim in group)
            and self._check_account_known(group)
        ]
        for group in forgotten:
            refused = self._deliver_groups([CallGroup(group[0].account, claims=group)])
            if refused:
                raise LedgerHalted(
                    f"the chain has forgotten the spend {group[0].id.hex()[:12]} and now refuses it "
                    f"({next(iter(refused.values()))}): more was answered than the chain knows. Nothing more is spent"
                )

    def _check_account_known(self, group: Sequence[Claim]) -> bool:
        """Returns True; `LedgerHalted` if the chain has forgotten the account as well, since nothing can charge it."""
        if self.books.find_account(group[0].account) is None:
            raise LedgerHalted(
                f"the chain has forgotten the account {group[0].account.hex()[:12]}, on which answers were given: "
                "this is another chain, or it was rolled back beyond repair"
            )
        return True

    def _revert_reason(self, data: bytes) -> str:
        try:
            simulate_call(self.node, self._require_key(Role.CURATOR), self.contract, data)
        except LedgerRefused as refusal:
            return refusal.reason
        return "ledger: the transaction failed"

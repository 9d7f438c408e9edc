"""The verifier against an honest journal, receipts and openings, and against everybody who cheats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noisebank.account.account import Account
from noisebank.account.statement import make_openings
from noisebank.core.errors import BadBank
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key, Transaction
from noisebank.verifier.verification import UNSEEN_TAIL, verify
from support.banks import CURATOR, OWNER, memory_account, write_people

OVER_30 = "SELECT COUNT(*) FROM people WHERE age > 30"
Journal = tuple[Account, list[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """FIRST, REFINE, BLUR, REPEAT on two queries, with a lowered budget and an announced raise."""
    account = memory_account(write_people(tmp_path_factory.mktemp("people")))
    answers = [
        account.ask(sql, sigma=sigma)
        for sql, sigma in (
            (OVER_30, 4),
            (OVER_30, 3),
            (OVER_30, 3.5),
            (OVER_30, 3),
            ("SELECT SUM(income) FROM people", 4000),
        )
    ]
    account.ledger.lower_budget(account.id, account.state.budget.units - 5)
    account.ledger.propose_raise(account.id, account.state.budget.units + 3)
    return (
        account,
        list(account.ledger.export_journal()),
        [json.loads(answer.receipt.to_canonical_json()) for answer in answers],
    )


def test_an_honest_journal_passes_and_says_what_it_cannot_see(honest: Journal) -> None:
    account, lines, _ = honest
    report = verify(lines)
    assert report.passed and report.level == "sums only"
    assert report.accounts[0].spent == account.state.spent.units
    assert report.accounts[0].cases == {"FIRST": 2, "REFINE": 1, "BLUR": 1, "REPEAT": 1}
    assert UNSEEN_TAIL in report.cannot_see
    assert report.compared_with == ("nothing besides the ledger itself",)


def test_a_head_receipts_and_openings_are_compared(honest: Journal) -> None:
    account, lines, receipts = honest
    head = account.ledger.head().digest.hex()
    report = verify(lines, head=head, receipts=receipts, openings=[make_openings(account)])
    assert report.passed, report.problem
    assert UNSEEN_TAIL not in report.cannot_see
    assert "5 of 5 records opened" in report.level
    assert len(report.compared_with) == 1 + len(receipts) + 1


def test_an_old_pinned_head_still_fits_a_longer_history(honest: Journal) -> None:
    account, lines, _ = honest
    assert verify(lines, head=account.ledger.block_digest(3).hex()).passed


def test_a_cut_tail_is_unseen_alone_and_caught_with_a_head_or_a_receipt(honest: Journal) -> None:
    account, lines, receipts = honest
    cut = lines[:8]
    alone = verify(cut)
    assert alone.passed and UNSEEN_TAIL in alone.cannot_see
    assert not verify(cut, head=account.ledger.head().digest.hex()).passed
    assert not verify(cut, receipts=[receipts[-1]]).passed
    assert verify(cut, receipts=[receipts[0]]).passed


def resealed(lines: list[str], change: Any) -> list[str]:
    """The whole history signed anew by the curator after `change(blocks)`: a perfect forgery of it."""
    genesis = Genesis.from_canonical_json(lines[0])
    blocks = change([Block.from_canonical_json(line, genesis.chain_id, n) for n, line in enumerate(lines[1:])])
    made, state = [lines[0]], Replay(genesis)
    for number, block in enumerate(blocks):
        block = replace(block, number=number, parent=state.head.digest).seal_with(CURATOR)
        state.head = replace(state.head, number=number, digest=block.digest)
        made.append(block.to_canonical_json())
    return made


def test_a_history_rewritten_by_the_curator_is_caught_only_from_outside(honest: Journal) -> None:
    account, lines, receipts = honest
    later = resealed(lines, lambda blocks: [replace(block, time=block.time + 60) for block in blocks])
    # The pending raise's times depend on the block's; leave the last block out.
    later = later[:-1]
    assert verify(later).passed
    assert not verify(later, head=account.ledger.block_digest(4).hex()).passed
    assert not verify(later, receipts=[receipts[0]]).passed


@pytest.mark.parametrize("with_signature", [True, False])
def test_a_raise_forged_with_the_curators_key_is_refused_and_named(honest: Journal, with_signature: bool) -> None:
    account, lines, _ = honest
    chain, contract = account.ledger.chain_id, account.ledger.contract

    def forge(blocks: list[Block]) -> list[Block]:
        nonce = sum(not sent.signature for block in blocks for sent in block.transactions)
        call = budget_ledger().encode_call("propose_raise", account.id, account.state.budget.units * 2)
        forged = Transaction(chain, nonce, contract, call)
        return [*blocks, replace(blocks[-1], transactions=(forged.sign_with(CURATOR) if with_signature else forged,))]

    report = verify(resealed(lines, forge))
    assert not report.passed and report.block == len(lines) - 1
    assert "not the owner" in report.problem


def test_a_transaction_signed_by_a_stranger_is_refused(honest: Journal) -> None:
    _, lines, _ = honest
    stranger = Key(b"\x09" * 32)

    def swap(blocks: list[Block]) -> list[Block]:
        forged = replace(blocks[2].transactions[0], nonce=0).sign_with(stranger)
        return [*blocks[:2], replace(blocks[2], transactions=(forged,)), *blocks[3:]]

    report = verify(resealed(lines, swap))
    assert not report.passed and report.block == 2
    assert stranger.address in report.problem


def test_an_owners_call_without_the_owners_signature_is_refused(honest: Journal) -> None:
    _, lines, _ = honest

    def strip(blocks: list[Block]) -> list[Block]:
        (sent,) = blocks[-1].transactions
        assert sent.signature
        return [*blocks[:-1], replace(blocks[-1], transactions=(replace(sent, signature=b""),))]

    report = verify(resealed(lines, strip))
    assert not report.passed and report.block == len(lines) - 2


@pytest.mark.parametrize("field", ["salt", "block_digest", "id", "account", "contract", "chain_id", "block"])
def test_a_changed_receipt_is_refused(honest: Journal, field: str) -> None:
    _, lines, receipts = honest
    value = receipts[0][field]
    wrong = value + 1 if isinstance(value, int) else ("1" if value[-1] == "0" else "0").join([value[:-1], ""])
    assert not verify(lines, receipts=[{**receipts[0], field: wrong}]).passed


def test_a_receipt_with_another_value_is_refused(honest: Journal) -> None:
    _, lines, receipts = honest
    answer = receipts[0]["answer"]
    forged = {**answer, "value": [answer["value"][0] + 1, answer["value"][1]]}
    report = verify(lines, receipts=[{**receipts[0], "answer": forged}])
    assert not report.passed and "another answer" in report.problem


def changed(opened: dict[str, Any], **fields: Any) -> dict[str, Any]:
    id = next(iter(opened["records"]))
    return {**opened, "records": {**opened["records"], id: {**opened["records"][id], **fields}}}


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"sql": "SELECT COUNT(*) FROM people WHERE age > 31"}, "question"),
        ({"asked": {"sigma": "5"}}, "asks for"),
        ({"asked": {"nonsense": "5"}}, "recomputed"),
        ({"query_salt": "00" * 32}, "question"),
        ({"answer_salt": "00" * 32}, "another answer"),
        ({"sql": "SELECT nonsense"}, "recomputed"),
    ],
)
def test_an_opening_that_disagrees_is_refused(honest: Journal, fields: dict[str, Any], word: str) -> None:
    account, lines, _ = honest
    report = verify(lines, openings=[changed(make_openings(account), **fields)])
    assert not report.passed and word in report.problem


def test_an_opened_policy_other_than_the_pinned_one_is_refused(honest: Journal) -> None:
    account, lines, _ = honest
    opened = make_openings(account)
    opened["policy"]["columns"]["income"]["bounds"] = [-1, 1]
    report = verify(lines, openings=[opened])
    assert not report.passed and "pins" in report.problem


def test_openings_without_answers_still_recompute_the_charges(honest: Journal) -> None:
    account, lines, _ = honest
    opened = make_openings(account, with_answers=False)
    assert all("answer" not in entry for entry in opened["records"].values())
    assert verify(lines, openings=[opened]).passed


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_journal_is_misuse(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal").write_text(text)
    with pytest.raises(BadBank):
        verify(tmp_path / "journal")


@pytest.mark.parametrize("text", ["hello", "{}", "[1]", '{"format": 1}', "\x00\xff"])
def test_something_else_than_a_journal_is_not_verified(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal").write_text(text)
    assert not verify(tmp_path / "journal").passed


def test_the_owner_and_the_curator_are_different_keys() -> None:
    assert OWNER.address != CURATOR.address

"""Ten members in ten processes, an edge worker and a chain of their own: cheats are caught, named, and left behind."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from contract.node import node_or_skip
from noisebank.cli.main import main
from support.crowd import Crowd, served
from support.crowd_played import own_chain
from support.internals import DevChain, Key, ModelRegistry, Phase, TaskRules, deploy_registry, verify_task

RULES = TaskRules(round_count=3, byzantine=3, expected_seats=25, patience_seconds=600)
CHEATS = ["honest"] * 6 + ["wrong_cid", "forged", "killed", "honest"]


@pytest.mark.timeout(3_600)  # the crowd fails much sooner if nothing moves
def test_cheats_are_caught_and_named_and_the_task_completes(tmp_path: Path) -> None:
    """A wrong identifier, a stolen model, a member killed in the second round; on the embedded chain."""
    clock = Clock()
    with own_chain(tmp_path, clock) as rpc, served("edge", "--record", str(tmp_path / "seen")) as edge:
        crowd = Crowd(rpc, None, tmp_path, edge["edge"], CHEATS)
        try:
            task = crowd.run(RULES, pass_time=clock.pass_time)
        finally:
            crowd.end()
        books = crowd.registry.read_books(task)
        assert books.phase is Phase.FINISHED and len(books.rounds) == 3
        second = {judged.member: judged.verdict.name for judged in books.rounds[1].verdicts}
        wrong_cid, forged, killed = crowd.addresses[6:9]
        assert second[wrong_cid] == "MISSING" and second[forged] == "MALFORMED"
        assert killed not in second and crowd.codes[8] == -9
        assert len([verdict for verdict in second.values() if verdict == "ACCEPTED"]) == 6  # 9 - 2 caught - 1 left of f
        report = verify_task(crowd.registry, crowd.store, task)
        assert report.passed, report.to_json()
        assert "nothing is stored under" in report.rounds[1].reasons[wrong_cid]
        assert "not who submitted it" in report.rounds[1].reasons[forged]
        _anyone_can_verify(crowd, task)
        _edge_saw_features_and_labels_only(tmp_path / "seen")
    _replay_is_the_same(tmp_path / "chain")


class Clock:
    """The machine's, and ahead of it by as much as a test says."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead

    def pass_time(self, seconds: float) -> None:
        self.ahead += seconds


def test_a_chain_of_ones_own_is_served_and_starts_again(tmp_path: Path) -> None:
    for _ in range(2):
        with served("host", str(tmp_path / "chain")) as host:
            assert ModelRegistry(host["rpc"]).contract


def _anyone_can_verify(crowd: Crowd, task: bytes) -> None:
    """By the command; and a model that was changed in the store, or an average on the ledger, is found out."""
    arguments = ["learn", "verify", task.hex()[:10], "--rpc", crowd.rpc, "--store", str(crowd.store.folder), "--json"]
    passed = CliRunner().invoke(main, [*arguments, "--round", "2"])
    assert passed.exit_code == 0 and json.loads(passed.stdout)["passed"]
    shown = CliRunner().invoke(
        main, ["learn", "status", "--rpc", crowd.rpc, "--store", str(crowd.store.folder), "--json"]
    )
    plain = json.loads(shown.stdout)
    assert plain["privacy"]["epsilon_of_an_example"] is None and len(plain["rounds"]) == 3
    accepted = crowd.registry.read_books(task).rounds[0]
    digest = next(
        one.digest for one, judged in zip(accepted.submissions, accepted.verdicts, strict=True)
        if judged.verdict.name == "ACCEPTED"
    )  # fmt: skip
    path = crowd.store.content_path(digest)
    path.write_bytes(path.read_bytes()[:-4] + b"\1\0\0\0")
    found = CliRunner().invoke(main, [*arguments, "--round", "1"])
    assert found.exit_code == 1 and "the average is" in found.stdout


def _edge_saw_features_and_labels_only(record: Path) -> None:
    kinds = {json.loads(line)["kind"] for line in record.read_text().splitlines()}
    assert kinds == {"features", "labels"}


def _replay_is_the_same(folder: Path) -> None:
    """Started again, the chain checks every block and ends where it was."""
    chain = DevChain(folder)
    assert len(chain.state.block_digests) > 60
    chain.close()


@pytest.mark.slow
def test_leader_with_a_wrong_average_is_outvoted_on_anvil(tmp_path: Path) -> None:
    """Whoever leads the first round lies: the committee opposes, the next leads, the round completes. And a stake."""
    with node_or_skip(timestamp=None) as node, served("edge") as edge:
        deployer = Key(b"\7" * 32)
        node.rpc("anvil_setBalance", deployer.address, hex(10**20))
        contract = deploy_registry(node.url, deployer)
        conducts = ["first_lies"] * 3 + ["sign_flip"] + ["first_lies"] * 6
        crowd = Crowd(node.url, contract, tmp_path, edge["edge"], conducts)
        for address in (*crowd.addresses, crowd.poster.address):
            node.rpc("anvil_setBalance", address, hex(10**20))
        try:
            task = crowd.run(
                TaskRules(round_count=3, byzantine=3, expected_seats=30, patience_seconds=600, stake_wei=10**15)
            )
        finally:
            crowd.end()
        books = crowd.registry.read_books(task)
        assert books.phase is Phase.FINISHED
        report = verify_task(crowd.registry, crowd.store, task)
        assert report.passed, report.to_json()
        liar, *_, right = books.rounds[0].proposals
        assert liar.outcome == "outvoted" and right.outcome == "agreed" and liar.leader != right.leader
        assert any(liar.leader in line and "were wrong" in line for line in report.rounds[0].deposed_leaders)
        flipped = crowd.addresses[3]
        assert all({one.member: one.verdict.name for one in row.verdicts}[flipped] == "OUTLIER" for row in books.rounds)
        assert books.members[flipped].reputation == 0
        for address in (flipped, crowd.addresses[4]):  # no reputation left: the stake is the poster's
            crowd.registry.send_call(crowd.poster, "settle", task, address)
        settled = {member: to for member, to, _ in crowd.registry.read_books(task).settled_stakes}
        standing = books.members[crowd.addresses[4]].reputation
        assert settled[flipped] == crowd.poster.address
        assert settled[crowd.addresses[4]] == (crowd.addresses[4] if standing else crowd.poster.address)


@pytest.mark.parametrize("arguments", [["status"], ["verify"], ["aggregate", "--keys", "nowhere"]])
def test_a_node_that_is_not_there_is_said(arguments: list[str], tmp_path: Path) -> None:
    found = CliRunner().invoke(
        main, ["learn", *arguments, "--rpc", "nonsense", "--store", str(tmp_path / "models"), "--json"]
    )
    assert found.exit_code == 2 and json.loads(found.stdout)["error"] == "BadLedger"

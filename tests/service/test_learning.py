"""The facts about learning over HTTP: as the ledger has them, from a folder, a node, or the bank's own chain."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import httpx
import pytest

from contract.node import node_or_skip
from noisebank import Bank, create_bank, open_bank
from noisebank.federated.blockfl.dev_chain import DATABASE_FILE
from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_played import RULES, Played, own_chain, save_test
from support.internals import (
    SMALL_SHAPE,
    ChainConfig,
    CrowdTask,
    CrowdTasks,
    FolderStore,
    Key,
    LearningTasks,
    ModelRegistry,
    Node,
    RoundOut,
    Settings,
    SgdTask,
    deploy_contract,
    deploy_registry,
    find_own_contract,
    format_cid,
    learn_model,
    make_app,
    open_task,
    post_task,
)
from support.learning import table
from support.learning import task as sgd_task
from support.patience import patience
from support.service import EASY, make_bank, running

NASTY = "</h1><script>alert(1)</script>"
SOUND = TaskTerms(NASTY, SMALL_SHAPE, norm="fixed", mode="sound", epsilon="2", delta="1e-5", batch=16)


@dataclass
class Town:
    folder: Path
    url: str
    paper: Played
    sound: Played

    @property
    def settings(self) -> Settings:
        return replace(EASY, learning=str(self.folder / "chain"), learning_models=self.folder / "models")


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with own_chain(folder) as url:
        paper = Played(
            folder, url, rules=replace(RULES, round_count=1), conducts={(1, 5): "missing", (1, 6): "flipped"}
        )
        paper.play()
        sound = Played(folder, url, terms=SOUND)
        sound.begin()
        sound.submit(1)
        save_test(folder / "test.npz")
        yield Town(folder, url, paper, sound)


def _asked(bank: Bank, settings: Settings, *paths: str) -> list[httpx.Response]:
    app = make_app(bank, replace(settings, bank=bank.folder))
    with running(app) as address, httpx.Client(base_url=address, timeout=patience(), trust_env=False) as client:
        return [client.get(path) for path in paths]


def _same_as_the_books(town: Town, said: list[httpx.Response]) -> None:
    every, paper, round, sound = said
    listed = LearningTasks.model_validate(every.json())
    assert [task.id for task in listed.tasks[:2]] == [town.sound.task.hex(), town.paper.task.hex()]
    assert not listed.trouble
    task = CrowdTask.model_validate(paper.json())
    books = town.paper.registry.read_books(town.paper.task)
    assert (task.phase, task.rounds_finished, task.mode, task.contract) == (
        "finished", 1, "paper", town.paper.registry.contract,
    )  # fmt: skip
    assert task.model == format_cid(books.rounds[0].model_digest or b"") and task.spending is None
    assert {each.member: (each.reputation, each.reward) for each in task.members_now} == {
        address: (member.reputation, member.reward) for address, member in books.members.items()
    }
    assert task.privacy and task.privacy.epsilon_of_an_example is None
    found = RoundOut.model_validate(round.json())
    assert [(one.member, one.verdict, one.model) for one in found.submissions] == [
        (one.member, judged.verdict.name.lower(), format_cid(one.digest))
        for one, judged in zip(books.rounds[0].submissions, books.rounds[0].verdicts, strict=True)
    ]
    assert [one.verdict for one in found.submissions][5:] == ["missing", "outlier"]
    assert sum(seat.seats for seat in found.committee) == found.seats and sum(s.leads for s in found.committee) == 1
    private = CrowdTask.model_validate(sound.json())
    assert private.spending and len(private.spending) == 7 and private.phase == "drawing"
    assert all((row.charged, row.spent, row.budget) == ("2", "2", "8") for row in private.spending)
    assert all(row.block is not None and row.block < private.rounds_planned * 1_000 for row in private.spending)


def _paths(town: Town) -> tuple[str, ...]:
    paper, sound = town.paper.task.hex(), town.sound.task.hex()
    return "/v1/learning", f"/v1/learning/{paper}", f"/v1/learning/{paper}/rounds/1", f"/v1/learning/{sound}"


def test_from_a_folder_and_from_a_node_it_is_what_the_books_say(town: Town, tmp_path: Path) -> None:
    with open_bank(make_bank(tmp_path)) as bank:
        _same_as_the_books(town, _asked(bank, town.settings, *_paths(town)))
        _same_as_the_books(town, _asked(bank, replace(town.settings, learning=town.url), *_paths(town)))
        task = f"/learning/{town.paper.task.hex()}"
        parts = _asked(
            bank, town.settings, *(f"{task}{each}" for each in ("/stands", "/rounds", "?round=1", "?round=7"))
        )
        assert [said.status_code for said in parts] == [200, 200, 200, 404]
        nowhere = _asked(
            bank, town.settings, f"/v1/learning/{'00' * 32}", "/v1/learning/nonsense",
            f"/v1/learning/{town.paper.task.hex()}/rounds/2", f"/v1/learning/{town.paper.task.hex()}/rounds/0",
        )  # fmt: skip
        assert [said.status_code for said in nowhere] == [404, 404, 404, 422]


def test_on_the_banks_own_chain_nothing_has_to_be_configured(town: Town, tmp_path: Path) -> None:
    node = Node(town.url)
    create_bank(
        tmp_path / "bank", where=ChainConfig(town.url, find_own_contract(node, "budget_ledger"), node.chain_id(), 0)
    )
    with Bank(tmp_path / "bank") as bank:
        _same_as_the_books(town, _asked(bank, replace(EASY, learning_models=town.folder / "models"), *_paths(town)))


def test_on_anvil_the_registry_is_named_and_the_banks_own_node_is_asked(tmp_path: Path) -> None:
    with node_or_skip() as node:
        payer = Key(b"\x11" * 32)
        node.rpc("anvil_setBalance", payer.address, hex(10**20))
        where, contract = deploy_contract(node.url, payer), deploy_registry(node.url, payer)
        create_bank(tmp_path / "bank", where=where)
        members = [(Key(bytes([number]) * 32).address, 5) for number in range(21, 28)]
        task, _ = post_task(
            ModelRegistry(node.url, contract), FolderStore(tmp_path / "models"), payer, SOUND, RULES, members
        )
        with Bank(tmp_path / "bank") as bank:
            settings = replace(EASY, learning_models=tmp_path / "models")
            assert _asked(bank, settings, "/v1/learning")[0].json() == {"tasks": [], "trouble": ""}  # nobody said where
            named = replace(settings, learning_contract=contract)
            every, one, page = _asked(
                bank, named, "/v1/learning", f"/v1/learning/{task.hex()}", f"/learning/{task.hex()}"
            )
            assert [each["id"] for each in every.json()["tasks"]] == [task.hex()]
            found = CrowdTask.model_validate(one.json())
            assert (found.phase, found.members, found.devices, found.contract) == ("joining", 7, 0, contract)
            assert "Members are joining" in page.text and node.url not in page.text  # an address may hold a key


def test_devices_charged_on_the_banks_own_ledger(tmp_path: Path) -> None:
    with open_bank(make_bank(tmp_path)) as bank:
        account = open_task(bank.parts, sgd_task(devices=23))
        id = account.id.hex()
        before, fresh = _asked(bank, EASY, "/v1/learning", f"/v1/learning/{id}")
        assert LearningTasks.model_validate(before.json()).tasks[0].phase == "submitting"
        assert SgdTask.model_validate(fresh.json()).spent == "0"
        learn_model(account.task, *table(23), account)
        said, private = _asked(bank, EASY, f"/v1/learning/{id}", f"/learning/{id}")
        task = SgdTask.model_validate(said.json())
        assert (task.phase, task.devices, task.never_asked, task.spent, task.budget) == ("finished", 20, 3, "1", "1")
        assert [(row.first, row.last) for row in task.groups] == [(15, 19), (10, 14), (5, 9), (0, 4)]
        assert all(row.report for row in task.groups) and "weights" not in said.json()
        assert "Shown to the bank&#39;s owner" in private.text or "Shown to the bank's owner" in private.text
        parts = [f"/learning/{id}{part}" for part in ("/stands", "/rounds", "/accuracy.json", "?round=2", "?round=x")]
        assert [said.status_code for said in _asked(bank, EASY, *parts)] == [404, 404, 404, 200, 422]


def test_a_posters_words_never_become_markup_and_pages_keep_their_policy(town: Town, tmp_path: Path) -> None:
    with open_bank(make_bank(tmp_path)) as bank:
        for said in _asked(bank, town.settings, "/learning", f"/learning/{town.sound.task.hex()}"):
            assert said.status_code == 200 and "<script>alert" not in said.text and "&lt;script&gt;" in said.text
            assert "unsafe-inline" not in said.headers["content-security-policy"]
            assert ' style="' not in said.text and str(town.folder) not in said.text


def test_a_tampered_chain_is_named_and_a_node_that_is_gone_leaves_what_was_known(town: Town, tmp_path: Path) -> None:
    shutil.copytree(town.folder / "chain", tmp_path / "chain")
    other = apsw.Connection(str(tmp_path / "chain" / DATABASE_FILE))
    line = next(other.execute("SELECT line FROM lines WHERE number = 9"))[0]
    place = line.index('"results":"') + 20
    other.execute(
        "UPDATE lines SET line = ? WHERE number = 9",
        (line[:place] + ("0" if line[place] != "0" else "1") + line[place + 1 :],),
    )
    other.close()
    tasks = CrowdTasks(replace(town.settings, learning=str(tmp_path / "chain")), "")
    assert tasks.list_tasks() == [] and "block 9" in tasks.trouble
    tasks.close()
    with own_chain(tmp_path / "other") as url:
        left = CrowdTasks(replace(town.settings, learning=url), "")
        played = Played(tmp_path / "other", url)
        played.begin()
        assert len(left.list_tasks()) == 1 and not left.trouble
    assert left._registry is not None
    left._registry.node, left._next_refresh = Node("http://127.0.0.1:1"), 0.0
    assert len(left.list_tasks()) == 1  # the page does not wait for a node that is away
    assert left._refresh is not None and left._refresh.wait(patience())
    assert "does not answer" in left.trouble and len(left.list_tasks()) == 1
    left.close()


def test_a_chain_that_was_rolled_back_is_read_anew(town: Town) -> None:
    registry = ModelRegistry(town.url)
    first = list(registry.follow_tasks())
    assert first == [town.paper.task, town.sound.task]
    registry.followed_books[town.paper.task].rounds.clear()  # as if its blocks had gone
    assert not registry.follow_tasks()[town.paper.task].rounds  # nothing new: nothing is read again
    registry._followed_hash = b"of a block that is no longer there"
    assert (
        list(registry.follow_tasks(max_blocks=15)) == first[:1] and registry.blocks_behind
    )  # a long chain is read in pieces
    while registry.blocks_behind:
        registry.follow_tasks(max_blocks=15)
    assert list(registry.followed_books) == first and len(registry.follow_tasks()[town.paper.task].rounds) == 1


def test_models_are_measured_once_and_what_cannot_be_is_said(town: Town) -> None:
    tasks = CrowdTasks(replace(town.settings, learning_test=str(town.folder / "test.npz")), "")
    first = tasks.find_task(town.paper.task)
    assert first and first["measuring"] and first["test"] == "test.npz"
    tasks.scores._executor.submit(lambda: None).result(patience())
    second = tasks.find_task(town.paper.task)
    assert second and not second["measuring"] and 0 <= second["rounds"][0]["accuracy"] <= 1
    tasks.close()
    assert not [thread for thread in tasks.scores._executor._threads if thread.is_alive()]  # nobody measures on
    absent = CrowdTasks(replace(town.settings, learning_test=str(town.folder / "absent.npz")), "")
    absent.find_task(town.paper.task)
    absent.scores._executor.submit(lambda: None).result(patience())
    said = absent.find_task(town.paper.task)
    assert said and "absent.npz cannot be read" in said["test_trouble"] and str(town.folder) not in said["test_trouble"]
    absent.close()

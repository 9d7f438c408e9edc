"""The registry's real bytecode and its model get the same calls: they must do the same, lots and refusals included."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from contract.real import STRANGER, Real
from contract.registry_model import DRAWING, FINISHED, JOINING, SUBMITTING, VOTING, RegistryModel, Revert, words
from contract.registry_variants import registry_variant
from support.internals import FIELD_MODULUS, Contract, LedgerRefused, SortitionKey, keccak, model_registry

POSTER = "0x" + "aa" * 20
PEOPLE = [f"0x{number:040x}" for number in range(0x1001, 0x1008)]
KEYS = {who: SortitionKey(number.to_bytes(32, "big")) for number, who in enumerate(PEOPLE, 1)}
SECRET = b"s" * 32
NOTHING = bytes(32)
anybody = st.sampled_from([*PEOPLE, POSTER, STRANGER])
member = st.sampled_from(PEOPLE)


@cache
def signed(who: str, message: bytes) -> tuple[int, int]:
    return KEYS[who].sign(message)


class Same(RuleBasedStateMachine):
    contract: Contract | None = None

    @initialize(
        rounds=st.integers(1, 2), f=st.integers(0, 1), wanted=st.integers(1, 30), norm=st.sampled_from([0, 0, 5]),
        printed=st.booleans(), coins=st.lists(st.integers(1, 9), min_size=5, max_size=7),
    )  # fmt: skip
    def begin_task(self, rounds: int, f: int, wanted: int, norm: int, printed: bool, coins: list[int]) -> None:
        self.real = Real(self.contract or model_registry())
        self.model = RegistryModel(self.real.chain_id, self.real.address, self.real.now)
        members = list(zip(PEOPLE, coins, strict=False))
        (self.task,), _ = self.real.call(
            POSTER,
            "post",
            b"m" * 32,
            b"t" * 32,
            keccak(SECRET),
            rounds,
            f,
            wanted,
            60,
            norm,
            printed,
            0,
            tuple(members),
        )
        self.model.post(POSTER, keccak(SECRET), rounds, f, wanted, 60, norm, printed, members)
        assert self.task == self.model.task

    def both(self, sender: str, function: str, arguments: tuple, *modelled: object) -> None:
        """The same call on both sides."""
        wanted, found = "", ""
        try:
            getattr(self.model, function)(sender, *modelled)
        except Revert as refusal:
            wanted = str(refusal)
        try:
            self.real.call(sender, function, self.task, *arguments)
        except LedgerRefused as refusal:
            found = refusal.reason
        assert found == wanted, (function, found, wanted)

    @rule(who=anybody, other=member, honest=st.booleans())
    def join(self, who: str, other: str, honest: bool) -> None:
        whose = who if honest and who in KEYS else other
        message = keccak(words(self.real.chain_id, self.real.address, self.task, who))
        x, y = signed(whose, message)
        claimed = KEYS[who] if who in KEYS else KEYS[other]
        self.both(who, "join", (*claimed.public_key.abi_words, x, y), claimed, KEYS[whose] is claimed)

    @rule(secret=st.sampled_from([SECRET, SECRET, NOTHING]), who=st.sampled_from([POSTER, POSTER, PEOPLE[0]]))
    def begin(self, secret: bytes, who: str) -> None:
        self.both(who, "begin", (secret,), secret)

    @rule(who=anybody, off=st.sampled_from([0, 0, 0, 1]))
    def submit(self, who: str, off: int) -> None:
        round = self.model.round + off
        self.both(who, "submit", (round, b"m" * 32, NOTHING), round)

    @rule(
        who=member, other=member, honest=st.sampled_from([True, True, True, False]), off=st.sampled_from([0, 0, 0, 1])
    )
    def draw(self, who: str, other: str, honest: bool, off: int) -> None:
        if self.model.phase != DRAWING:
            return
        whose = who if honest else other
        x, y = signed(whose, self.model.message())
        attempt = self.model.attempt + off
        self.both(who, "draw", (self.model.round, attempt, x, y), self.model.round, attempt, (x, y), whose == who)

    @rule(lead=st.sampled_from([True, True, False]), who=anybody, seed=st.integers(0, 2**32), good=st.booleans())
    def propose(self, lead: bool, who: str, seed: int, good: bool) -> None:
        drawings = self.model.drawings if self.model.phase == VOTING else []
        sender = drawings[-1].order[0] if drawings and lead else who
        count = len(self.model.submissions)
        given = [1 + (seed >> (2 * place)) % 4 for place in range(count)]
        if good:
            given = [1] * (count - self.model.f) + [2] * self.model.f if count >= self.model.f else given
        verdicts = sum(verdict << (4 * place) for place, verdict in enumerate(given))
        model = keccak(words(seed))
        self.both(sender, "propose", (self.model.round, model, verdicts), self.model.round, model, verdicts)

    @rule(who=anybody, agrees=st.booleans(), known=st.sampled_from([True, True, True, False]))
    def vote(self, who: str, agrees: bool, known: bool) -> None:
        proposal = self.model.drawings[-1].proposal if self.model.drawings else None
        id = proposal.id if proposal is not None and known else b"x" * 32
        self.both(who, "vote", (id, agrees), id, agrees)

    @rule(seconds=st.sampled_from([1, 30, 60]), who=anybody)
    def move_on(self, seconds: int, who: str) -> None:
        self.model.now = self.real.now + seconds
        self.real.at(self.model.now)
        self.both(who, "move_on", ())

    @rule(who=st.sampled_from([POSTER, PEOPLE[0]]))
    def cancel(self, who: str) -> None:
        if self.model.round > 1:  # otherwise most runs would end here
            self.both(who, "cancel", ())

    @rule(agrees=st.sampled_from([True, True, False]))
    def go_on(self, agrees: bool) -> None:
        """One whole phase, so that runs get somewhere."""
        model = self.model
        if model.phase == JOINING:
            for who in PEOPLE:
                self.join(who, who, True)
            self.begin(SECRET, POSTER)
        elif model.phase == SUBMITTING:
            for who in PEOPLE:
                if model.phase == SUBMITTING:
                    self.submit(who, 0)
        elif model.phase == DRAWING:
            for who in list(model.submissions):
                if model.phase == DRAWING:
                    self.draw(who, who, True, 0)
        elif model.phase == VOTING:
            if model.drawings[-1].proposal is None:
                self.propose(True, POSTER, 7, True)
            for who in PEOPLE:
                if model.phase == VOTING and model.drawings[-1].proposal is not None:
                    self.vote(who, agrees, True)

    @invariant()
    def same_state(self) -> None:
        if not hasattr(self, "task"):
            return
        names = ("phase", "round", "attempt", "since", "seed", "members", "coins", "reputation", "submitted")
        assert dict(zip(names, self.real.view("stages", self.task), strict=False)) == self.model.stage()
        for who, found in self.model.members.items():
            wanted = (found.coins, found.number, found.reputation, found.reward, found.last)
            assert self.real.view("members", self.task, who)[:5] == wanted
        for round, digest in self.model.models.items():
            assert self.real.view("models", self.task, round) == (digest,)
        if self.model.phase == VOTING:
            place = keccak(words(self.task, self.model.round, self.model.attempt))
            assert self.real.view("committees", place)[3] == self.model.drawings[-1].order[0]


def run(contract: Contract | None, examples: int, steps: int = 40) -> None:
    Machine = type("Machine", (Same,), {"contract": contract})  # noqa: N806
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True,
            suppress_health_check=list(HealthCheck), database=None,
            phases=(Phase.generate,),  # the first difference says enough; shrinking takes long
        ),
    )  # fmt: skip


def test_bytecode_does_what_the_model_does() -> None:
    run(None, 15)


@pytest.mark.slow
def test_bytecode_does_what_the_model_does_for_long() -> None:
    run(None, 60, 60)


PLANTED = {
    "two thirds are enough": ("model_registry.vy", "if 3 * proposal.agreed > 2 * all_seats:",
                              "if 3 * proposal.agreed >= 2 * all_seats:"),
    "a rejected model gains": ("model_registry.vy", "if accepted or (printed and reputation < average):",
                               "if accepted or reputation < average:"),
    "lots are not checked": ("model_registry.vy",
                             "assert unique_signatures._is_signed(self.keys[task][msg.sender], message, x, y),",
                             "assert x > 0,"),
    "the printed interval": ("sortition.vy", "        if u < below:\n            return j\n",
                             "        if u < below:\n            return max(j, 1) - 1\n"),
    "the last candidate leads": ("model_registry.vy", "priority < committee.priority:",
                                 "priority > committee.priority:"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place > 1 else []) for place, name in enumerate(PLANTED)]
)
def test_planted_bugs_are_seen(name: str) -> None:
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(registry_variant(PLANTED[name]), 25)


def test_signature_of_another_field_element_is_refused() -> None:
    real = Real(model_registry())
    (task,), _ = real.call(
        POSTER,
        "post",
        b"m" * 32,
        b"t" * 32,
        keccak(SECRET),
        1,
        0,
        5,
        60,
        0,
        False,
        0,
        tuple((who, 3) for who in PEOPLE),
    )
    who = PEOPLE[0]
    x, y = signed(who, keccak(words(real.chain_id, real.address, task, who)))
    for bad in ((x, FIELD_MODULUS - y), (x + FIELD_MODULUS, y), (0, 0), (x, y + 1)):
        with pytest.raises(LedgerRefused, match="key not proved"):
            real.call(who, "join", task, *KEYS[who].public_key.abi_words, *bad)
    with pytest.raises(LedgerRefused, match="key not proved"):
        real.call(who, "join", task, 0, 0, 0, 0, x, y)
    real.call(who, "join", task, *KEYS[who].public_key.abi_words, x, y)
    assert real.view("stages", task)[0] == JOINING != FINISHED

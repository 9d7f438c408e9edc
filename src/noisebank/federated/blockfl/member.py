"""A member of a task: `Member` joins, trains and submits; `CommitteeDuties` draws lots, leads, votes, ends waits.

A member acts on the ledger's current state, so it may be killed at any time and started again. What it must not lose is
in its own book: charges, and every model before anybody else can see it. A round is never trained again once its model
was sealed. Every vote is the member's own recomputation from the stored models.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from noisebank.core.errors import BadRequest, LedgerRefused, NoisebankError, Refused
from noisebank.federated.blockfl.books import Phase, TaskBooks
from noisebank.federated.blockfl.device import Progress, Trainer
from noisebank.federated.blockfl.identifiers import digest_of, identifier
from noisebank.federated.blockfl.krum import Judgement, judge
from noisebank.federated.blockfl.member_book import MemberBook
from noisebank.federated.blockfl.models import Model, fixed, read_model
from noisebank.federated.blockfl.registry import Registry, Stage
from noisebank.federated.blockfl.sortition import LotKey
from noisebank.federated.blockfl.store import Store
from noisebank.federated.blockfl.terms import Terms, read_terms
from noisebank.ledger.signing import Key

POLL = 0.3
NO_RECEIPT = bytes(32)
Say = Callable[[str], None]


@dataclass
class Done:
    """What a member has done in a task; rounds are numbers from 1."""

    submitted: list[int] = field(default_factory=list)
    seats: int = 0
    led: list[int] = field(default_factory=list)
    opposed: list[str] = field(default_factory=list)
    """Leaders whose proposals this member voted against."""
    seconds_training: float = 0.0


class Duties:
    """What a member does for a task besides training: draw lots, propose, vote, end a wait."""

    def __init__(
        self, registry: Registry, store: Store, key: Key, lot: LotKey, task: bytes, say: Say = lambda line: None
    ) -> None:
        self.registry, self.store, self.key, self.lot, self.task = registry, store, key, lot, task
        self.say, self.done = say, Done()
        self._judged: dict[int, Judgement] = {}

    @property
    def address(self) -> str:
        """The member's address."""
        return self.key.address

    @property
    def task_name(self) -> str:
        """The task's id in hexadecimal digits, as in the headers of models."""
        return self.task.hex()

    def terms(self, books: TaskBooks) -> Terms:
        """Return the task's terms from the store; their digest is the ledger's."""
        return _load_task_terms(books, self.store)

    def act(self, stage: Stage) -> bool:
        """Do what is due now; return whether anything was. If the contract refuses, others were quicker."""
        try:
            if stage.phase is Phase.DRAWING:
                return self._draw(stage) or self._move_on(stage)
            if stage.phase is Phase.VOTING:
                return self._lead_or_vote(stage) or self._move_on(stage)
            if stage.phase is Phase.SUBMITTING:
                return self._move_on(stage)
        except LedgerRefused as refusal:
            self.say(f"{self.address}: {refusal}")
        return False

    def judgement(self, round: int) -> Judgement:
        """Return verdicts and average of a round whose submissions are closed, recomputed here once."""
        if round not in self._judged:
            books = self.registry.books(self.task)
            self._judged[round] = judged_round(books, self.store, round)
        return self._judged[round]

    def proposed(self, round: int) -> tuple[bytes, int]:
        """Store the average; return what this member proposes when it leads: its digest and the packed verdicts."""
        judgement = self.judgement(round)
        return self.store.put(judgement.model), judgement.packed

    # -- parts ---------------------------------------------------------------------------------

    def _draw(self, stage: Stage) -> bool:
        books = self.registry.books(self.task)
        drawing = books.round.drawing
        has_submitted = any(submission.member == self.address for submission in books.round.submissions)
        if not has_submitted or drawing is None or any(lot.member == self.address for lot in drawing.lots):
            return False
        self.registry.draw(self.key, self.lot, self.task, stage)
        return True

    def _lead_or_vote(self, stage: Stage) -> bool:
        books = self.registry.books(self.task)
        drawing, proposal = books.round.drawing, books.round.proposal
        if drawing is None:
            return False
        own_seats = next((lot.seats for lot in drawing.lots if lot.member == self.address), 0)
        if proposal is None:
            if drawing.leader != self.address:
                return False
            model, verdicts = self.proposed(stage.round)
            self.registry.send(self.key, "propose", self.task, stage.round, model, verdicts)
            self.done.led.append(stage.round)
            self.say(f"{self.address} leads round {stage.round} and proposes {identifier(model)}")
            return True
        if not own_seats or self.address in proposal.votes:
            return False
        judgement = self.judgement(stage.round)
        agrees = digest_of(judgement.model) == proposal.model and judgement.packed == proposal.verdicts
        if agrees:
            self.store.put(judgement.model)  # so that others can get it here too
        else:
            self.done.opposed.append(proposal.leader)
            self.say(f"{self.address} opposes {proposal.leader}: its average or verdicts are not those of the models")
        self.registry.send(self.key, "vote", self.task, proposal.id, agrees)
        self.done.seats += own_seats
        return True

    def _move_on(self, stage: Stage) -> bool:
        """End the wait after the task's patience; each member a little later, so that not all of them do it."""
        books = self.registry.books(self.task)
        number = books.members[self.address].number if self.address in books.members else 0
        if time.time() < stage.since + books.posted.patience + 0.2 * number:
            return False
        if stage.phase is Phase.SUBMITTING and stage.submitted <= 2 * books.posted.byzantine + 2:
            return False
        if self.registry.stage(self.task) != stage:  # somebody else did it meanwhile
            return False
        self.registry.move_on(self.key, self.task)
        return True


class Member(Duties):
    """A member that also trains. It needs a book for a sound task; other tasks protect no examples and need none."""

    def __init__(
        self,
        registry: Registry,
        store: Store,
        key: Key,
        lot: LotKey,
        task: bytes,
        trainer: Callable[[Terms, TaskBooks], Trainer],
        say: Say = lambda line: None,
        progress: Progress = lambda done, total: None,
        receipt: Callable[[Terms, TaskBooks], bytes] = lambda terms, books: NO_RECEIPT,
        book: MemberBook | None = None,
    ) -> None:
        super().__init__(registry, store, key, lot, task, say)
        self._make_trainer, self._progress, self._make_receipt = trainer, progress, receipt
        self._book = book
        self._trainer: Trainer | None = None
        self._receipt: bytes | None = None

    def run(self, wait: float = 3600.0) -> Done:
        """Take part until the task is finished; NoisebankError if nothing has changed for `timeout_seconds`."""
        self._join()
        deadline, before = time.monotonic() + wait, None
        while True:
            stage = self.registry.stage(self.task)
            if stage.phase is Phase.FINISHED:
                return self.done
            if stage != before:
                deadline, before = time.monotonic() + wait, stage
            if time.monotonic() > deadline:
                raise NoisebankError(f"nothing has moved in task {self.task_name[:12]} for {wait:.0f} s")
            if stage.phase is Phase.SUBMITTING and self._submit(stage):
                continue
            if not self.act(stage):
                time.sleep(POLL)

    def trained(self, before: Model, round: int) -> bytes:
        """Train and return this member's model of a round, encoded."""
        assert self._trainer is not None
        weights = self._trainer.train(before.floats(), round, self._progress)
        return Model(self.task_name, round, self.address, fixed(weights)).encode()

    def published(self, content: bytes) -> bytes:
        """Store a model; return its digest."""
        return self.store.put(content)

    def _join(self) -> None:
        books = self.registry.books(self.task)
        standing = books.members.get(self.address)
        if standing is None:
            raise BadRequest("key", self.address, "is not admitted to this task")
        if standing.key is None:
            self.registry.join(self.key, self.lot, self.task, books.posted.stake)
            self.say(f"{self.address} has joined")
        elif standing.key != self.lot.public:
            raise BadRequest("lot key", "another one", "this member has joined with another key for lots")

    def _submit(self, stage: Stage) -> bool:
        books = self.registry.books(self.task)
        if books.round.number != stage.round or any(
            submission.member == self.address for submission in books.round.submissions
        ):
            return False
        terms = self.terms(books)
        if terms.mode == "sound" and self._book is None:
            raise Refused("a sound task is not trained without a book that keeps its models")
        before = global_model(books, self.store, stage.round - 1, terms.shape.count)
        if self._receipt is None:  # charged before the first batch
            self._receipt = self._make_receipt(terms, books)
        digest = self.published(self._sealed_model(terms, books, before, stage.round))
        try:
            self.registry.send(self.key, "submit", self.task, stage.round, digest, self._receipt)
        except LedgerRefused as refusal:  # too late: the others did not wait
            self.say(f"{self.address}: {refusal}")
            return True
        self.done.submitted.append(stage.round)
        self.say(f"{self.address} submits {identifier(digest)} for round {stage.round}")
        return True

    def _sealed_model(self, terms: Terms, books: TaskBooks, before: Model, round: int) -> bytes:
        """Return the round's one model: the sealed one, or one trained now and sealed before anybody can see it."""
        sealed = None if self._book is None else self._book.sealed(self.task, round)
        if sealed is not None:
            self.say(f"{self.address} sends its model of round {round} again, as it was sealed")
            return sealed
        if self._trainer is None:
            self._trainer = self._make_trainer(terms, books)
        began = time.monotonic()
        content = self.trained(before, round)
        self.done.seconds_training += time.monotonic() - began
        return content if self._book is None else self._book.seal(self.task, round, content)


def global_model(books: TaskBooks, store: Store, round: int, count: int) -> Model:
    """Return the model after a round; after round 0 it is the initial one."""
    digest = books.model_before(round + 1)
    content = store.get(digest)
    if content is None:
        raise BadRequest("store", identifier(digest), f"the model after round {round} is not stored here")
    task = books.posted.task.hex() if round else ""
    return read_model(content, task, round, "", count)


def judged_round(books: TaskBooks, store: Store, round: int) -> Judgement:
    """Return a round's verdicts and average, from the ledger and the store alone."""
    before = global_model(books, store, round - 1, _load_task_terms(books, store).shape.count)
    entries = books.rounds[round - 1].entries
    return judge(entries, store, books.posted.task.hex(), round, before, books.posted.byzantine)


def _load_task_terms(books: TaskBooks, store: Store) -> Terms:
    content = store.get(books.posted.terms)
    if content is None:
        raise BadRequest("store", identifier(books.posted.terms), "the task's terms are not stored here")
    return read_terms(content)

"""A member of a task: `CrowdMember` joins, trains and submits; `CommitteeDuties` draws lots, leads and votes.

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
from noisebank.federated.blockfl.identifiers import format_cid, hash_content
from noisebank.federated.blockfl.krum import Judgement, judge_submissions
from noisebank.federated.blockfl.member_book import MemberBook
from noisebank.federated.blockfl.models import Model, read_model, to_fixed_point
from noisebank.federated.blockfl.registry import ModelRegistry, TaskStage
from noisebank.federated.blockfl.sortition import SortitionKey
from noisebank.federated.blockfl.store import ContentStore
from noisebank.federated.blockfl.terms import TaskTerms, read_terms
from noisebank.ledger.signing import Key

POLL_SECONDS = 0.3
NO_RECEIPT = bytes(32)
LogLine = Callable[[str], None]


@dataclass
class MemberActivity:
    """What a member has done in a task; rounds are numbers from 1."""

    submitted_rounds: list[int] = field(default_factory=list)
    seats_voted: int = 0
    led_rounds: list[int] = field(default_factory=list)
    opposed_leaders: list[str] = field(default_factory=list)
    """Leaders whose proposals this member voted against."""
    training_seconds: float = 0.0


class CommitteeDuties:
    """What a member does for a task besides training: draw lots, propose, vote, end a wait."""

    def __init__(
        self,
        registry: ModelRegistry,
        store: ContentStore,
        key: Key,
        sortition_key: SortitionKey,
        task: bytes,
        log: LogLine = lambda line: None,
    ) -> None:
        self.registry, self.store, self.key, self.sortition_key, self.task = registry, store, key, sortition_key, task
        self.log, self.activity = log, MemberActivity()
        self._judgements: dict[int, Judgement] = {}

    @property
    def address(self) -> str:
        """The member's address."""
        return self.key.address

    @property
    def task_hex(self) -> str:
        """The task's id in hexadecimal digits, as in the headers of models."""
        return self.task.hex()

    def load_terms(self, books: TaskBooks) -> TaskTerms:
        """Return the task's terms from the store; their digest is the ledger's."""
        return _load_task_terms(books, self.store)

    def perform_duties(self, stage: TaskStage) -> bool:
        """Do what is due now; return whether anything was. If the contract refuses, others were quicker."""
        try:
            if stage.phase is Phase.DRAWING:
                return self._draw_lot(stage) or self._move_on(stage)
            if stage.phase is Phase.VOTING:
                return self._lead_or_vote(stage) or self._move_on(stage)
            if stage.phase is Phase.SUBMITTING:
                return self._move_on(stage)
        except LedgerRefused as refusal:
            self.log(f"{self.address}: {refusal}")
        return False

    def compute_judgement(self, round: int) -> Judgement:
        """Return verdicts and average of a round whose submissions are closed, recomputed here once."""
        if round not in self._judgements:
            books = self.registry.read_books(self.task)
            self._judgements[round] = judge_round(books, self.store, round)
        return self._judgements[round]

    def make_proposal(self, round: int) -> tuple[bytes, int]:
        """Store the average; return what this member proposes when it leads: its digest and the packed verdicts."""
        judgement = self.compute_judgement(round)
        return self.store.put(judgement.encoded_model), judgement.packed_verdicts

    # -- parts ---------------------------------------------------------------------------------

    def _draw_lot(self, stage: TaskStage) -> bool:
        books = self.registry.read_books(self.task)
        drawing = books.current_round.current_drawing
        has_submitted = any(submission.member == self.address for submission in books.current_round.submissions)
        if not has_submitted or drawing is None or any(lot.member == self.address for lot in drawing.lots):
            return False
        self.registry.draw_lot(self.key, self.sortition_key, self.task, stage)
        return True

    def _lead_or_vote(self, stage: TaskStage) -> bool:
        books = self.registry.read_books(self.task)
        drawing, proposal = books.current_round.current_drawing, books.current_round.open_proposal
        if drawing is None:
            return False
        own_seats = next((lot.seats for lot in drawing.lots if lot.member == self.address), 0)
        if proposal is None:
            if drawing.leader != self.address:
                return False
            model, verdicts = self.make_proposal(stage.round)
            self.registry.send_call(self.key, "propose", self.task, stage.round, model, verdicts)
            self.activity.led_rounds.append(stage.round)
            self.log(f"{self.address} leads round {stage.round} and proposes {format_cid(model)}")
            return True
        if not own_seats or self.address in proposal.votes:
            return False
        judgement = self.compute_judgement(stage.round)
        agrees = (
            hash_content(judgement.encoded_model) == proposal.model_digest
            and judgement.packed_verdicts == proposal.packed_verdicts
        )
        if agrees:
            self.store.put(judgement.encoded_model)  # so that others can get it here too
        else:
            self.activity.opposed_leaders.append(proposal.leader)
            self.log(f"{self.address} opposes {proposal.leader}: its average or verdicts are not those of the models")
        self.registry.send_call(self.key, "vote", self.task, proposal.id, agrees)
        self.activity.seats_voted += own_seats
        return True

    def _move_on(self, stage: TaskStage) -> bool:
        """End the wait after the task's patience; each member a little later, so that not all of them do it."""
        books = self.registry.read_books(self.task)
        number = books.members[self.address].number if self.address in books.members else 0
        if time.time() < stage.since_time + books.setup.patience_seconds + 0.2 * number:
            return False
        if stage.phase is Phase.SUBMITTING and stage.submission_count <= 2 * books.setup.byzantine + 2:
            return False
        if self.registry.read_stage(self.task) != stage:  # somebody else did it meanwhile
            return False
        self.registry.move_on(self.key, self.task)
        return True


class CrowdMember(CommitteeDuties):
    """A member that also trains. It needs a book for a sound task; other tasks protect no examples and need none."""

    def __init__(
        self,
        registry: ModelRegistry,
        store: ContentStore,
        key: Key,
        sortition_key: SortitionKey,
        task: bytes,
        make_trainer: Callable[[TaskTerms, TaskBooks], Trainer],
        log: LogLine = lambda line: None,
        progress: Progress = lambda done, total: None,
        make_receipt: Callable[[TaskTerms, TaskBooks], bytes] = lambda terms, books: NO_RECEIPT,
        book: MemberBook | None = None,
    ) -> None:
        super().__init__(registry, store, key, sortition_key, task, log)
        self._make_trainer, self._progress, self._make_receipt = make_trainer, progress, make_receipt
        self._book = book
        self._trainer: Trainer | None = None
        self._receipt: bytes | None = None

    def run(self, timeout_seconds: float = 3600.0) -> MemberActivity:
        """Take part until the task is finished; NoisebankError if nothing has changed for `timeout_seconds`."""
        self._join_task()
        deadline, before = time.monotonic() + timeout_seconds, None
        while True:
            stage = self.registry.read_stage(self.task)
            if stage.phase is Phase.FINISHED:
                return self.activity
            if stage != before:
                deadline, before = time.monotonic() + timeout_seconds, stage
            if time.monotonic() > deadline:
                raise NoisebankError(f"nothing has moved in task {self.task_hex[:12]} for {timeout_seconds:.0f} s")
            if stage.phase is Phase.SUBMITTING and self._submit_model(stage):
                continue
            if not self.perform_duties(stage):
                time.sleep(POLL_SECONDS)

    def train_model(self, previous_model: Model, round: int) -> bytes:
        """Train and return this member's model of a round, encoded."""
        assert self._trainer is not None
        weights = self._trainer.train(previous_model.to_floats(), round, self._progress)
        return Model(self.task_hex, round, self.address, to_fixed_point(weights)).to_bytes()

    def publish_model(self, content: bytes) -> bytes:
        """Store a model; return its digest."""
        return self.store.put(content)

    def _join_task(self) -> None:
        books = self.registry.read_books(self.task)
        standing = books.members.get(self.address)
        if standing is None:
            raise BadRequest("key", self.address, "is not admitted to this task")
        if standing.public_key is None:
            self.registry.join_task(self.key, self.sortition_key, self.task, books.setup.stake_wei)
            self.log(f"{self.address} has joined")
        elif standing.public_key != self.sortition_key.public_key:
            raise BadRequest("lot key", "another one", "this member has joined with another key for lots")

    def _submit_model(self, stage: TaskStage) -> bool:
        books = self.registry.read_books(self.task)
        if books.current_round.number != stage.round or any(
            submission.member == self.address for submission in books.current_round.submissions
        ):
            return False
        terms = self.load_terms(books)
        if terms.mode == "sound" and self._book is None:
            raise Refused("a sound task is not trained without a book that keeps its models")
        before = load_global_model(books, self.store, stage.round - 1, terms.shape.weight_count)
        if self._receipt is None:  # charged before the first batch
            self._receipt = self._make_receipt(terms, books)
        digest = self.publish_model(self._load_or_train_model(terms, books, before, stage.round))
        try:
            self.registry.send_call(self.key, "submit", self.task, stage.round, digest, self._receipt)
        except LedgerRefused as refusal:  # too late: the others did not wait
            self.log(f"{self.address}: {refusal}")
            return True
        self.activity.submitted_rounds.append(stage.round)
        self.log(f"{self.address} submits {format_cid(digest)} for round {stage.round}")
        return True

    def _load_or_train_model(self, terms: TaskTerms, books: TaskBooks, previous_model: Model, round: int) -> bytes:
        """Return the round's one model: the sealed one, or one trained now and sealed before anybody can see it."""
        sealed = None if self._book is None else self._book.find_model(self.task, round)
        if sealed is not None:
            self.log(f"{self.address} sends its model of round {round} again, as it was sealed")
            return sealed
        if self._trainer is None:
            self._trainer = self._make_trainer(terms, books)
        began = time.monotonic()
        content = self.train_model(previous_model, round)
        self.activity.training_seconds += time.monotonic() - began
        return content if self._book is None else self._book.seal_model(self.task, round, content)


def load_global_model(books: TaskBooks, store: ContentStore, round: int, weight_count: int) -> Model:
    """Return the model after a round; after round 0 it is the initial one."""
    digest = books.model_before(round + 1)
    content = store.get(digest)
    if content is None:
        raise BadRequest("store", format_cid(digest), f"the model after round {round} is not stored here")
    task = books.setup.task_id.hex() if round else ""
    return read_model(content, task, round, "", weight_count)


def judge_round(books: TaskBooks, store: ContentStore, round: int) -> Judgement:
    """Return a round's verdicts and average, from the ledger and the store alone."""
    before = load_global_model(books, store, round - 1, _load_task_terms(books, store).shape.weight_count)
    entries = books.rounds[round - 1].submitted_models
    return judge_submissions(entries, store, books.setup.task_id.hex(), round, before, books.setup.byzantine)


def _load_task_terms(books: TaskBooks, store: ContentStore) -> TaskTerms:
    content = store.get(books.setup.terms_digest)
    if content is None:
        raise BadRequest("store", format_cid(books.setup.terms_digest), "the task's terms are not stored here")
    return read_terms(content)

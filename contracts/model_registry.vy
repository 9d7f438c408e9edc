# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Model registry: the books of learning by a crowd
@license Apache-2.0
@author noisebank
@notice A task has an initial model and some rounds. In each round members submit models, a committee
        drawn by lot judges them, its leader proposes verdicts and the average, and the round is valid
        once more than two thirds of the committee's seats agree. Reputation and rewards follow.
@dev    Models live elsewhere, named by the SHA-256 digest in their content identifier (CIDv1, raw).
        The contract cannot read them: it decides who may say what, whose lots count, when a round is
        valid, and who gains or loses by it. Lots are unique signatures that it checks itself. It calls
        no other contract, cannot be upgraded, and holds nothing but the stakes of members.
"""

import sortition
import unique_signatures

# ------------------------------------------------------------------ kinds
flag Phase:
    JOINING      # admitted members bring their keys
    SUBMITTING   # models of this round come in
    DRAWING      # whoever submitted shows its lot
    VOTING       # the leader proposes, the committee votes
    FINISHED

# ------------------------------------------------------------------ constants
MAX_MEMBERS: constant(uint256) = 64       # verdicts are four bits each of one word
MAX_COINS: public(constant(uint256)) = 64
MAX_ROUNDS: public(constant(uint256)) = 10_000
MAX_PATIENCE: public(constant(uint256)) = 30 * 86400
FIRST_REPUTATION: public(constant(uint256)) = 5
MAX_REPUTATION: public(constant(uint256)) = 100
# Verdicts. 0: no such submission.
ACCEPTED: constant(uint256) = 1
OUTLIER: constant(uint256) = 2            # not among the R - f that Multi-KRUM keeps
MISSING: constant(uint256) = 3            # nothing is stored under its identifier
MALFORMED: constant(uint256) = 4          # stored, but no model of this member for this round

# ------------------------------------------------------------------ state
struct Task:
    poster: address
    model: bytes32         # the initial model
    terms: bytes32         # what is trained and how, by content identifier too
    secret: bytes32        # keccak of what the poster reveals when the first round begins
    rounds: uint256
    byzantine: uint256     # so many members may be malicious
    seats: uint256         # expected in a committee
    patience: uint256      # seconds that a phase waits for whoever is late
    norm: uint256          # the average that reputation is compared with; 0: of all members, rounded down
    printed: bool          # reputation as printed in the paper, or repaired
    stake: uint256         # wei that joining costs

struct Admission:
    member: address
    coins: uint256

struct Stage:
    phase: Phase
    round: uint256         # from 1
    attempt: uint256       # drawings of this round's committee, from 1
    since: uint256         # when the phase began
    seed: bytes32          # what this round's lots sign
    members: uint256       # that have joined
    coins: uint256         # of all who have joined
    reputation: uint256    # of all who have joined
    submitted: uint256     # in this round
    awaited: uint256       # who took part in the last round, or could have in the first, and have not yet

struct Member:
    coins: uint256
    number: uint256        # in the order of joining, from 1; 0: not joined
    reputation: uint256
    reward: uint256        # of all rounds
    last: uint256          # the last round that it submitted in
    stake: uint256         # wei, held until the task is finished

struct Submission:
    member: address
    model: bytes32
    receipt: bytes32       # reservation of the member's privacy budget; empty in the paper's mode

struct Committee:
    drawn: uint256         # lots shown
    seats: uint256         # of all of them
    candidates: uint256    # with at least one seat
    leader: address
    priority: uint256      # the leader's

struct Candidate:
    member: address
    priority: uint256

struct Proposal:
    id: bytes32            # empty: none yet
    model: bytes32
    verdicts: uint256
    agreed: uint256        # seats
    opposed: uint256

tasks: public(HashMap[bytes32, Task])
stages: public(HashMap[bytes32, Stage])
posted_by: public(HashMap[address, uint256])
members: public(HashMap[bytes32, HashMap[address, Member]])
keys: public(HashMap[bytes32, HashMap[address, unique_signatures.Key]])
# Per task and round, from 1; round 0 is the initial model.
models: public(HashMap[bytes32, HashMap[uint256, bytes32]])
# Per task and round, in the order of arrival, from 0.
submissions: public(HashMap[bytes32, HashMap[uint256, HashMap[uint256, Submission]]])
# The maps below are keyed by keccak(task, round, attempt).
committees: public(HashMap[bytes32, Committee])
candidates: public(HashMap[bytes32, HashMap[uint256, Candidate]])
lots: public(HashMap[bytes32, HashMap[address, bytes32]])
seats: public(HashMap[bytes32, HashMap[address, uint256]])
proposals: public(HashMap[bytes32, Proposal])
# Per proposal.
voted: public(HashMap[bytes32, HashMap[address, bool]])

# ------------------------------------------------------------------ events
event TaskPosted:
    task: indexed(bytes32)
    poster: indexed(address)
    model: bytes32
    terms: bytes32
    secret: bytes32
    rounds: uint256
    byzantine: uint256
    seats: uint256
    patience: uint256
    norm: uint256
    printed: bool
    stake: uint256

event Admitted:
    task: indexed(bytes32)
    member: indexed(address)
    coins: uint256

event Joined:
    task: indexed(bytes32)
    member: indexed(address)
    number: uint256
    x_imaginary: uint256
    x_real: uint256
    y_imaginary: uint256
    y_real: uint256

event Begun:
    task: indexed(bytes32)
    secret: bytes32
    seed: bytes32
    members: uint256
    coins: uint256

event Submitted:
    task: indexed(bytes32)
    round: indexed(uint256)
    member: indexed(address)
    number: uint256        # in this round, from 0
    model: bytes32
    receipt: bytes32

event Closed:
    task: indexed(bytes32)
    round: indexed(uint256)
    attempt: uint256
    submitted: uint256

event Drawn:
    task: indexed(bytes32)
    round: indexed(uint256)
    member: indexed(address)
    attempt: uint256
    x: uint256
    y: uint256
    seats: uint256
    priority: uint256

event Seated:
    task: indexed(bytes32)
    round: indexed(uint256)
    attempt: uint256
    leader: address
    seats: uint256

event Proposed:
    task: indexed(bytes32)
    round: indexed(uint256)
    leader: indexed(address)
    id: bytes32
    model: bytes32
    verdicts: uint256

event Voted:
    task: indexed(bytes32)
    round: indexed(uint256)
    member: indexed(address)
    id: bytes32
    agrees: bool
    seats: uint256

event LeaderDeposed:
    task: indexed(bytes32)
    round: indexed(uint256)
    leader: indexed(address)
    outvoted: bool         # by a third of the seats; otherwise time ran out
    id: bytes32            # the proposal; empty: there was none

event Judged:
    task: indexed(bytes32)
    round: indexed(uint256)
    member: indexed(address)
    verdict: uint256
    reputation: uint256    # after the round
    reward: uint256        # for the round

event RoundFinished:
    task: indexed(bytes32)
    round: indexed(uint256)
    model: bytes32
    verdicts: uint256
    average: uint256       # that reputations were compared with
    seed: bytes32          # of the next round

event TaskFinished:
    task: indexed(bytes32)
    rounds: uint256        # that were finished

event StakeSettled:
    task: indexed(bytes32)
    member: indexed(address)
    to: address
    amount: uint256

# ------------------------------------------------------------------ posting and joining
@external
def post(
    model: bytes32,
    terms: bytes32,
    secret: bytes32,
    rounds: uint256,
    byzantine: uint256,
    seats: uint256,
    patience: uint256,
    norm: uint256,
    printed: bool,
    stake: uint256,
    admissions: DynArray[Admission, MAX_MEMBERS],
) -> bytes32:
    """
    @notice Posts a task of the sender's.
    @param model SHA-256 digest of the initial model.
    @param terms SHA-256 digest of the terms: what is trained, how, and with which privacy.
    @param secret keccak256 of a random word that `begin` reveals.
    @param rounds How many rounds.
    @param byzantine How many members may be malicious.
    @param seats How many seats a committee is expected to have.
    @param patience Seconds that a phase waits for whoever is late.
    @param norm The average that reputation is compared with; 0: that of all members, rounded down.
    @param printed Whether reputation follows the paper to the letter, or its repair.
    @param stake Wei that joining costs, returned at the end to whoever has reputation left.
    @param admissions Who may join, with how many coins.
    @return The task's id, unique over chains, contracts and posters.
    """
    assert rounds > 0 and rounds <= MAX_ROUNDS, "registry: number of rounds"
    assert len(admissions) > 2 * byzantine + 2, "registry: too few members"
    assert seats > 0, "registry: no seats"
    assert patience > 0 and patience <= MAX_PATIENCE, "registry: patience"
    assert norm <= MAX_REPUTATION, "registry: norm too large"
    nonce: uint256 = self.posted_by[msg.sender]
    task: bytes32 = keccak256(abi_encode(chain.id, self, msg.sender, nonce))
    self.posted_by[msg.sender] = nonce + 1
    self.tasks[task] = Task(
        poster=msg.sender,
        model=model,
        terms=terms,
        secret=secret,
        rounds=rounds,
        byzantine=byzantine,
        seats=seats,
        patience=patience,
        norm=norm,
        printed=printed,
        stake=stake,
    )
    self.models[task][0] = model
    self.stages[task] = Stage(
        phase=Phase.JOINING,
        round=0,
        attempt=0,
        since=block.timestamp,
        seed=empty(bytes32),
        members=0,
        coins=0,
        reputation=0,
        submitted=0,
        awaited=0,
    )
    log TaskPosted(
        task=task,
        poster=msg.sender,
        model=model,
        terms=terms,
        secret=secret,
        rounds=rounds,
        byzantine=byzantine,
        seats=seats,
        patience=patience,
        norm=norm,
        printed=printed,
        stake=stake,
    )
    for admission: Admission in admissions:
        assert admission.coins > 0 and admission.coins <= MAX_COINS, "registry: number of coins"
        assert self.members[task][admission.member].coins == 0, "registry: admitted twice"
        self.members[task][admission.member].coins = admission.coins
        log Admitted(task=task, member=admission.member, coins=admission.coins)
    return task

@external
@payable
def join(
    task: bytes32,
    x_imaginary: uint256,
    x_real: uint256,
    y_imaginary: uint256,
    y_real: uint256,
    x: uint256,
    y: uint256,
):
    """
    @notice Brings an admitted member's key, before the first round.
    @param task The task.
    @param x_imaginary Of the key, a point of G2.
    @param x_real Of the key.
    @param y_imaginary Of the key.
    @param y_real Of the key.
    @param x Of the key's signature of the member's own address: proof that the member has it.
    @param y Of that signature.
    """
    stage: Stage = self.stages[task]
    assert stage.phase == Phase.JOINING, "registry: not joining"
    member: Member = self.members[task][msg.sender]
    assert member.coins > 0, "registry: not admitted"
    assert member.number == 0, "registry: joined before"
    assert msg.value == self.tasks[task].stake, "registry: another stake"
    key: unique_signatures.Key = unique_signatures.Key(
        x_imaginary=x_imaginary, x_real=x_real, y_imaginary=y_imaginary, y_real=y_real
    )
    owned: bytes32 = keccak256(abi_encode(chain.id, self, task, msg.sender))
    assert unique_signatures._is_signed(key, owned, x, y), "registry: key not proved"
    member.number = stage.members + 1
    member.reputation = FIRST_REPUTATION
    member.stake = msg.value
    self.members[task][msg.sender] = member
    self.keys[task][msg.sender] = key
    stage.members += 1
    stage.coins += member.coins
    stage.reputation += FIRST_REPUTATION
    # Every key goes into the seed, so that nobody knows it while keys can still be chosen.
    stage.seed = keccak256(abi_encode(stage.seed, msg.sender, x_imaginary, x_real, y_imaginary, y_real))
    self.stages[task] = stage
    log Joined(
        task=task,
        member=msg.sender,
        number=member.number,
        x_imaginary=x_imaginary,
        x_real=x_real,
        y_imaginary=y_imaginary,
        y_real=y_real,
    )

@external
def begin(task: bytes32, secret: bytes32):
    """
    @notice Ends joining and opens the first round. Only the poster may call.
    @param task The task.
    @param secret The word whose keccak256 was posted.
    """
    stage: Stage = self.stages[task]
    posted: Task = self.tasks[task]
    assert msg.sender == posted.poster, "registry: not the poster"
    assert stage.phase == Phase.JOINING, "registry: not joining"
    assert stage.members > 2 * posted.byzantine + 2, "registry: too few members"
    assert keccak256(secret) == posted.secret, "registry: another secret"
    stage.seed = keccak256(abi_encode(stage.seed, secret, block.prevrandao))
    stage.phase = Phase.SUBMITTING
    stage.round = 1
    stage.since = block.timestamp
    stage.awaited = stage.members
    self.stages[task] = stage
    log Begun(task=task, secret=secret, seed=stage.seed, members=stage.members, coins=stage.coins)

# ------------------------------------------------------------------ a round
@external
def submit(task: bytes32, round: uint256, model: bytes32, receipt: bytes32):
    """
    @notice Submits a member's model for the current round; the transaction's signature is the model's.
    @param task The task.
    @param round The round that it was trained for.
    @param model SHA-256 digest of the model.
    @param receipt Reservation of the member's privacy budget, where the terms ask for one.
    """
    stage: Stage = self.stages[task]
    assert stage.phase == Phase.SUBMITTING and stage.round == round, "registry: not submitting"
    member: Member = self.members[task][msg.sender]
    assert member.number > 0, "registry: not a member"
    assert member.last < round, "registry: submitted before"
    if member.last + 1 == round:
        stage.awaited -= 1
    self.members[task][msg.sender].last = round
    number: uint256 = stage.submitted
    self.submissions[task][round][number] = Submission(member=msg.sender, model=model, receipt=receipt)
    stage.submitted += 1
    self.stages[task] = stage
    log Submitted(task=task, round=round, member=msg.sender, number=number, model=model, receipt=receipt)
    if stage.awaited == 0 and stage.submitted > 2 * self.tasks[task].byzantine + 2:
        self._close(task, stage)

@external
def draw(task: bytes32, round: uint256, attempt: uint256, x: uint256, y: uint256):
    """
    @notice Shows a submitter's lot: its signature of the round's seed. Most lots win no seat.
    @param task The task.
    @param round The current round.
    @param attempt The current drawing.
    @param x Of the signature.
    @param y Of the signature.
    """
    stage: Stage = self.stages[task]
    assert stage.phase == Phase.DRAWING and stage.round == round and stage.attempt == attempt, "registry: not drawing"
    member: Member = self.members[task][msg.sender]
    assert member.last == round, "registry: has not submitted"
    place: bytes32 = keccak256(abi_encode(task, round, attempt))
    assert self.lots[place][msg.sender] == empty(bytes32), "registry: drawn before"
    message: bytes32 = keccak256(abi_encode(chain.id, self, task, round, attempt, stage.seed))
    assert unique_signatures._is_signed(self.keys[task][msg.sender], message, x, y), "registry: not its signature"
    lot: bytes32 = keccak256(abi_encode(x, y))
    won: uint256 = sortition._seats(lot, member.coins, self.tasks[task].seats, stage.coins)
    priority: uint256 = sortition._priority(lot, won)
    self.lots[place][msg.sender] = lot
    self.seats[place][msg.sender] = won
    committee: Committee = self.committees[place]
    committee.drawn += 1
    committee.seats += won
    if won > 0:
        self.candidates[place][committee.candidates] = Candidate(member=msg.sender, priority=priority)
        committee.candidates += 1
        if committee.leader == empty(address) or priority < committee.priority:
            committee.leader = msg.sender
            committee.priority = priority
    self.committees[place] = committee
    log Drawn(
        task=task, round=round, member=msg.sender, attempt=attempt, x=x, y=y, seats=won, priority=priority
    )
    if committee.drawn == stage.submitted:
        self._seat(task, stage, place)

@external
def propose(task: bytes32, round: uint256, model: bytes32, verdicts: uint256):
    """
    @notice Proposes the round's average and verdicts. Only the leader may call, once.
    @param task The task.
    @param round The current round.
    @param model SHA-256 digest of the average of the accepted models.
    @param verdicts Four bits a submission, the first lowest: accepted, outlier, missing, malformed.
    """
    stage: Stage = self.stages[task]
    assert stage.phase == Phase.VOTING and stage.round == round, "registry: not voting"
    place: bytes32 = keccak256(abi_encode(task, round, stage.attempt))
    committee: Committee = self.committees[place]
    assert msg.sender == committee.leader, "registry: not the leader"
    assert self.proposals[place].id == empty(bytes32), "registry: proposed before"
    self._check_verdicts(verdicts, stage.submitted, self.tasks[task].byzantine)
    id: bytes32 = keccak256(abi_encode(place, msg.sender, model, verdicts))
    self.proposals[place] = Proposal(id=id, model=model, verdicts=verdicts, agreed=0, opposed=0)
    log Proposed(task=task, round=round, leader=msg.sender, id=id, model=model, verdicts=verdicts)
    self._count(task, stage, place, True)

@external
def vote(task: bytes32, id: bytes32, agrees: bool):
    """
    @notice Agrees with the leader's proposal or opposes it. Only the committee may call, each once.
    @param task The task.
    @param id The proposal.
    @param agrees Whether the voter found the same verdicts and the same average.
    """
    stage: Stage = self.stages[task]
    assert stage.phase == Phase.VOTING, "registry: not voting"
    place: bytes32 = keccak256(abi_encode(task, stage.round, stage.attempt))
    assert id != empty(bytes32) and self.proposals[place].id == id, "registry: no such proposal"
    assert self.seats[place][msg.sender] > 0, "registry: no seat"
    assert not self.voted[id][msg.sender], "registry: voted before"
    self._count(task, stage, place, agrees)

@external
def move_on(task: bytes32):
    """
    @notice Ends the wait for whoever is late, once the task's patience has run out. Anybody may call.
    @param task The task.
    """
    stage: Stage = self.stages[task]
    posted: Task = self.tasks[task]
    assert posted.patience > 0, "registry: no such task"
    assert block.timestamp >= stage.since + posted.patience, "registry: not late yet"
    place: bytes32 = keccak256(abi_encode(task, stage.round, stage.attempt))
    if stage.phase == Phase.SUBMITTING:
        assert stage.submitted > 2 * posted.byzantine + 2, "registry: too few submissions"
        self._close(task, stage)
    elif stage.phase == Phase.DRAWING:
        self._seat(task, stage, place)
    else:
        assert stage.phase == Phase.VOTING, "registry: nothing to wait for"
        self._depose(task, stage, place, False)

@external
def cancel(task: bytes32):
    """
    @notice Ends a task that does not get on. Only the poster may call, once patience has run out.
    @param task The task.
    """
    stage: Stage = self.stages[task]
    posted: Task = self.tasks[task]
    assert msg.sender == posted.poster, "registry: not the poster"
    assert stage.phase != Phase.FINISHED, "registry: finished"
    assert block.timestamp >= stage.since + posted.patience, "registry: not late yet"
    finished: uint256 = 0
    if stage.round > 0:
        finished = stage.round - 1
    stage.phase = Phase.FINISHED
    self.stages[task] = stage
    log TaskFinished(task=task, rounds=finished)

@external
def settle(task: bytes32, member: address):
    """
    @notice Returns a member's stake after the task, or gives it to the poster if no reputation is left.
    @param task The task.
    @param member The member.
    """
    assert self.stages[task].phase == Phase.FINISHED, "registry: not finished"
    held: Member = self.members[task][member]
    assert held.stake > 0, "registry: no stake"
    self.members[task][member].stake = 0
    to: address = member if held.reputation > 0 else self.tasks[task].poster
    log StakeSettled(task=task, member=member, to=to, amount=held.stake)
    send(to, held.stake)   # last: nothing is left to be called again for

# ------------------------------------------------------------------ reading
@external
@view
def lot_message(task: bytes32, round: uint256, attempt: uint256) -> bytes32:
    """
    @notice What a lot of the current round signs.
    @param task The task.
    @param round The current round.
    @param attempt The drawing.
    @return The message.
    """
    return keccak256(abi_encode(chain.id, self, task, round, attempt, self.stages[task].seed))

@external
@view
def place(task: bytes32, round: uint256, attempt: uint256) -> bytes32:
    """
    @notice The key of a drawing in the maps of committees, candidates, lots, seats and proposals.
    @param task The task.
    @param round The round.
    @param attempt The drawing.
    @return The key.
    """
    return keccak256(abi_encode(task, round, attempt))

# ------------------------------------------------------------------ parts
@internal
def _close(task: bytes32, before: Stage):
    """
    @dev No more models; lots are drawn.
    """
    stage: Stage = before
    stage.phase = Phase.DRAWING
    stage.attempt = 1
    stage.since = block.timestamp
    self.stages[task] = stage
    log Closed(task=task, round=stage.round, attempt=1, submitted=stage.submitted)

@internal
def _seat(task: bytes32, before: Stage, place: bytes32):
    """
    @dev The committee is complete. If nobody won a seat, lots are drawn again.
    """
    stage: Stage = before
    committee: Committee = self.committees[place]
    stage.since = block.timestamp
    if committee.candidates == 0:
        stage.attempt += 1
        self.stages[task] = stage
        log Closed(task=task, round=stage.round, attempt=stage.attempt, submitted=stage.submitted)
    else:
        stage.phase = Phase.VOTING
        self.stages[task] = stage
        log Seated(
            task=task, round=stage.round, attempt=stage.attempt, leader=committee.leader, seats=committee.seats
        )

@internal
@pure
def _check_verdicts(verdicts: uint256, submitted: uint256, byzantine: uint256):
    """
    @dev One verdict for each submission and none beyond. Whoever is caught with a missing or malformed
         model is one of the f that may be malicious; of the others Multi-KRUM keeps all but the rest of f.
    """
    caught: uint256 = 0
    accepted: uint256 = 0
    left: uint256 = verdicts
    for i: uint256 in range(submitted, bound=MAX_MEMBERS):
        verdict: uint256 = left & 15
        assert verdict >= ACCEPTED and verdict <= MALFORMED, "registry: no such verdict"
        if verdict == ACCEPTED:
            accepted += 1
        elif verdict != OUTLIER:
            caught += 1
        left = left >> 4
    assert left == 0, "registry: too many verdicts"
    suspected: uint256 = 0
    if byzantine > caught:
        suspected = byzantine - caught
    assert accepted + caught + suspected == submitted, "registry: number of accepted"

@internal
def _count(task: bytes32, stage: Stage, place: bytes32, agrees: bool):
    """
    @dev Counts the sender's seats, and does what follows.
    """
    proposal: Proposal = self.proposals[place]
    own: uint256 = self.seats[place][msg.sender]
    self.voted[proposal.id][msg.sender] = True
    if agrees:
        proposal.agreed += own
    else:
        proposal.opposed += own
    self.proposals[place] = proposal
    log Voted(task=task, round=stage.round, member=msg.sender, id=proposal.id, agrees=agrees, seats=own)
    all_seats: uint256 = self.committees[place].seats
    assert proposal.agreed + proposal.opposed <= all_seats, "registry: invariant"
    if 3 * proposal.agreed > 2 * all_seats:
        self._finish_round(task, stage, place, proposal)
    elif 3 * proposal.opposed >= all_seats:
        self._depose(task, stage, place, True)

@internal
def _depose(task: bytes32, before: Stage, place: bytes32, outvoted: bool):
    """
    @dev The next candidate by priority leads. After the last one lots are drawn again.
    """
    stage: Stage = before
    committee: Committee = self.committees[place]
    log LeaderDeposed(
        task=task, round=stage.round, leader=committee.leader, outvoted=outvoted, id=self.proposals[place].id
    )
    self.proposals[place] = empty(Proposal)
    next: Candidate = Candidate(member=empty(address), priority=max_value(uint256))
    for i: uint256 in range(committee.candidates, bound=MAX_MEMBERS):
        candidate: Candidate = self.candidates[place][i]
        if candidate.priority > committee.priority and candidate.priority <= next.priority:
            next = candidate
    stage.since = block.timestamp
    if next.member == empty(address):
        stage.phase = Phase.DRAWING
        stage.attempt += 1
        self.stages[task] = stage
        log Closed(task=task, round=stage.round, attempt=stage.attempt, submitted=stage.submitted)
    else:
        committee.leader = next.member
        committee.priority = next.priority
        self.committees[place] = committee
        self.stages[task] = stage
        log Seated(
            task=task, round=stage.round, attempt=stage.attempt, leader=next.member, seats=committee.seats
        )

@internal
def _finish_round(task: bytes32, before: Stage, place: bytes32, proposal: Proposal):
    """
    @dev Pays, moves reputations, records the average, opens the next round.
    """
    stage: Stage = before
    posted: Task = self.tasks[task]
    average: uint256 = posted.norm
    if average == 0:
        average = stage.reputation // stage.members
    left: uint256 = proposal.verdicts
    for i: uint256 in range(stage.submitted, bound=MAX_MEMBERS):
        who: address = self.submissions[task][stage.round][i].member
        member: Member = self.members[task][who]
        accepted: bool = left & 15 == ACCEPTED
        reward: uint256 = 0
        if accepted:
            reward = member.reputation
        stage.reputation -= member.reputation
        member.reputation = self._moved(member.reputation, accepted, average, posted.printed)
        stage.reputation += member.reputation
        member.reward += reward
        self.members[task][who] = member
        log Judged(
            task=task,
            round=stage.round,
            member=who,
            verdict=left & 15,
            reputation=member.reputation,
            reward=reward,
        )
        left = left >> 4
    self.models[task][stage.round] = proposal.model
    # The leader's lot could not be chosen: the next seed is as unforeseeable as the leader.
    stage.seed = keccak256(abi_encode(stage.seed, self.lots[place][self.committees[place].leader]))
    log RoundFinished(
        task=task,
        round=stage.round,
        model=proposal.model,
        verdicts=proposal.verdicts,
        average=average,
        seed=stage.seed,
    )
    if stage.round == posted.rounds:
        stage.phase = Phase.FINISHED
        log TaskFinished(task=task, rounds=stage.round)
    else:
        stage.phase = Phase.SUBMITTING
        stage.round += 1
        stage.awaited = stage.submitted
        stage.submitted = 0
    stage.attempt = 0
    stage.since = block.timestamp
    self.stages[task] = stage

@internal
@pure
def _moved(reputation: uint256, accepted: bool, average: uint256, printed: bool) -> uint256:
    """
    @dev Equation 5.2 of the paper. As printed, whoever is below the average gains whatever is submitted;
         repaired, only by an accepted model.
    """
    if accepted or (printed and reputation < average):
        return min(MAX_REPUTATION, reputation + 1)
    if reputation > average:
        return reputation - 1
    if reputation == average:
        return 0
    return reputation

# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Budget ledger: decides and records every spend of privacy before the data is touched
@license Apache-2.0
@author noisebank
@notice An account is one data set with a budget. Its owner opens it, its curator reserves
        precision for measurements and publishes a salted digest of each sealed answer.
        All amounts are integers of 1e-18 precision (Delta^2/sigma^2, additive).
@dev    The contract never sees a query, an answer or a data set, only salted digests. It makes
        no external call, holds no ether and cannot be upgraded. Every function checks, writes,
        re-checks the invariant `spent <= budget`, then logs in the past tense.
"""

# ------------------------------------------------------------------ cases
flag Case:
    FIRST     # nothing recorded for this query yet: all of `wanted` is fresh
    REPEAT    # an equal record exists: nothing is fresh
    REFINE    # the best record is worse than wanted: only the difference is fresh
    BLUR      # a better record exists: nothing is fresh

# ------------------------------------------------------------------ constants
# The proof that discrete noise composes like Gaussian noise counts measurements: docs/proofs.
MAX_MEASUREMENTS: public(constant(uint256)) = 2 ** 20
# A raise that nobody finishes does not hang over the people in the data for ever.
RAISE_WINDOW: public(constant(uint256)) = 7 * 86400
MAX_RAISE_DELAY: public(constant(uint256)) = 365 * 86400
# Keeps every sum far from overflow, so that no check depends on wrap-around.
MAX_BUDGET: public(constant(uint256)) = 2 ** 96

# ------------------------------------------------------------------ state
struct Account:
    owner: address
    curator: address
    budget: uint256
    spent: uint256
    measurements: uint256
    policy: bytes32        # digest of the public policy
    data: bytes32          # salted commitment to the data set
    raise_delay: uint256   # seconds between the proposal and the effect of a raise

struct PendingRaise:
    budget: uint256        # 0: no raise is pending
    ready: uint256         # from this time on it may be finished,
    expires: uint256       # before this time

struct Record:
    precision: uint256
    id: bytes32            # the reservation that paid for it

struct Reservation:
    account: bytes32       # empty: no such reservation
    published: bool

accounts: public(HashMap[bytes32, Account])
opened_by: public(HashMap[address, uint256])
pending_raise: public(HashMap[bytes32, PendingRaise])
pending_owner: public(HashMap[bytes32, address])
pending_curator: public(HashMap[bytes32, address])
reservations: public(HashMap[bytes32, Reservation])
# Per account and query: records of strictly rising precision, [0, record_count).
record_count: public(HashMap[bytes32, HashMap[bytes32, uint256]])
records: public(HashMap[bytes32, HashMap[bytes32, HashMap[uint256, Record]]])

# ------------------------------------------------------------------ events
event AccountOpened:
    account: indexed(bytes32)
    owner: address
    curator: address
    budget: uint256
    policy: bytes32
    data: bytes32
    raise_delay: uint256

event Reserved:
    account: indexed(bytes32)
    id: indexed(bytes32)
    query: bytes32
    analyst: bytes32
    about: uint256
    case: Case
    wanted: uint256
    fresh: uint256
    reused: bytes32
    spent: uint256

event Published:
    account: indexed(bytes32)
    id: indexed(bytes32)
    answer: bytes32

event BudgetLowered:
    account: indexed(bytes32)
    budget: uint256

event RaiseProposed:
    account: indexed(bytes32)
    budget: uint256
    ready: uint256
    expires: uint256

event BudgetRaised:
    account: indexed(bytes32)
    budget: uint256

event OwnerProposed:
    account: indexed(bytes32)
    owner: address

event OwnerChanged:
    account: indexed(bytes32)
    owner: address

event CuratorProposed:
    account: indexed(bytes32)
    curator: address

event CuratorChanged:
    account: indexed(bytes32)
    curator: address

# ------------------------------------------------------------------ opening
@external
def open_account(curator: address, budget: uint256, policy: bytes32, data: bytes32, raise_delay: uint256) -> bytes32:
    """
    @notice Opens an account owned by the sender.
    @param curator Who may reserve and publish.
    @param budget Units of precision that may ever be spent.
    @param policy Digest of the public policy.
    @param data Salted commitment to the data set; the owner can open it.
    @param raise_delay Seconds a raise of the budget stays public before it takes effect.
    @return The account's id, unique over chains, contracts and owners.
    """
    assert curator != empty(address), "ledger: no curator"
    assert budget > 0, "ledger: budget of zero"
    assert budget <= MAX_BUDGET, "ledger: budget too large"
    assert raise_delay <= MAX_RAISE_DELAY, "ledger: delay too long"
    nonce: uint256 = self.opened_by[msg.sender]
    account: bytes32 = keccak256(abi_encode(chain.id, self, msg.sender, nonce))
    self.opened_by[msg.sender] = nonce + 1
    self.accounts[account] = Account(
        owner=msg.sender,
        curator=curator,
        budget=budget,
        spent=0,
        measurements=0,
        policy=policy,
        data=data,
        raise_delay=raise_delay,
    )
    log AccountOpened(
        account=account,
        owner=msg.sender,
        curator=curator,
        budget=budget,
        policy=policy,
        data=data,
        raise_delay=raise_delay,
    )
    return account

# ------------------------------------------------------------------ spending
@external
def reserve(
    account: bytes32,
    id: bytes32,
    query: bytes32,
    analyst: bytes32,
    about: uint256,
    wanted: uint256,
    limit: uint256,
) -> (Case, uint256, bytes32):
    """
    @notice Decides one request and charges what is fresh in it. Only the curator may call.
    @dev A refusal reverts: it changes nothing. Only FIRST and REFINE store a record, so the
         records of a query rise strictly and a binary search finds the one to reuse.
    @param account The account to charge.
    @param id The reservation's id, never used before.
    @param query Salted digest of the canonical query.
    @param analyst Salted digest of who asked.
    @param about Public byte: the function, and whether a part of the table was asked about.
    @param wanted Units of precision that the answer shall have.
    @param limit The most that may be charged: what the asker was quoted.
    @return The case, the fresh precision charged, and the reservation whose answer is reused.
    """
    assert msg.sender == self.accounts[account].curator, "ledger: not the curator"
    assert self.reservations[id].account == empty(bytes32), "ledger: id already used"
    assert wanted > 0, "ledger: nothing wanted"
    assert wanted <= MAX_BUDGET, "ledger: too much wanted"
    assert about < 256, "ledger: about is one byte"
    self.reservations[id].account = account

    count: uint256 = self.record_count[account][query]
    best: Record = empty(Record)
    if count > 0:
        best = self.records[account][query][count - 1]

    case: Case = Case.FIRST
    fresh: uint256 = 0
    reused: bytes32 = empty(bytes32)
    spent: uint256 = self.accounts[account].spent

    if wanted > best.precision:
        if count > 0:
            case = Case.REFINE
            reused = best.id
        fresh = wanted - best.precision
        assert fresh <= limit, "ledger: price above limit"
        spent += fresh
        assert spent <= self.accounts[account].budget, "ledger: budget exhausted"
        measurements: uint256 = self.accounts[account].measurements + 1
        assert measurements <= MAX_MEASUREMENTS, "ledger: too many measurements"
        self.accounts[account].measurements = measurements
        self.accounts[account].spent = spent
        self.records[account][query][count] = Record(precision=wanted, id=id)
        self.record_count[account][query] = count + 1
    else:
        found: Record = self._smallest_record_reaching(account, query, count, wanted)
        case = Case.REPEAT if found.precision == wanted else Case.BLUR
        reused = found.id

    assert self.accounts[account].spent <= self.accounts[account].budget, "ledger: invariant"
    log Reserved(
        account=account,
        id=id,
        query=query,
        analyst=analyst,
        about=about,
        case=case,
        wanted=wanted,
        fresh=fresh,
        reused=reused,
        spent=spent,
    )
    return case, fresh, reused

@internal
@view
def _smallest_record_reaching(account: bytes32, query: bytes32, count: uint256, wanted: uint256) -> Record:
    """
    @dev Binary search for the first record with precision >= wanted. Requires that the last of
         `count` records reaches it. 21 halvings suffice: count <= MAX_MEASUREMENTS.
    """
    low: uint256 = 0
    high: uint256 = count - 1
    for _: uint256 in range(21):
        if low >= high:
            break
        middle: uint256 = (low + high) // 2
        if self.records[account][query][middle].precision >= wanted:
            high = middle
        else:
            low = middle + 1
    return self.records[account][query][high]

@external
def publish(account: bytes32, id: bytes32, answer: bytes32):
    """
    @notice Pins the salted digest of the sealed answer of a reservation, once.
    @param account The account that was charged.
    @param id The reservation.
    @param answer Salted digest of the answer.
    """
    assert msg.sender == self.accounts[account].curator, "ledger: not the curator"
    assert self.reservations[id].account == account, "ledger: no such reservation"
    assert not self.reservations[id].published, "ledger: already published"
    assert answer != empty(bytes32), "ledger: no answer"
    self.reservations[id].published = True
    log Published(account=account, id=id, answer=answer)

# ------------------------------------------------------------------ budget
@external
def lower_budget(account: bytes32, budget: uint256):
    """
    @notice Lowers the budget at once, never below what is spent, and cancels a pending raise.
    @param account The account.
    @param budget The new, smaller budget.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    assert budget < self.accounts[account].budget, "ledger: not lower"
    assert budget >= self.accounts[account].spent, "ledger: below what is spent"
    self.accounts[account].budget = budget
    self.pending_raise[account] = empty(PendingRaise)
    assert self.accounts[account].spent <= self.accounts[account].budget, "ledger: invariant"
    log BudgetLowered(account=account, budget=budget)

@external
def propose_raise(account: bytes32, budget: uint256):
    """
    @notice Announces a raise. It may be finished after the account's delay, for a week.
    @param account The account.
    @param budget The new, larger budget.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    assert budget > self.accounts[account].budget, "ledger: not higher"
    assert budget <= MAX_BUDGET, "ledger: budget too large"
    ready: uint256 = block.timestamp + self.accounts[account].raise_delay
    self.pending_raise[account] = PendingRaise(budget=budget, ready=ready, expires=ready + RAISE_WINDOW)
    log RaiseProposed(account=account, budget=budget, ready=ready, expires=ready + RAISE_WINDOW)

@external
def finish_raise(account: bytes32):
    """
    @notice Puts an announced raise into effect, inside its window.
    @param account The account.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    pending: PendingRaise = self.pending_raise[account]
    assert pending.budget > self.accounts[account].budget, "ledger: no raise pending"
    assert block.timestamp >= pending.ready, "ledger: raise not ready"
    assert block.timestamp < pending.expires, "ledger: raise expired"
    self.accounts[account].budget = pending.budget
    self.pending_raise[account] = empty(PendingRaise)
    log BudgetRaised(account=account, budget=pending.budget)

# ------------------------------------------------------------------ roles
@external
def propose_owner(account: bytes32, owner: address):
    """
    @notice First half of a hand-over: names the next owner, who must accept.
    @param account The account.
    @param owner The next owner; the empty address withdraws the proposal.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    self.pending_owner[account] = owner
    log OwnerProposed(account=account, owner=owner)

@external
def accept_owner(account: bytes32):
    """
    @notice Second half of a hand-over. A pending raise or curator of the old owner is dropped.
    @param account The account.
    """
    assert msg.sender == self.pending_owner[account], "ledger: not proposed"
    self.pending_owner[account] = empty(address)
    self.pending_curator[account] = empty(address)
    self.pending_raise[account] = empty(PendingRaise)
    self.accounts[account].owner = msg.sender
    log OwnerChanged(account=account, owner=msg.sender)

@external
def propose_curator(account: bytes32, curator: address):
    """
    @notice Names the next curator, who must accept.
    @param account The account.
    @param curator The next curator; the empty address withdraws the proposal.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    self.pending_curator[account] = curator
    log CuratorProposed(account=account, curator=curator)

@external
def accept_curator(account: bytes32):
    """
    @notice Takes over as curator; the old one can no longer reserve.
    @param account The account.
    """
    assert msg.sender == self.pending_curator[account], "ledger: not proposed"
    self.pending_curator[account] = empty(address)
    self.accounts[account].curator = msg.sender
    log CuratorChanged(account=account, curator=msg.sender)

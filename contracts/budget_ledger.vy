# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Budget ledger: decides and records every spend of privacy before the data is touched
@license Apache-2.0
@author noisebank
@notice An account is one data set with a budget. Its owner opens it, its curator reserves
        precision for measurements and publishes a salted digest of each sealed answer.
        All amounts are integers of 1e-18 of the account's unit: precision (Delta^2/sigma^2) or
        pure epsilon. Both add up; an account has one of them, fixed when it opens.
@dev    The contract never sees a query, an answer or a data set, only salted digests. It calls no
        other contract (batches call this one, so that a refused group leaves nothing behind),
        holds no ether and cannot be upgraded. Every function checks, writes, re-checks the
        invariant `spent <= budget`, then logs in the past tense.
"""

import cell_tree
import packing
initializes: cell_tree

# ------------------------------------------------------------------ kinds
flag Unit:
    PRECISION
    EPSILON

flag Case:
    FIRST     # nothing recorded for this query yet: all of `wanted` is fresh
    REPEAT    # an equal record exists: nothing is fresh
    REFINE    # the best record is worse than wanted: only the difference is fresh
    BLUR      # a better record exists: nothing is fresh
    INFER     # a function of what a cube already knows: nothing is measured

# ------------------------------------------------------------------ constants
# The proof that discrete noise composes like Gaussian noise counts measurements: docs/proofs.
MAX_MEASUREMENTS: public(constant(uint256)) = 2 ** 20
# A raise that nobody finishes does not hang over the people in the data for ever.
RAISE_WINDOW: public(constant(uint256)) = 7 * 86400
MAX_RAISE_DELAY: public(constant(uint256)) = 365 * 86400
# Amounts fit 96 bits: far from overflow, so that no check depends on wrap-around.
MAX_BUDGET: public(constant(uint256)) = 2 ** 96 - 1
MAX_CELLS: public(constant(uint256)) = 2 ** 20
MAX_CUBES: public(constant(uint256)) = 255
MAX_VERSIONS: public(constant(uint256)) = 2 ** 32 - 1
# A run of this weight is charged what is fresh. Other weights are squared coefficients.
WHOLE_WEIGHT: public(constant(uint256)) = 2 ** 32
MAX_WEIGHT: public(constant(uint256)) = 2 ** 64
MAX_PARTS: constant(uint256) = 16     # claims of one group, runs of one group
MAX_BATCH: constant(uint256) = 128    # claims of one batch, runs of one batch

# ------------------------------------------------------------------ state
struct Account:
    owner: address
    unit: Unit
    policy: bytes32        # digest of the public policy
    data: bytes32          # salted commitment to the data set
    raise_delay: uint256   # seconds between the proposal and the effect of a raise

struct PendingRaise:
    budget: uint256        # 0: no raise is pending
    ready: uint256         # from this time on it may be finished,
    expires: uint256       # before this time

struct Run:
    start: uint256         # cells [start, stop) of the claim's cube
    stop: uint256
    weight: uint256

struct Claim:
    id: bytes32            # the reservation's id, never used before
    query: bytes32         # salted digest of the canonical query
    analyst: bytes32       # salted digest of who asks; empty: the owner
    about: uint256         # public byte: the function, and whether a part of the table was asked about
    cube: uint256          # 0: plain reuse
    wanted: uint256        # the precision that all records of this query shall have together
    limit: uint256         # the most that may be charged: what the asker was quoted
    runs: uint256          # how many of the call's runs, from where the last claim's end, are this one's
    last: bool             # in a batch: the last claim of its group

struct Seal:
    id: bytes32            # the reservation
    answer: bytes32        # salted digest of its sealed answer
    last: bool             # in a batch: the last seal of its group

accounts: public(HashMap[bytes32, Account])
opened_by: public(HashMap[address, uint256])
pending_raise: public(HashMap[bytes32, PendingRaise])
pending_owner: public(HashMap[bytes32, address])
pending_curator: public(HashMap[bytes32, address])
# Per account and cube: its number of cells, for ever.
cells_of: public(HashMap[bytes32, HashMap[uint256, uint256]])
# Per account and public byte: what was charged under it.
spent_on: public(HashMap[bytes32, HashMap[uint256, uint256]])
# Per account and reservation: twice the version, plus one once published; 0: none.
reservations: public(HashMap[bytes32, HashMap[bytes32, uint256]])

# Packed: per account curator, version, cubes and pause; budget, spend and number of measurements;
# per account and analyst limit and use.
_desks: HashMap[bytes32, uint256]
_moneys: HashMap[bytes32, uint256]
_views: HashMap[bytes32, HashMap[bytes32, uint256]]

# The maps below are keyed by digests that name account and version, so that a new version starts
# empty. Per query: its number of records and the precision of the best, 96 bits.
_records: HashMap[bytes32, uint256]
# Per query: the precisions of all records but the best, strictly rising.
_older: HashMap[bytes32, HashMap[uint256, uint256]]
# Per cube: its largest cell.
_largest: HashMap[bytes32, uint256]
# Per analyst and query or cube: what was delivered.
_seen: HashMap[bytes32, uint256]

# ------------------------------------------------------------------ events
event AccountOpened:
    account: indexed(bytes32)
    owner: address
    curator: address
    unit: Unit
    budget: uint256
    policy: bytes32
    data: bytes32
    raise_delay: uint256

event CubeAdded:
    account: indexed(bytes32)
    cube: uint256
    cells: uint256

event VersionOpened:
    account: indexed(bytes32)
    version: uint256
    policy: bytes32
    data: bytes32
    base: uint256

event LimitSet:
    account: indexed(bytes32)
    analyst: bytes32
    limit: uint256

event Reserved:
    account: indexed(bytes32)
    id: indexed(bytes32)
    query: bytes32
    analyst: bytes32
    about: uint256
    cube: uint256
    case: Case
    wanted: uint256
    fresh: uint256
    reused: uint256        # which record of the query, counted from 1; 0: none
    spent: uint256         # by the account, after this
    used: uint256          # by the analyst's view, after this
    runs: DynArray[Run, MAX_PARTS]

event Published:
    account: indexed(bytes32)
    id: indexed(bytes32)
    answer: bytes32

event GroupRefused:
    account: indexed(bytes32)
    id: indexed(bytes32)   # of the group's first part
    reason: String[32]

event Paused:
    account: indexed(bytes32)

event Resumed:
    account: indexed(bytes32)

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
def open_account(
    curator: address, unit: Unit, budget: uint256, policy: bytes32, data: bytes32, raise_delay: uint256
) -> bytes32:
    """
    @notice Opens an account owned by the sender.
    @param curator Who may reserve and publish.
    @param unit What is spent: precision, or pure epsilon. It never changes.
    @param budget How much of it, in units of 1e-18, may ever be spent.
    @param policy Digest of the public policy.
    @param data Salted commitment to the data set; the owner can open it.
    @param raise_delay Seconds a raise of the budget stays public before it takes effect.
    @return The account's id, unique over chains, contracts and owners.
    """
    assert curator != empty(address), "ledger: no curator"
    assert unit == Unit.PRECISION or unit == Unit.EPSILON, "ledger: no such unit"
    assert budget > 0, "ledger: budget of zero"
    assert budget <= MAX_BUDGET, "ledger: budget too large"
    assert raise_delay <= MAX_RAISE_DELAY, "ledger: delay too long"
    nonce: uint256 = self.opened_by[msg.sender]
    account: bytes32 = keccak256(abi_encode(chain.id, self, msg.sender, nonce))
    self.opened_by[msg.sender] = nonce + 1
    self.accounts[account] = Account(
        owner=msg.sender, unit=unit, policy=policy, data=data, raise_delay=raise_delay
    )
    self._desks[account] = packing._desk_word(packing.Desk(curator=curator, version=1, cubes=0, paused=False))
    self._moneys[account] = packing._money_word(packing.Money(budget=budget, spent=0, measurements=0))
    log AccountOpened(
        account=account,
        owner=msg.sender,
        curator=curator,
        unit=unit,
        budget=budget,
        policy=policy,
        data=data,
        raise_delay=raise_delay,
    )
    return account

@external
def add_cube(account: bytes32, cells: uint256) -> uint256:
    """
    @notice Declares the next cube. Its size never changes.
    @param account The account.
    @param cells How many cells it has: a power of two.
    @return The cube's number, from 1.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    assert cells > 0 and cells & (cells - 1) == 0, "ledger: cells not a power of two"
    assert cells <= MAX_CELLS, "ledger: too many cells"
    desk: packing.Desk = packing._desk(self._desks[account])
    assert desk.cubes < MAX_CUBES, "ledger: too many cubes"
    desk.cubes += 1
    self._desks[account] = packing._desk_word(desk)
    self.cells_of[account][desk.cubes] = cells
    log CubeAdded(account=account, cube=desk.cubes, cells=cells)
    return desk.cubes

@external
def open_version(account: bytes32, policy: bytes32, data: bytes32):
    """
    @notice Opens the next version of the account's table. What is spent stays spent: people stay in
            the table. Earlier answers are not reused, open reservations are burnt.
    @param account The account.
    @param policy Digest of the public policy of the changed table.
    @param data Salted commitment to the changed table.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    desk: packing.Desk = packing._desk(self._desks[account])
    assert desk.version < MAX_VERSIONS, "ledger: too many versions"
    desk.version += 1
    self._desks[account] = packing._desk_word(desk)
    self.accounts[account].policy = policy
    self.accounts[account].data = data
    base: uint256 = packing._money(self._moneys[account]).spent
    log VersionOpened(account=account, version=desk.version, policy=policy, data=data, base=base)

@external
def set_limit(account: bytes32, analyst: bytes32, limit: uint256):
    """
    @notice Sets how much one analyst may learn. The account's budget bounds all of them together.
    @param account The account.
    @param analyst Salted digest of the analyst.
    @param limit The new limit, not below what the analyst has learned; that much: no more.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    assert analyst != empty(bytes32), "ledger: no analyst"
    assert limit <= MAX_BUDGET, "ledger: limit too large"
    shown: packing.View = packing._view(self._views[account][analyst])
    assert limit >= shown.used, "ledger: below what is used"
    self._views[account][analyst] = packing._view_word(packing.View(limit=limit, used=shown.used))
    log LimitSet(account=account, analyst=analyst, limit=limit)

# ------------------------------------------------------------------ spending
@external
def reserve(account: bytes32, claims: DynArray[Claim, MAX_PARTS], runs: DynArray[Run, MAX_PARTS]):
    """
    @notice Decides a group of claims and charges what is fresh in them: all of it or nothing.
            Only the curator may call.
    @dev A refusal reverts: it changes nothing. REPEAT leaves a log and no id: its answer is the
         recorded one, published already, and asking twice charges nothing twice.
    @param account The account to charge.
    @param claims The group, decided in order.
    @param runs The runs of all claims with a cube, in the claims' order.
    """
    # A batch calls this function of its own contract, after it has checked its own sender.
    desk: packing.Desk = packing._desk(self._desks[account])
    assert msg.sender == desk.curator or msg.sender == self, "ledger: not the curator"
    assert not desk.paused, "ledger: paused"
    assert len(claims) > 0, "ledger: nothing claimed"
    used_runs: uint256 = 0
    for claim: Claim in claims:
        assert claim.runs <= MAX_PARTS and used_runs + claim.runs <= len(runs), "ledger: runs missing"
        own: DynArray[Run, MAX_PARTS] = []
        for i: uint256 in range(claim.runs, bound=MAX_PARTS):
            own.append(runs[used_runs + i])
        used_runs += claim.runs
        self._reserve(account, desk, claim, own)
    assert used_runs == len(runs), "ledger: runs left over"

@external
def reserve_many(account: bytes32, claims: DynArray[Claim, MAX_BATCH], runs: DynArray[Run, MAX_BATCH]):
    """
    @notice Decides many groups in order, each on its own: a refused one leaves an event and nothing
            else. Only the curator may call.
    @param account The account to charge.
    @param claims The groups, one after the other; `last` ends each.
    @param runs The runs of all claims with a cube, in the claims' order.
    """
    assert msg.sender == packing._desk(self._desks[account]).curator, "ledger: not the curator"
    group: DynArray[Claim, MAX_PARTS] = []
    its_runs: DynArray[Run, MAX_PARTS] = []
    used_runs: uint256 = 0
    for claim: Claim in claims:
        assert len(group) < MAX_PARTS, "ledger: group too large"
        assert claim.runs <= MAX_PARTS and len(its_runs) + claim.runs <= MAX_PARTS, "ledger: too many runs"
        assert used_runs + claim.runs <= len(runs), "ledger: runs missing"
        group.append(claim)
        for i: uint256 in range(claim.runs, bound=MAX_PARTS):
            its_runs.append(runs[used_runs + i])
        used_runs += claim.runs
        if claim.last:
            done: bool = False
            response: Bytes[100] = b""
            done, response = raw_call(
                self,
                abi_encode(account, group, its_runs, method_id=method_id(
                    "reserve(bytes32,(bytes32,bytes32,bytes32,uint256,uint256,uint256,uint256,uint256,bool)[],(uint256,uint256,uint256)[])"
                )),
                max_outsize=100,
                revert_on_failure=False,
            )
            if not done:
                log GroupRefused(account=account, id=group[0].id, reason=self._reason(response))
            group = []
            its_runs = []
    assert len(group) == 0, "ledger: group without an end"
    assert used_runs == len(runs), "ledger: runs left over"

@internal
def _reserve(account: bytes32, desk: packing.Desk, claim: Claim, runs: DynArray[Run, MAX_PARTS]):
    """
    @dev One claim: decide its case, charge, note what the analyst learns, record, log. Only FIRST
         and REFINE store a record, so the records of a query rise strictly and a binary search
         finds the one to reuse. `reused` of INFER is 0: it builds on the whole cube.
    """
    assert self.reservations[account][claim.id] == 0, "ledger: id already used"
    assert claim.wanted <= MAX_BUDGET, "ledger: too much wanted"
    assert claim.about < 256, "ledger: about is one byte"
    assert claim.cube <= desk.cubes, "ledger: undeclared cube"
    if claim.cube == 0 or claim.wanted == 0:
        assert len(runs) == 0, "ledger: runs without a cube"
    else:
        assert len(runs) > 0, "ledger: no runs"
    tree: bytes32 = keccak256(abi_encode(account, desk.version, claim.cube))
    query: bytes32 = keccak256(concat(tree, claim.query))
    if len(runs) > 0:
        query = keccak256(abi_encode(tree, claim.query, runs))
    packed: uint256 = self._records[query]
    best: uint256 = packed & MAX_BUDGET
    count: uint256 = packed >> 96

    case: Case = Case.FIRST
    fresh: uint256 = 0
    reused: uint256 = 0
    money: packing.Money = packing._money(self._moneys[account])

    if claim.wanted == 0:
        assert claim.cube > 0, "ledger: nothing wanted"
        case = Case.INFER
    elif claim.wanted > best:
        if count > 0:
            case = Case.REFINE
            reused = count
            self._older[query][count - 1] = best
        fresh = claim.wanted - best
        self._records[query] = ((count + 1) << 96) | claim.wanted
        money = self._charge(account, tree, claim, fresh, money, runs)
    else:
        found: uint256 = 0
        reused, found = self._smallest_record_reaching(query, count, best, claim.wanted)
        case = Case.REPEAT if found == claim.wanted else Case.BLUR

    used: uint256 = self._show(account, tree, claim)
    if case != Case.REPEAT:
        self.reservations[account][claim.id] = 2 * desk.version
    log Reserved(
        account=account,
        id=claim.id,
        query=claim.query,
        analyst=claim.analyst,
        about=claim.about,
        cube=claim.cube,
        case=case,
        wanted=claim.wanted,
        fresh=fresh,
        reused=reused,
        spent=money.spent,
        used=used,
        runs=runs,
    )

@internal
def _charge(
    account: bytes32,
    tree: bytes32,
    claim: Claim,
    fresh: uint256,
    money: packing.Money,
    runs: DynArray[Run, MAX_PARTS],
) -> packing.Money:
    """
    @dev Charges a measurement: in cube 0 what is fresh, elsewhere by how much the largest cell rises.
    @return The account's money after it.
    """
    cost: uint256 = fresh
    if claim.cube > 0:
        cost = self._charge_cells(tree, self.cells_of[account][claim.cube], fresh, runs)
        self._largest[tree] += cost
    assert cost <= claim.limit, "ledger: price above limit"
    after: packing.Money = packing.Money(
        budget=money.budget, spent=money.spent + cost, measurements=money.measurements + 1
    )
    assert after.spent <= after.budget, "ledger: budget exhausted"
    assert after.measurements <= MAX_MEASUREMENTS, "ledger: too many measurements"
    self._moneys[account] = packing._money_word(after)
    self.spent_on[account][claim.about] += cost
    written: packing.Money = packing._money(self._moneys[account])
    assert written.spent <= written.budget, "ledger: invariant"
    return written

@internal
def _charge_cells(tree: bytes32, cells: uint256, fresh: uint256, runs: DynArray[Run, MAX_PARTS]) -> uint256:
    """
    @dev Adds to every cell of the runs its weight's share of `fresh`, rounded up.
    @return By how much the largest cell rose.
    """
    rise: uint256 = 0
    free: uint256 = 0  # the first cell after the run before
    for run: Run in runs:
        assert run.start >= free, "ledger: runs overlap"
        assert run.start < run.stop, "ledger: empty run"
        assert run.stop <= cells, "ledger: run out of range"
        assert run.weight > 0 and run.weight <= MAX_WEIGHT, "ledger: weight out of range"
        free = run.stop
        share: uint256 = (fresh * run.weight + WHOLE_WEIGHT - 1) // WHOLE_WEIGHT
        rise += cell_tree._add(tree, cells, run.start, run.stop, share)
    return rise

@internal
def _show(account: bytes32, tree: bytes32, claim: Claim) -> uint256:
    """
    @dev Raises the analyst's view: in cube 0 to what is delivered for the query, elsewhere to the
         cube's largest cell, since an answer may draw on all of the cube. The owner's view needs no
         books: it never exceeds what the account has spent.
    @return What the view has used after it.
    """
    if claim.analyst == empty(bytes32):
        return 0
    shown: packing.View = packing._view(self._views[account][claim.analyst])
    assert shown.limit > 0, "ledger: analyst without a limit"
    entry: bytes32 = empty(bytes32)
    level: uint256 = claim.wanted
    if claim.cube == 0:
        entry = keccak256(abi_encode(tree, claim.analyst, claim.query))
    else:
        entry = keccak256(abi_encode(tree, claim.analyst))
        level = self._largest[tree]
    seen: uint256 = self._seen[entry]
    if level > seen:
        shown.used += level - seen
        assert shown.used <= shown.limit, "ledger: view exhausted"
        self._seen[entry] = level
        self._views[account][claim.analyst] = packing._view_word(shown)
    return shown.used

@internal
@view
def _smallest_record_reaching(query: bytes32, count: uint256, best: uint256, wanted: uint256) -> (uint256, uint256):
    """
    @dev Binary search for the first record with precision >= wanted. Requires best >= wanted, the
         last of `count` records. 20 halvings suffice: count <= MAX_MEASUREMENTS.
    @return Which record, counted from 1, and its precision.
    """
    low: uint256 = 1
    high: uint256 = count
    found: uint256 = best
    for _: uint256 in range(20):
        if low >= high:
            break
        middle: uint256 = (low + high) // 2
        precision: uint256 = self._older[query][middle - 1]
        if precision >= wanted:
            high = middle
            found = precision
        else:
            low = middle + 1
    return high, found

@external
def publish(account: bytes32, seals: DynArray[Seal, MAX_PARTS]):
    """
    @notice Pins the salted digests of sealed answers, each once: all of them or none.
    @param account The account that was charged.
    @param seals Reservations and digests.
    """
    desk: packing.Desk = packing._desk(self._desks[account])
    assert msg.sender == desk.curator or msg.sender == self, "ledger: not the curator"
    assert len(seals) > 0, "ledger: nothing published"
    for seal: Seal in seals:
        state: uint256 = self.reservations[account][seal.id]
        assert state > 0, "ledger: no such reservation"
        assert state // 2 == desk.version, "ledger: reservation burnt"
        assert state % 2 == 0, "ledger: already published"
        assert seal.answer != empty(bytes32), "ledger: no answer"
        self.reservations[account][seal.id] = state + 1
        log Published(account=account, id=seal.id, answer=seal.answer)

@external
def publish_many(account: bytes32, seals: DynArray[Seal, MAX_BATCH]):
    """
    @notice Publishes many groups, each on its own: a refused one leaves an event and nothing else.
    @param account The account that was charged.
    @param seals The groups, one after the other; `last` ends each.
    """
    assert msg.sender == packing._desk(self._desks[account]).curator, "ledger: not the curator"
    group: DynArray[Seal, MAX_PARTS] = []
    for seal: Seal in seals:
        assert len(group) < MAX_PARTS, "ledger: group too large"
        group.append(seal)
        if seal.last:
            done: bool = False
            response: Bytes[100] = b""
            done, response = raw_call(
                self,
                abi_encode(account, group, method_id=method_id("publish(bytes32,(bytes32,bytes32,bool)[])")),
                max_outsize=100,
                revert_on_failure=False,
            )
            if not done:
                log GroupRefused(account=account, id=group[0].id, reason=self._reason(response))
            group = []
    assert len(group) == 0, "ledger: group without an end"

@internal
@pure
def _reason(response: Bytes[100]) -> String[32]:
    """
    @dev The words of a refusal, at most 32 letters: Error(string) without its selector. Nothing if gas ran out.
    """
    if len(response) != 100:
        return ""
    return abi_decode(slice(response, 4, 96), String[32])

# ------------------------------------------------------------------ reading
@external
@view
def desk(account: bytes32) -> packing.Desk:
    """
    @notice Who reserves, and on what.
    @param account The account.
    @return Curator, version of the table, number of cubes, and whether it is paused.
    """
    return packing._desk(self._desks[account])

@external
@view
def money(account: bytes32) -> packing.Money:
    """
    @notice The balance.
    @param account The account.
    @return Budget, what is spent, and the number of measurements.
    """
    return packing._money(self._moneys[account])

@external
@view
def view_of(account: bytes32, analyst: bytes32) -> packing.View:
    """
    @notice What one analyst may learn, and has learned.
    @param account The account.
    @param analyst Salted digest of the analyst.
    @return Limit and use.
    """
    return packing._view(self._views[account][analyst])

@external
@view
def balance_on(account: bytes32, about: uint256) -> (uint256, uint256, uint256):
    """
    @notice P3's verification query: total, used under one public byte, and what remains for all.
    @param account The account.
    @param about The public byte.
    @return The budget, what was charged under this byte, and what may still be spent.
    """
    money: packing.Money = packing._money(self._moneys[account])
    return money.budget, self.spent_on[account][about], money.budget - money.spent

@external
@view
def largest_cell(account: bytes32, cube: uint256) -> uint256:
    """
    @notice What a cube has spent in this version: its largest cell.
    @param account The account.
    @param cube The cube, from 1.
    @return Units spent.
    """
    return self._largest[keccak256(abi_encode(account, packing._desk(self._desks[account]).version, cube))]

@external
@view
def cell(account: bytes32, cube: uint256, place: uint256) -> uint256:
    """
    @notice What one cell of a cube has been charged in this version.
    @param account The account.
    @param cube The cube, from 1.
    @param place The cell.
    @return Units charged.
    """
    cells: uint256 = self.cells_of[account][cube]
    assert place < cells, "ledger: no such cell"
    tree: bytes32 = keccak256(abi_encode(account, packing._desk(self._desks[account]).version, cube))
    return cell_tree._cell(tree, cells, self._largest[tree], place)

@external
@view
def record(account: bytes32, query: bytes32, cube: uint256, runs: DynArray[Run, MAX_PARTS]) -> (uint256, uint256):
    """
    @notice How many records a query has in this version, and the precision of the best.
    @param account The account.
    @param query Salted digest of the query.
    @param cube Its cube.
    @param runs Its runs there.
    @return Number of records, and the largest precision.
    """
    tree: bytes32 = keccak256(abi_encode(account, packing._desk(self._desks[account]).version, cube))
    key: bytes32 = keccak256(concat(tree, query))
    if len(runs) > 0:
        key = keccak256(abi_encode(tree, query, runs))
    packed: uint256 = self._records[key]
    return packed >> 96, packed & MAX_BUDGET

# ------------------------------------------------------------------ pausing
@external
def pause(account: bytes32):
    """
    @notice Stops all reserving. What is reserved can still be published; nothing else changes.
    @param account The account.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    desk: packing.Desk = packing._desk(self._desks[account])
    assert not desk.paused, "ledger: paused"
    desk.paused = True
    self._desks[account] = packing._desk_word(desk)
    log Paused(account=account)

@external
def resume(account: bytes32):
    """
    @notice Ends a pause. Budget, spend and limits are what they were.
    @param account The account.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    desk: packing.Desk = packing._desk(self._desks[account])
    assert desk.paused, "ledger: not paused"
    desk.paused = False
    self._desks[account] = packing._desk_word(desk)
    log Resumed(account=account)

# ------------------------------------------------------------------ budget
@external
def lower_budget(account: bytes32, budget: uint256):
    """
    @notice Lowers the budget at once, never below what is spent, and cancels a pending raise.
    @param account The account.
    @param budget The new, smaller budget.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    money: packing.Money = packing._money(self._moneys[account])
    assert budget < money.budget, "ledger: not lower"
    assert budget >= money.spent, "ledger: below what is spent"
    money.budget = budget
    self._moneys[account] = packing._money_word(money)
    self.pending_raise[account] = empty(PendingRaise)
    assert money.spent <= money.budget, "ledger: invariant"
    log BudgetLowered(account=account, budget=budget)

@external
def propose_raise(account: bytes32, budget: uint256):
    """
    @notice Announces a raise. It may be finished after the account's delay, for a week.
    @param account The account.
    @param budget The new, larger budget.
    """
    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"
    assert budget > packing._money(self._moneys[account]).budget, "ledger: not higher"
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
    money: packing.Money = packing._money(self._moneys[account])
    assert pending.budget > money.budget, "ledger: no raise pending"
    assert block.timestamp >= pending.ready, "ledger: raise not ready"
    assert block.timestamp < pending.expires, "ledger: raise expired"
    money.budget = pending.budget
    self._moneys[account] = packing._money_word(money)
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
    desk: packing.Desk = packing._desk(self._desks[account])
    desk.curator = msg.sender
    self._desks[account] = packing._desk_word(desk)
    log CuratorChanged(account=account, curator=msg.sender)

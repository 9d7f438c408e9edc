// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

// What halmos proves of the compiled ledger; README.md says within which bounds.
//
// Interface.sol is written by tests/contract/test_halmos.py from the ABI (all functions; structs named
// after their getters and arguments), so no function of the contract can be forgotten here. When the
// contract changes, adapt "How the contract is called"; the properties speak only through it.

import {IBudgetLedger, isWriting} from "./Interface.sol";

interface Vm {
    function assume(bool condition) external pure;
    function prank(address sender) external;
    function warp(uint256 time) external;
}

interface Svm {
    function createBool(string memory name) external returns (bool);
    function createBytes32(string memory name) external returns (bytes32);
    function createUint256(string memory name) external returns (uint256);
    function createCalldata(string memory contractName) external returns (bytes memory);
    function enableSymbolicStorage(address account) external;
    function snapshotStorage(address account) external returns (bytes32);
}

abstract contract BudgetLedgerCalls {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    Svm internal constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));

    // Records per query that a symbolic claim may meet: bounds the contract's binary search.
    uint256 internal constant MAX_RECORDS = 2;
    uint256 internal constant MAX_BUDGET = 2 ** 96 - 1;

    IBudgetLedger internal ledger;

    constructor(bytes memory initcode) {
        address deployed;
        assembly {
            deployed := create(0, add(initcode, 32), mload(initcode))
        }
        require(deployed != address(0), "the ledger does not deploy");
        ledger = IBudgetLedger(deployed);
    }

    // ---------------------------------------------------------------- How the contract is called

    function budgetOf(bytes32 account) internal view returns (uint256) {
        return ledger.money(account).budget;
    }

    function spentOf(bytes32 account) internal view returns (uint256) {
        return ledger.money(account).spent;
    }

    function curatorOf(bytes32 account) internal view returns (address) {
        return ledger.desk(account).curator;
    }

    function ownerOf(bytes32 account) internal view returns (address) {
        return ledger.accounts(account).owner;
    }

    /// Number of records of a query without a cube, and the precision of the best.
    function recordsOf(bytes32 account, bytes32 query) internal view returns (uint256, uint256) {
        return ledger.record(account, query, 0, new IBudgetLedger.Runs[](0));
    }

    /// The id of the account that `owner` would open as number `nonce`.
    function accountId(address owner, uint256 nonce) internal view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(ledger), owner, nonce));
    }

    /// Everything of an account and of its roles is empty.
    function untouched(bytes32 account) internal view returns (bool) {
        return ownerOf(account) == address(0) && curatorOf(account) == address(0) && spentOf(account) == 0
            && budgetOf(account) == 0 && ledger.pending_owner(account) == address(0)
            && ledger.pending_curator(account) == address(0);
    }

    function open(address owner, address curator, uint256 budget) internal returns (bytes32) {
        vm.prank(owner);
        return ledger.open_account(curator, 1, budget, bytes32(uint256(1)), bytes32(uint256(2)), 10);
    }

    /// A claim of cube 0: what reuses records, without runs. Cubes are left to the tests.
    function anyClaim() internal returns (IBudgetLedger.Claims memory) {
        return IBudgetLedger.Claims(
            svm.createBytes32("id"),
            svm.createBytes32("query"),
            svm.createBytes32("analyst"),
            svm.createUint256("about"),
            0,
            svm.createUint256("wanted"),
            svm.createUint256("limit"),
            0,
            true
        );
    }

    function bound(bytes32 account, IBudgetLedger.Claims memory claim) internal view {
        (uint256 count,) = recordsOf(account, claim.query);
        vm.assume(count <= MAX_RECORDS);
    }

    function reserve(address sender, bytes32 account, IBudgetLedger.Claims memory claim) internal returns (bool ok) {
        bound(account, claim);
        IBudgetLedger.Claims[] memory claims = new IBudgetLedger.Claims[](1);
        claims[0] = claim;
        bytes memory data = abi.encodeCall(IBudgetLedger.reserve, (account, claims, new IBudgetLedger.Runs[](0)));
        vm.prank(sender);
        (ok,) = address(ledger).call(data);
    }

    function reserveMany(address sender, bytes32 account, IBudgetLedger.Claims memory claim) internal returns (bool ok) {
        bound(account, claim);
        IBudgetLedger.Claims[] memory claims = new IBudgetLedger.Claims[](1);
        claims[0] = claim;
        bytes memory data = abi.encodeCall(IBudgetLedger.reserve_many, (account, claims, new IBudgetLedger.Runs[](0)));
        vm.prank(sender);
        (ok,) = address(ledger).call(data);
    }

    function publish(address sender, bytes32 account) internal returns (bool ok) {
        IBudgetLedger.Seals[] memory seals = new IBudgetLedger.Seals[](1);
        seals[0] = IBudgetLedger.Seals(svm.createBytes32("id"), svm.createBytes32("answer"), true);
        bytes memory data = abi.encodeCall(IBudgetLedger.publish, (account, seals));
        vm.prank(sender);
        (ok,) = address(ledger).call(data);
    }

    function lower(address sender, bytes32 account, uint256 budget) internal returns (bool ok) {
        vm.prank(sender);
        (ok,) = address(ledger).call(abi.encodeCall(IBudgetLedger.lower_budget, (account, budget)));
    }

    function isCharging(bytes4 selector) internal pure returns (bool) {
        return selector == IBudgetLedger.reserve.selector || selector == IBudgetLedger.reserve_many.selector;
    }

    function isOpening(bytes4 selector) internal pure returns (bool) {
        return selector == IBudgetLedger.open_account.selector;
    }

    /// Those that take lists: called with short ones, by the functions above.
    function takesLists(bytes4 selector) internal pure returns (bool) {
        return isCharging(selector) || selector == IBudgetLedger.publish.selector
            || selector == IBudgetLedger.publish_many.selector;
    }

    /// What a claim of cube 0 adds to the best record of its query.
    function freshOf(bytes32 account, IBudgetLedger.Claims memory claim) internal view returns (uint256) {
        (, uint256 best) = recordsOf(account, claim.query);
        return claim.wanted > best ? claim.wanted - best : 0;
    }

    // ---------------------------------------------------------------- Symbolic states and steps

    /// Any storage whatever: what then holds for one step holds by induction for any number of them.
    function anyState() internal {
        svm.enableSymbolicStorage(address(ledger));
        vm.warp(svm.createUint256("now"));
    }

    /// One call of any function that can write but cannot charge, by `sender`, with any arguments.
    function anyStep(address sender) internal returns (bytes4 selector) {
        vm.assume(sender != address(0) && sender != address(ledger)); // nobody can sign for these
        vm.assume(untouched(accountId(sender, ledger.opened_by(sender)))); // check_accounts_to_come_are_untouched
        if (svm.createBool("publishing")) {
            publish(sender, svm.createBytes32("published"));
            return IBudgetLedger.publish.selector;
        }
        bytes memory data = svm.createCalldata("IBudgetLedger");
        vm.assume(data.length >= 4);
        selector = bytes4(data);
        vm.assume(isWriting(selector) && !takesLists(selector)); // the rest writes nothing, or is no function
        vm.prank(sender);
        (bool ok,) = address(ledger).call(data);
        ok;
    }
}

abstract contract BudgetLedgerChecks is BudgetLedgerCalls {
    constructor(bytes memory initcode) BudgetLedgerCalls(initcode) {}

    // ---------------------------------------------------------------- Any state, any call that cannot charge

    function check_spent_stays_within_the_budget_and_never_moves(bytes32 account, address sender) public {
        anyState();
        uint256 before = spentOf(account);
        vm.assume(before <= budgetOf(account));
        vm.assume(ledger.pending_raise(account).budget <= MAX_BUDGET); // check_pending_raises_fit_their_word
        anyStep(sender);
        assert(spentOf(account) <= budgetOf(account));
        assert(spentOf(account) == before);
    }

    /// Amounts are packed: a larger one would spill into its neighbour.
    function check_pending_raises_fit_their_word(bytes32 account, address sender) public {
        anyState();
        vm.assume(ledger.pending_raise(account).budget <= MAX_BUDGET);
        anyStep(sender);
        assert(ledger.pending_raise(account).budget <= MAX_BUDGET);
    }

    function check_only_the_owner_moves_the_budget(bytes32 account, address sender) public {
        anyState();
        uint256 before = budgetOf(account);
        address owner = ownerOf(account);
        bytes4 selector = anyStep(sender);
        assert(budgetOf(account) == before || sender == owner || isOpening(selector));
    }

    function check_roles_change_only_by_consent_of_both(bytes32 account, address sender) public {
        anyState();
        address owner = ownerOf(account);
        address curator = curatorOf(account);
        address nextOwner = ledger.pending_owner(account);
        address nextCurator = ledger.pending_curator(account);
        if (isOpening(anyStep(sender))) return;
        assert(ownerOf(account) == owner || (ownerOf(account) == sender && sender == nextOwner));
        assert(curatorOf(account) == curator || (curatorOf(account) == sender && sender == nextCurator));
        assert(ledger.pending_owner(account) == nextOwner || sender == owner || sender == nextOwner);
    }

    /// The account that somebody may open later has no books yet: opening cannot wipe out a spend.
    function check_accounts_to_come_are_untouched(address owner, uint256 nonce, address sender) public {
        anyState();
        bytes32 account = accountId(owner, nonce);
        vm.assume(owner != address(0) && nonce < 2 ** 64);
        vm.assume(nonce >= ledger.opened_by(owner) && untouched(account));
        anyStep(sender);
        assert(nonce < ledger.opened_by(owner) || untouched(account));
    }

    function check_view_never_exceeds_its_limit(bytes32 account, bytes32 analyst, address sender) public {
        anyState();
        vm.assume(ledger.view_of(account, analyst).used <= ledger.view_of(account, analyst).limit);
        anyStep(sender);
        assert(ledger.view_of(account, analyst).used <= ledger.view_of(account, analyst).limit);
    }

    // ---------------------------------------------------------------- Any state, one kind of call

    function check_charge_stays_within_the_budget(bytes32 account, address sender) public {
        anyState();
        uint256 before = spentOf(account);
        vm.assume(before <= budgetOf(account));
        reserve(sender, account, anyClaim());
        assert(before <= spentOf(account) && spentOf(account) <= budgetOf(account));
    }

    function check_only_the_curator_charges(bytes32 account, address sender) public {
        anyState();
        vm.assume(sender != address(ledger)); // a batch, which checks its own sender
        uint256 before = spentOf(account);
        address curator = curatorOf(account);
        reserve(sender, account, anyClaim());
        assert(spentOf(account) == before || sender == curator);
    }

    function check_charge_keeps_the_view_within_its_limit(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        IBudgetLedger.ViewOf memory before = ledger.view_of(account, claim.analyst);
        vm.assume(before.used <= before.limit);
        reserve(sender, account, claim);
        IBudgetLedger.ViewOf memory later = ledger.view_of(account, claim.analyst);
        assert(before.used <= later.used && later.used <= later.limit && later.limit == before.limit);
    }

    // One property a reason: together they are too much for one question to the solver.

    function check_stranger_is_refused(bytes32 account, address sender) public {
        anyState();
        vm.assume(sender != curatorOf(account) && sender != address(ledger));
        refuses(sender, account, anyClaim());
    }

    function check_paused_account_refuses(bytes32 account, address sender) public {
        anyState();
        vm.assume(ledger.desk(account).paused);
        refuses(sender, account, anyClaim());
    }

    function check_used_id_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(ledger.reservations(account, claim.id) != 0);
        refuses(sender, account, claim);
    }

    function check_senseless_claim_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(claim.wanted == 0 || claim.wanted > MAX_BUDGET || claim.about > 255);
        refuses(sender, account, claim);
    }

    function check_price_above_the_limit_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(freshOf(account, claim) > claim.limit);
        refuses(sender, account, claim);
    }

    function check_price_above_what_is_left_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(claim.wanted <= MAX_BUDGET); // check_senseless_claim_is_refused
        vm.assume(spentOf(account) <= budgetOf(account)); // check_charge_stays_within_the_budget
        vm.assume(spentOf(account) + freshOf(account, claim) > budgetOf(account));
        refuses(sender, account, claim);
    }

    function check_measurement_beyond_the_last_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(freshOf(account, claim) > 0);
        vm.assume(ledger.money(account).measurements >= ledger.MAX_MEASUREMENTS());
        refuses(sender, account, claim);
    }

    function check_analyst_without_a_limit_is_refused(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(claim.analyst != 0 && ledger.view_of(account, claim.analyst).limit == 0);
        refuses(sender, account, claim);
    }

    /// Compares all storage, whether the call reverted or merely did nothing. The snapshot also tells which kinds of
    /// places were read so far, so what `reserve` here looks at before its call is looked at before the snapshot.
    function refuses(address sender, bytes32 account, IBudgetLedger.Claims memory claim) private {
        bound(account, claim);
        bytes32 before = svm.snapshotStorage(address(ledger));
        bool ok = reserve(sender, account, claim);
        assert(!ok && svm.snapshotStorage(address(ledger)) == before);
    }

    // What a solver is asked stands in the contract's own words (sums, not differences): seconds instead of minutes.

    function check_charge_is_the_growth_of_the_best_record(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        vm.assume(claim.wanted <= MAX_BUDGET); // check_senseless_claim_is_refused
        uint256 later = spentOf(account) + freshOf(account, claim);
        vm.assume(reserve(sender, account, claim));
        assert(spentOf(account) == later);
    }

    function check_best_record_is_the_largest_asked_for(bytes32 account, address sender) public {
        anyState();
        IBudgetLedger.Claims memory claim = anyClaim();
        (, uint256 best) = recordsOf(account, claim.query);
        vm.assume(reserve(sender, account, claim));
        (, uint256 later) = recordsOf(account, claim.query);
        assert(later == (claim.wanted > best ? claim.wanted : best));
    }

    function check_charge_leaves_other_accounts_alone(bytes32 account, bytes32 other, address sender) public {
        anyState();
        vm.assume(account != other);
        bytes32 before = keccak256(abi.encode(ledger.accounts(other), ledger.money(other), ledger.desk(other)));
        reserve(sender, account, anyClaim());
        assert(keccak256(abi.encode(ledger.accounts(other), ledger.money(other), ledger.desk(other))) == before);
    }

    /// A batch of one group: charged like the group alone, and a refused one leaves the books as they were.
    function check_batch_keeps_the_budget(bytes32 account, address sender) public {
        anyState();
        vm.assume(sender != address(ledger));
        vm.assume(spentOf(account) <= budgetOf(account));
        uint256 before = spentOf(account);
        address curator = curatorOf(account);
        reserveMany(sender, account, anyClaim());
        assert(spentOf(account) >= before && spentOf(account) <= budgetOf(account));
        assert(spentOf(account) == before || sender == curator);
    }

    function check_lowering_never_goes_below_spent(bytes32 account, uint256 budget, address sender) public {
        anyState();
        uint256 spent = spentOf(account);
        uint256 before = budgetOf(account);
        vm.assume(lower(sender, account, budget));
        assert(budgetOf(account) == budget && budget < before);
        assert(budget >= spent && spentOf(account) == spent);
    }

    function check_budget_rises_only_as_announced(bytes32 account, address sender) public {
        anyState();
        uint256 before = budgetOf(account);
        IBudgetLedger.PendingRaise memory pending = ledger.pending_raise(account);
        vm.assume(pending.budget <= MAX_BUDGET); // check_pending_raises_fit_their_word
        if (isOpening(anyStep(sender)) || budgetOf(account) <= before) return;
        assert(budgetOf(account) == pending.budget);
        assert(block.timestamp >= pending.ready && block.timestamp < pending.expires);
    }

    // ---------------------------------------------------------------- A new ledger, a few calls

    /// Opened with any budget, then a reservation, a reservation or a lowering; any queries and amounts, asked for the owner
    /// under one public byte, by whom may: strangers and views have properties of their own, and here only multiply paths.
    function check_sum_of_charges_stays_within_the_budget(uint256 budget, bool lowering) public {
        vm.assume(0 < budget && budget <= MAX_BUDGET);
        bytes32 account = open(address(0xaa), address(0xbb), budget);
        uint256 charged = chargeOf(account, address(0xbb));
        if (lowering) lower(address(0xaa), account, svm.createUint256("lowered"));
        else charged += chargeOf(account, address(0xbb));
        assert(charged == spentOf(account));
        assert(charged <= budgetOf(account) && budgetOf(account) <= budget);
    }

    /// What a reservation should charge, worked out from the record before it: 0 if it is refused.
    function chargeOf(bytes32 account, address sender) private returns (uint256) {
        IBudgetLedger.Claims memory claim = anyClaim();
        claim.analyst = 0;
        claim.about = 1;
        (, uint256 best) = recordsOf(account, claim.query);
        bool ok = reserve(sender, account, claim);
        return ok && claim.wanted > best ? claim.wanted - best : 0;
    }

    // ---------------------------------------------------------------- What must be possible

    // These must be *refuted*: a solver that calls everything impossible would prove all of the above.

    function reach_two_charges_of_a_new_account(uint256 budget) public {
        vm.assume(0 < budget && budget <= MAX_BUDGET);
        bytes32 account = open(address(0xaa), address(0xbb), budget);
        reserve(address(0xbb), account, anyClaim());
        vm.assume(spentOf(account) == 5);
        reserve(address(0xbb), account, anyClaim());
        assert(spentOf(account) != 7);
    }

    function reach_two_charges_from_any_state(bytes32 account) public {
        anyState();
        vm.assume(spentOf(account) == 5);
        reserve(address(0xbb), account, anyClaim());
        vm.assume(spentOf(account) == 6);
        reserve(address(0xbb), account, anyClaim());
        assert(spentOf(account) != 7);
    }

    function reach_two_known_charges(uint256 budget) public {
        vm.assume(10 < budget && budget <= MAX_BUDGET);
        bytes32 account = open(address(0xaa), address(0xbb), budget);
        vm.assume(reserve(address(0xbb), account, IBudgetLedger.Claims("1", "2", 0, 1, 0, 5, 5, 0, true)));
        vm.assume(reserve(address(0xbb), account, IBudgetLedger.Claims("3", "4", 0, 1, 0, 2, 5, 0, true)));
        assert(spentOf(account) != 7);
    }
}

"""Every component, remedy and future-work item of the papers: built, replaced, or not done."""

from __future__ import annotations

from typing import NamedTuple


class Component(NamedTuple):
    """One of them."""

    paper: str
    item: str
    state: str
    """built, replaced, partly, or not done."""
    what: str


COMPONENTS = (
    Component(
        "P0",
        "Algorithm 1 (reuse in four cases)",
        "built",
        "`planning/reuse.py`, decided by the contract; check before charge",
    ),
    Component(
        "P0",
        "Case 2C, fresh noise on a better answer",
        "replaced",
        "Brownian bridge between recorded answers (`docs/proofs/bridge.md`)",
    ),
    Component(
        "P0",
        "Smart contract in Solidity",
        "replaced",
        "Vyper, in integers of precision; no square root or logarithm is needed on chain",
    ),
    Component(
        "P0",
        "Own square root, scaled-up floats on chain",
        "replaced",
        "precision is additive: comparisons and one subtraction of integers",
    ),
    Component(
        "P0",
        "Gaussian noise drawn in the client and passed through the chain",
        "replaced",
        "drawn by the curator only: otherwise Q(D) can be recovered exactly",
    ),
    Component(
        "P0",
        "Noisy answers stored on chain",
        "replaced",
        "salted digests on chain, answers in the vault, receipts for whoever has one",
    ),
    Component(
        "P0",
        "Provable (the contract calls the server)",
        "replaced",
        "the bank reserves on the contract first, then reads the data: no oracle service",
    ),
    Component(
        "P0", "Client in JavaScript with Web3", "replaced", "Python library, command line, HTTP; JSON-RPC towards nodes"
    ),
    Component("P0", "Server in Node.js and Express", "replaced", "the bank (Python); SQL parsed to canonical queries"),
    Component(
        "P0",
        "MongoDB",
        "replaced",
        "DuckDB (CSV, Parquet, its own files), PostgreSQL, Spark; rows never leave the engine",
    ),
    Component(
        "P0",
        "MetaMask",
        "replaced",
        "keys of owner and curator in files or the environment; any EVM address can be owner",
    ),
    Component(
        "P0",
        "Ropsten (public test network)",
        "replaced",
        "`deploy` and `init --rpc` work on any EVM chain; tested on anvil. Ropsten was shut down in 2022",
    ),
    Component(
        "P0", "Ganache with 15 s blocks", "replaced", "anvil with blocks at intervals (Figure 7, also with 15 s)"
    ),
    Component(
        "P0",
        "Private chain of three mining geth nodes",
        "not done",
        "one anvil node: proof of work has left Ethereum and geth. The bank needs one JSON-RPC address, "
        "whatever is behind it",
    ),
    Component(
        "P0",
        "Apache JMeter, Activity Monitor",
        "replaced",
        "threads in one process and the kernel's CPU counts (Figures 7 and 10)",
    ),
    Component(
        "P0",
        "Remedy: mine only when there is work",
        "built",
        "the embedded chain works only when asked; anvil with a block a transaction",
    ),
    Component(
        "P0",
        "Drop-down list of predefined queries (Figure 3)",
        "built",
        "named queries in the policy; free SQL besides, with sensitivity from the policy",
    ),
    Component("P0", "Output page with epsilon (Figure 4)", "built", "`ask`, `quote`, `statement` in words and as JSON"),
    Component(
        "P0",
        "IPUMS extract of 5,000 people",
        "replaced",
        "a made-up survey with the same columns, ranges and sensitivities: the extract is not published",
    ),
    Component(
        "P0",
        "Future: exponential mechanism for non-numeric answers",
        "replaced",
        "`MODE`: the largest of noisy counts over declared keys; no pure-epsilon exponential mechanism",
    ),
    Component(
        "P0",
        "Future: privacy of the contract (Hawk; private chain, proof of authority)",
        "partly",
        "nothing private is on the ledger (salted digests); a private chain is one address in `init --rpc`. "
        "Hawk-like private contracts: not done",
    ),
    Component(
        "P0",
        "Future: privacy of queries (private chain, encrypted databases)",
        "partly",
        "queries are salted digests on the ledger; the curator sees them. Encrypted databases: not done, "
        "the curator is trusted with the data",
    ),
    Component("P0", "Future: fixed types of queries", "built", "named queries; the digest of a query names its type"),
    Component(
        "P1",
        "Linear queries with weights and constants over a cube",
        "built",
        "linear combinations in SQL, cubes in the policy",
    ),
    Component(
        "P1",
        "Query history H, answers y, budgets A and B",
        "built",
        "records on the ledger, cells of a cube, answers in the vault",
    ),
    Component(
        "P1",
        "Algorithm 2 (greedy representations)",
        "replaced",
        "least squares over all answers (`planning/inference.py`); the algorithm itself under `research/`",
    ),
    Component(
        "P1",
        "Algorithms 3 to 6 (posterior, credible interval, linear computation)",
        "replaced",
        "normal posterior in closed form; under `research/` by characteristic functions",
    ),
    Component("P1", "Theorem 3.7 (dynamic allocation)", "built", "`--within H --confidence C`"),
    Component(
        "P1",
        "Theorem 3.8 (system privacy cost per cell)",
        "built",
        "the contract's tree of cells: a cube's spend is its largest cell",
    ),
    Component(
        "P1",
        "Hierarchical tree beforehand",
        "built",
        "the first look, bought when it would pay (`first_look` in the policy)",
    ),
    Component("P1", "Social network data", "not done", "not shown in P1 either; net-trace and search logs are"),
    Component(
        "P1",
        "Future: delicately designed history, auxiliary queries",
        "built",
        "the first look at a tree or at all cells",
    ),
    Component(
        "P1",
        "Future: least budget for a *set* of queries",
        "partly",
        "groups are priced together, and `explain` suggests cubes; no optimal strategy matrix is computed",
    ),
    Component(
        "P1",
        "Future: disclosure risk, parameter estimation by the same inference",
        "not done",
        "outside of a bank's task",
    ),
    Component(
        "P2",
        "Relay of users, noise recycled (Section IV)",
        "built",
        "`federated/relay/`, one process per user, signed messages; integers on a grid, discrete noise",
    ),
    Component(
        "P2",
        "Game, best responses, equilibrium (Lemma 1, Theorem 1)",
        "built",
        "`federated/relay/game.py`; the printed profile is the subgame-perfect outcome, not a Nash equilibrium",
    ),
    Component(
        "P2",
        "Mechanism 1, Broadcast And Shuffle (BAS)",
        "built",
        "`relay host --mode bas`; sums accumulate, equal bids are told apart, the order is drawn from committed seeds",
    ),
    Component(
        "P2",
        "Protocol 2, Slice And Recombine (SAR)",
        "built",
        "`relay host --mode sar --slices N`; the index advances by a slice, so that all coordinates are covered",
    ),
    Component(
        "P2",
        "Sub-sequences, random or sorted (Corollaries 3 and 4)",
        "built",
        "`relay host --groups Q --split sorted` (or `random`)",
    ),
    Component(
        "P2",
        "Remedies: joining below a threshold, zero or past slices, re-clipped slices",
        "built",
        "`relay host --skip P --instead zeros --slice-norm R`; past slices show a round later and are paid for twice",
    ),
    Component(
        "P2",
        "Privacy of SAR by parallel composition (Theorems 6 to 8)",
        "replaced",
        "slices of one vector do not compose in parallel: the guarantee printed is for the whole vector, by coalition",
    ),
    Component(
        "P2",
        "Protection from colluders by their small probability",
        "replaced",
        "a noise floor for every member, or masked sums (`--mode masked --colluders T`), which hold for T colluders",
    ),
    Component(
        "P2",
        "Future: several sequences with unequal or competing links; users who cannot infer the variance",
        "not done",
        "members are told the plan and its variance; links are treated alike",
    ),
    Component(
        "P3",
        "Heuristic search for epsilon (Algorithm 1)",
        "replaced",
        "not private: kept under `research/` only. `--relative` measures once, with a precision from public numbers",
    ),
    Component("P3", "Choice of eps_def and eta (Algorithm 2)", "replaced", "no such settings; `research/` runs it"),
    Component(
        "P3",
        "Reuse by (accuracy, function, type) (Algorithm 3)",
        "replaced",
        "reuse by the whole query: P3's key hands one query's answer to another",
    ),
    Component(
        "P3",
        "Verification by data owners (total, used, remaining, by type N)",
        "built",
        "`balance_on` of the contract, free for everybody; `statement`, `verify`",
    ),
    Component(
        "P3",
        "Hyperledger Fabric, chaincode, orderers, CouchDB",
        "replaced",
        "the contract on any EVM chain, or embedded with a signed journal",
    ),
    Component(
        "P3", "Caliper with five workers", "replaced", "open-loop load in Figure 8, 10 to 1,000 transactions a second"
    ),
    Component(
        "P3",
        "Light peers for data owners",
        "partly",
        "anybody with the journal or a node can verify; there is no client for phones",
    ),
    Component(
        "P3",
        "A budget for each data owner, the smallest counts",
        "partly",
        "one budget an account, set by its owner; per-person budgets: not done",
    ),
    Component(
        "P3",
        "Max and Min with sensitivity 1",
        "replaced",
        "from counts over declared bins: there is no such sensitivity",
    ),
    Component("P4", "Chapter 4", "built", "as P0; the deltas of its experiment are in Figure 5 here"),
    Component(
        "P4",
        "Raspberry Pi as a phone (chapter 5)",
        "not done",
        "no such device here; federated parts run as processes on one machine",
    ),
    Component(
        "P4",
        "Future: (epsilon, delta) local mechanisms, Four-Outputs",
        "not done",
        "local mechanisms are pure; a jointly tuned one beats Three-Outputs (`reproduce ldp`)",
    ),
)

"""What tests of the whole use from the inside of the product: a module that moves is named here only.

Tests below `unit` and `property` are about one module each and import it themselves. A name that two modules have
(`Terms`), a module whose attributes a test replaces, and code that runs in a process of its own are imported directly.

The imports below are the table, for type checkers, for tools that rename, and for `assurance/exercised.py`, which reads
them too. Nothing is imported before it is used, and nothing is remembered here: a patched name is seen as it is.
"""

# ruff: noqa: F401

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisebank.account.answers import Group, GroupedAnswer, Inference, RelativeAnswer
    from noisebank.account.derived import DerivedAnswer, Estimate, estimates, ratio
    from noisebank.account.plain import Steps
    from noisebank.account.recovery import Recovered, recover
    from noisebank.account.statement import statement
    from noisebank.bank.backup import make_backup
    from noisebank.bank.backup_checks import check, journal_lines, replayed, vault_in
    from noisebank.bank.bank import ACCESS, JOURNAL, KEYS, LOCK, VAULT
    from noisebank.bank.manifest import read_manifest
    from noisebank.bank.opening import Confirmed, Rooms, open_account
    from noisebank.bank.restore import Asked, restore
    from noisebank.cli.relay import relay
    from noisebank.client.async_client import AsyncAccount, AsyncClient
    from noisebank.client.errors import ERRORS, PASSING, error_of
    from noisebank.client.results import Facts
    from noisebank.client.sync_client import Client, RemoteAccount
    from noisebank.core.caches import EVERY_CACHE, BoundedCache
    from noisebank.core.digests import answer_digest, canonical, keccak
    from noisebank.core.durability import GroupCommit, Turn, end_process, open_database
    from noisebank.core.entropy import MAX_NOISE_SCALE, Entropy, SystemEntropy, simulation, uniform_words, workload
    from noisebank.core.errors import (
        AlreadyTookPart,
        AnswerLost,
        BadBank,
        BadLedger,
        BadPolicy,
        BadQuery,
        BadRequest,
        BadTable,
        BankInUse,
        BudgetExhausted,
        KeyReused,
        LedgerHalted,
        LedgerRefused,
        OutcomeUnknown,
        PriceMoved,
        Refused,
        TableChanged,
        Tampered,
        UnsupportedQuery,
        VaultUnreachable,
        ViewExhausted,
    )
    from noisebank.core.records import WHOLE_WEIGHT, Case, CellRun, Point
    from noisebank.core.units import NOTHING, GridValue, exact, on_ladder
    from noisebank.demo.clinic import write_clinic
    from noisebank.demo.survey import write_survey
    from noisebank.engines.csv_lines import csv_rows
    from noisebank.engines.cube_engine import CubedEngine
    from noisebank.engines.dialect import DuckDBDialect, Stored
    from noisebank.engines.duckdb_connection import connected
    from noisebank.engines.duckdb_engine import DuckDBEngine, header_of
    from noisebank.engines.engine import Engine
    from noisebank.engines.fields import Field
    from noisebank.engines.registry import columns_of, engine_of
    from noisebank.engines.spark_engine import _session
    from noisebank.engines.sql_engine import SqlEngine
    from noisebank.engines.statement import literal, plain_count, quoted
    from noisebank.federated.blockfl.books import Phase
    from noisebank.federated.blockfl.charges import DeviceAccount, first_policy
    from noisebank.federated.blockfl.dev_chain import HomeChain, begin_home_chain
    from noisebank.federated.blockfl.device import Examples, SplitTrainer, accuracy
    from noisebank.federated.blockfl.edge import EdgeWorker
    from noisebank.federated.blockfl.examples import read_examples
    from noisebank.federated.blockfl.identifiers import identifier
    from noisebank.federated.blockfl.json_rpc import Door
    from noisebank.federated.blockfl.member import NO_RECEIPT, Duties, global_model
    from noisebank.federated.blockfl.member_book import MemberBook
    from noisebank.federated.blockfl.models import Model, Weights, fixed
    from noisebank.federated.blockfl.network import SMALL, Shape, initial
    from noisebank.federated.blockfl.registry import Registry, deploy_registry, own_contract
    from noisebank.federated.blockfl.sortition import FIELD, LotKey, lot_of, priority, seats
    from noisebank.federated.blockfl.store import FolderStore
    from noisebank.federated.blockfl.task_posting import Rules, post_task
    from noisebank.federated.blockfl.terms import read_terms
    from noisebank.federated.blockfl.torch_network import Network
    from noisebank.federated.blockfl.verification import verify_task
    from noisebank.federated.enrolment import LocalAccount, ReadRecord, RoundOrder, enrol, enrolled, local_account
    from noisebank.federated.fedsgd import (
        Design,
        Device,
        ExactMean,
        GradientNoise,
        Order,
        Task,
        learn,
        open_or_resume,
        open_task,
        published_noise,
        tasks,
    )
    from noisebank.federated.fedsgd.flower_client import (
        MODEL,
        ORDER,
        answer_order,
        client_app,
        read_order,
        read_reply,
        written_order,
    )
    from noisebank.federated.fedsgd.flower_server import LdpFedSgd
    from noisebank.federated.fedsgd.participation import LearningAccount
    from noisebank.federated.ldp import (
        NAMES,
        Category,
        Levels,
        Number,
        Oracle,
        Schema,
        collect,
        estimate,
        published_vector_mechanism,
        vector_mechanism,
    )
    from noisebank.federated.ldp.reports import planned
    from noisebank.federated.ldp.vectors import choose
    from noisebank.federated.relay import (
        Demand,
        Guarantee,
        Host,
        Outcome,
        Plan,
        Round,
        Trust,
        least_variance,
        make_plan,
    )
    from noisebank.federated.relay.attempt import MASKED, Attempt, new_attempt, prepared, read_entry
    from noisebank.federated.relay.blame import State
    from noisebank.federated.relay.collection import Collecting
    from noisebank.federated.relay.grid import BID_UNITS, STEPS, contribution
    from noisebank.federated.relay.guarantee import guarantee
    from noisebank.federated.relay.messages import Message, Pen, check_answer, plain_words
    from noisebank.federated.relay.plan import Entry, plain_entry, seed_commitment
    from noisebank.federated.relay.remedies import substituted
    from noisebank.federated.relay.sealing import AttemptKey, masks
    from noisebank.federated.relay.transport import Server, ask, endpoint
    from noisebank.ledger.abi import Contract, Value, Word, anchors, budget_ledger, load_contract, model_registry
    from noisebank.ledger.anchors import anchor, deploy_anchors, find_anchors
    from noisebank.ledger.block import Block, Genesis, results_digest
    from noisebank.ledger.books import Budgets
    from noisebank.ledger.chain_config import Where, read_where, write_where
    from noisebank.ledger.embedded import EmbeddedChain, begin_chain
    from noisebank.ledger.encoding import MOST_PARTS, merged
    from noisebank.ledger.evm import NOBODY, Machine, _reason, events
    from noisebank.ledger.follower import Follower
    from noisebank.ledger.journal import Journal
    from noisebank.ledger.node import Node
    from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Head, Opening, Reservation, Seal, Unit
    from noisebank.ledger.replay import Replay
    from noisebank.ledger.rpc import RpcChain, deploy
    from noisebank.ledger.signing import Key, Transaction
    from noisebank.planning.haar import pad, padded
    from noisebank.planning.inference import FirstLookRule, InferencePlan, Knowledge, Measured, Statistic, When
    from noisebank.planning.linear import LinearQuery, cell_range, from_weights
    from noisebank.planning.posterior import Inferred
    from noisebank.planning.prefix import Axis, FirstLook, Prefix
    from noisebank.planning.pricing import PrecisionWish, PrivacyWish, Wish, price, wish
    from noisebank.planning.relative import RelativeWish
    from noisebank.planning.reuse import bridge
    from noisebank.planning.serving import Served, look_at, serve, statistic_of
    from noisebank.policy.columns import COLUMN_KEYS
    from noisebank.policy.file import TOP_KEYS, parse_policy
    from noisebank.policy.model import Column, Keeper, Kind, Neighbours, Source, Table
    from noisebank.privacy.calibration import Calibration, budget_precision
    from noisebank.privacy.noise import LEAST_SCALE, Law, draw
    from noisebank.privacy.odometer import promised_epsilon, raised_epsilon
    from noisebank.queries.cells import Cube
    from noisebank.queries.derived import Item, items
    from noisebank.queries.groups import group_count
    from noisebank.queries.predicates import TRUE, Predicate
    from noisebank.queries.query import Function, Query, Question
    from noisebank.queries.sensitivity import saturation, sensitivity
    from noisebank.queries.sql import parse
    from noisebank.runtime.gathering import apart
    from noisebank.runtime.recursion import kept_limit
    from noisebank.service.app import make_app
    from noisebank.service.auth import MOST_SESSIONS, Access
    from noisebank.service.authenticator import COOKIE
    from noisebank.service.blockfl_tasks import CrowdTasks
    from noisebank.service.errors import FIELDS, OF_THE_BANK, Turned, body_of, every_problem
    from noisebank.service.learning_schemas import CrowdTask, LearningTasks, RoundOut, SgdTask
    from noisebank.service.limits import Room
    from noisebank.service.logs import Log
    from noisebank.service.operations import Desk, wish_text
    from noisebank.service.roles import Scope
    from noisebank.service.schemas import WishIn
    from noisebank.service.server import KEPT_OPEN, configured, listening
    from noisebank.service.settings import Settings, settings_table
    from noisebank.service.wallet import Spend, message_to_sign, typed_spend
    from noisebank.service.web.formatting import at_best, within_budget
    from noisebank.service.web.query_form import Draft, built, fresh, wished
    from noisebank.service.web.spending import MOST_POINTS, Curve, Spending
    from noisebank.vault.location import PLACE, make_vault, open_vault
    from noisebank.vault.postgres_vault import PostgresVault, make_postgres_vault
    from noisebank.vault.sqlite_vault import SqliteVault
    from noisebank.vault.vault import Request, Sealed, Vault
    from noisebank.verifier.verification import UNSEEN_TAIL, verify_chain

_HOMES = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(__file__).read_text()))
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("noisebank.")
    for alias in node.names
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"support.internals has no {name}")
    return getattr(import_module(_HOMES[name]), name)

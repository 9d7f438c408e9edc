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
    from noisebank.account.answers import Answer, Group, GroupedAnswer
    from noisebank.account.coarse_look_counter import CoarseLookCounter
    from noisebank.account.coarse_looks import LookedRequest
    from noisebank.account.completion import complete_reservations
    from noisebank.account.context import AccountContext
    from noisebank.account.cube import CubeStrategy
    from noisebank.account.cube_looks import buy_look_if_affordable
    from noisebank.account.current_time import fix_sql
    from noisebank.account.derived.aggregates import NoisyPart, ratio_interval
    from noisebank.account.derived.expressions import ExpressionEvaluator, RowNumbers
    from noisebank.account.derived.gaussians import Gaussian, NoiseSource, sum_gaussians
    from noisebank.account.derived.tables import sort_rows
    from noisebank.account.pipeline import BatchItem, answer_batch, hold_queries
    from noisebank.account.plain import PlainStrategy
    from noisebank.account.recovery import RecoveryCounts, recover_account
    from noisebank.account.statement import make_openings, make_statement
    from noisebank.bank.backup import make_backup
    from noisebank.bank.backup_checks import check_vault, open_vault_copy, read_journal_file, replay_journal
    from noisebank.bank.folder import ACCESS, JOURNAL, KEYS, LOCK, VAULT, BankParts
    from noisebank.bank.manifest import read_manifest
    from noisebank.bank.opening import Confirmed, load_accounts, open_account
    from noisebank.bank.restore import RestoreOptions, restore
    from noisebank.cli.relay import relay_group
    from noisebank.client.async_client import AsyncAccount, AsyncClient
    from noisebank.client.errors import ERRORS, TRANSIENT, error_from_problem
    from noisebank.client.facts import Facts
    from noisebank.client.sync_client import Client, RemoteAccount
    from noisebank.core.caches import ALL_CACHES, BoundedCache
    from noisebank.core.charges import Charge, ChargedQuestion, Inference
    from noisebank.core.digests import digest_answer, keccak, to_canonical_json
    from noisebank.core.durability import GroupCommit, PendingItem, end_process, open_database
    from noisebank.core.entropy import (
        MAX_NOISE_SCALE,
        Entropy,
        SystemEntropy,
        simulation_rng,
        uniform_words,
        workload_rng,
    )
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
    from noisebank.core.estimates import Row, make_estimate, standard_deviation
    from noisebank.core.problems import BANK_PROBLEMS, ERROR_FIELDS
    from noisebank.core.records import WHOLE_WEIGHT, BridgePoint, Case, CellRun
    from noisebank.core.spend import Spend, typed_spend
    from noisebank.core.units import ZERO_PRECISION, GridValue, Precision, floor_to_ladder, parse_exact
    from noisebank.demo.clinic import write_clinic
    from noisebank.demo.crowd import unpack_crowd
    from noisebank.demo.served_demo import fill_bank, show_seeds
    from noisebank.demo.survey import write_survey
    from noisebank.demo.survey_demo import run_demonstration
    from noisebank.demo.tour import list_stops
    from noisebank.engines.csv_lines import count_csv_rows
    from noisebank.engines.cube_engine import CubedEngine
    from noisebank.engines.dialect import DuckDBDialect, StorageType
    from noisebank.engines.duckdb_connection import open_connection
    from noisebank.engines.duckdb_engine import DuckDBEngine, duckdb_header
    from noisebank.engines.engine import Engine, read_each
    from noisebank.engines.fields import Field
    from noisebank.engines.registry import make_engine, read_header
    from noisebank.engines.spark_engine import _make_session
    from noisebank.engines.sql_engine import SqlEngine
    from noisebank.engines.statement import is_plain_count, quote_name, quote_text
    from noisebank.federated.blockfl.books import Phase, Round, Submission
    from noisebank.federated.blockfl.charges import DeviceAccount, first_edition_policy
    from noisebank.federated.blockfl.dev_chain import DevChain, create_dev_chain
    from noisebank.federated.blockfl.device import Examples, SplitTrainer, measure_accuracy
    from noisebank.federated.blockfl.edge import EdgeWorker
    from noisebank.federated.blockfl.examples import read_digits, read_examples
    from noisebank.federated.blockfl.identifiers import format_cid
    from noisebank.federated.blockfl.json_rpc import JsonRpcServer
    from noisebank.federated.blockfl.member import NO_RECEIPT, CommitteeDuties, load_global_model
    from noisebank.federated.blockfl.member_book import MemberBook
    from noisebank.federated.blockfl.models import Model, Weights, to_fixed_point
    from noisebank.federated.blockfl.network import SMALL_SHAPE, NetworkShape, initialize_weights
    from noisebank.federated.blockfl.recursion import kept_limit
    from noisebank.federated.blockfl.registry import ModelRegistry, deploy_registry, find_own_contract
    from noisebank.federated.blockfl.sortition import (
        FIELD_MODULUS,
        SortitionKey,
        compute_priority,
        count_seats,
        hash_signature,
    )
    from noisebank.federated.blockfl.store import FolderStore
    from noisebank.federated.blockfl.task_posting import TaskRules, post_task
    from noisebank.federated.blockfl.terms import read_terms
    from noisebank.federated.blockfl.torch_network import TorchNetwork
    from noisebank.federated.blockfl.verification import verify_task
    from noisebank.federated.enrolment import LocalAccount, ReadRecord, RoundOrder, enrol, list_enrolled, local_account
    from noisebank.federated.fedsgd import (
        Design,
        Device,
        ExactMean,
        GradientNoise,
        Task,
        TrainingOrder,
        learn_model,
        list_tasks,
        open_or_resume_task,
        open_task,
        published_noise,
    )
    from noisebank.federated.fedsgd.flower_client import (
        MODEL,
        ORDER,
        answer_order,
        client_app,
        read_order,
        read_reply,
        write_order,
    )
    from noisebank.federated.fedsgd.flower_server import LdpFedSgd
    from noisebank.federated.fedsgd.participation import LearningAccount
    from noisebank.federated.ldp import (
        MECHANISM_NAMES,
        Category,
        FrequencyOracle,
        Number,
        QuantizedMixture,
        Schema,
        estimate_attributes,
        make_published_vector_mechanism,
        make_report,
        make_vector_mechanism,
    )
    from noisebank.federated.ldp.reports import plan_reports
    from noisebank.federated.ldp.vectors import choose_coordinates
    from noisebank.federated.relay import (
        Coalition,
        Host,
        MemberOutcome,
        RelayPlan,
        Requirements,
        RoundOutcome,
        make_plan,
    )
    from noisebank.federated.relay.attempt import new_attempt, prepare_steps, read_entry
    from noisebank.federated.relay.blame import ChainClaims
    from noisebank.federated.relay.collection import AttemptCollector
    from noisebank.federated.relay.grid import BID_UNITS, STEPS_PER_BOUND, quantize_vector
    from noisebank.federated.relay.messages import Message, MessageSigner, to_printable
    from noisebank.federated.relay.plan import MemberEntry, entry_to_json, seed_commitment
    from noisebank.federated.relay.remedies import substitute_slices
    from noisebank.federated.relay.sealing import AttemptKey
    from noisebank.federated.relay.transport import MessageServer, ask, parse_endpoint
    from noisebank.ledger.abi import (
        Contract,
        Value,
        Word,
        anchors_contract,
        budget_ledger,
        load_contract,
        model_registry,
    )
    from noisebank.ledger.anchors import deploy_anchors, find_anchors, send_anchor
    from noisebank.ledger.block import Block, Genesis, results_digest
    from noisebank.ledger.books import Budgets
    from noisebank.ledger.chain import Ledger
    from noisebank.ledger.chain_config import ChainConfig, read_chain_config, write_chain_config
    from noisebank.ledger.embedded import EmbeddedLedger, create_chain
    from noisebank.ledger.encoding import MAX_GROUP_PARTS
    from noisebank.ledger.evm import ZERO_ADDRESS, Evm, _revert_reason, decode_events
    from noisebank.ledger.follower import Follower
    from noisebank.ledger.journal import Journal
    from noisebank.ledger.node import Node
    from noisebank.ledger.protocol import (
        OWNER_ANALYST,
        AccountOpening,
        AccountState,
        Claim,
        Head,
        Reservation,
        Seal,
        Unit,
    )
    from noisebank.ledger.replay import Replay
    from noisebank.ledger.rpc import ChainLedger, deploy_contract
    from noisebank.ledger.signing import Key, Transaction
    from noisebank.planning.inference import (
        CubePosterior,
        CubeStatistic,
        InferencePlan,
        QueryMeasurement,
    )
    from noisebank.planning.linear import LinearQuery, merge_charges, query_from_weights, range_query
    from noisebank.planning.look_posterior import MeasuredLook
    from noisebank.planning.posterior import LinearEstimate
    from noisebank.planning.pricing import (
        AccuracyTarget,
        PrecisionTarget,
        PrivacyTarget,
        compute_target,
        parse_accuracy,
    )
    from noisebank.planning.relative import RelativeTarget
    from noisebank.planning.reuse import bridge_law
    from noisebank.planning.serving import CubeQuery, find_cube_query
    from noisebank.planning.strategies.axes import Axis
    from noisebank.planning.strategies.kronecker import find_strategy
    from noisebank.planning.strategies.looks import Look
    from noisebank.planning.strategies.workloads import shapes_of_sets
    from noisebank.policy.file import parse_policy
    from noisebank.policy.model import Column, EngineKind, Kind, Neighbours, Source, Table
    from noisebank.policy.schema import COLUMN_KEYS, TOP_KEYS
    from noisebank.privacy.calibration import Calibration, budget_precision
    from noisebank.privacy.noise import MIN_SCALE, NormalLaw, draw_value
    from noisebank.privacy.odometer import promised_epsilon, raised_epsilon
    from noisebank.queries.cells import Cube
    from noisebank.queries.derived import Aggregate
    from noisebank.queries.groups import group_count, group_labels, group_order
    from noisebank.queries.predicates import TRUE, Predicate
    from noisebank.queries.query import Function, Query, Question
    from noisebank.queries.result_expressions import Expression
    from noisebank.queries.selects import SelectList, parse_select_list
    from noisebank.queries.sensitivity import l2_sensitivity, row_range, saturation_limit
    from noisebank.queries.sql import parse_question
    from noisebank.service.answering import weigh_question
    from noisebank.service.app import make_app
    from noisebank.service.auth import MAX_SESSIONS, AccessControl
    from noisebank.service.authenticator import SESSION_COOKIE
    from noisebank.service.blockfl_tasks import CrowdTasks
    from noisebank.service.errors import ApiError, build_problem, list_problems
    from noisebank.service.learning_schemas import CrowdTask, LearningTasks, RoundOut, SgdTask
    from noisebank.service.limits import WorkerPool
    from noisebank.service.logs import LibraryLog, RequestLog
    from noisebank.service.operations import Operations, signed_accuracy
    from noisebank.service.roles import Scope
    from noisebank.service.schemas import QuoteIn
    from noisebank.service.serializers import result_to_bytes
    from noisebank.service.server import KEEP_ALIVE_SECONDS, make_config, open_listener
    from noisebank.service.settings import Settings, list_settings
    from noisebank.service.tour import TourStop
    from noisebank.service.wallet import make_sign_in_message
    from noisebank.service.web.formatting import budget_guess_rate, max_guess_rate
    from noisebank.service.web.query_form import QueryForm, build_sql, new_form, parse_form
    from noisebank.service.web.spending import MAX_POINTS, AccountSpending, SpendingCurve
    from noisebank.vault.location import CONFIG_FILE, create_vault, open_vault
    from noisebank.vault.postgres_vault import PostgresVault, create_postgres_vault
    from noisebank.vault.settlement import settle
    from noisebank.vault.sqlite_vault import SqliteVault
    from noisebank.vault.vault import Request, SealedAnswer, Vault
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

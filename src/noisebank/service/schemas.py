"""Pydantic models of requests and responses: the API's description (openapi.json) comes from these.

Amounts are exact decimals, as text. Responses are built by `operations` and `serializers`, and not validated again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from noisebank.core.asks import AccuracyOptions, collect_accuracy

Amount = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]{1,18})?$", max_length=60)]
"""Precision as a decimal with at most 18 places, which is exactly a whole number of ledger units."""
Number = Annotated[str, StringConstraints(max_length=60)] | float
"""An exact number from a caller; a float stands for the decimal that it prints as."""
Sql = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=160)]
CaseName = Literal["FIRST", "REPEAT", "REFINE", "BLUR", "INFER"]


class StrictModel(BaseModel):
    """Unknown fields are refused: a misspelt limit must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class ProblemOut(BaseModel):
    """RFC 9457, with `request` to find it in the logs."""

    type: str
    title: str
    status: int
    detail: str
    request: str


class QuoteIn(StrictModel):
    """A question, and how good its answer shall be: in exactly one way."""

    sql: Sql = Field(
        description="SQL, or the name of one of the policy's queries", examples=["SELECT count(*) FROM survey"]
    )
    epsilon: Number | None = Field(None, description="With delta: the privacy loss of this answer alone")
    delta: Number | None = None
    within: Number | None = Field(None, description="Within this distance of the truth, with this confidence")
    relative: Number | None = Field(None, description="Within this share of the true value, with this confidence")
    floor: Number | None = Field(
        None,
        description="With relative: the smallest true value for which that is promised; a tenth of the largest value "
        "that the policy allows, if not said",
    )
    confidence: Number | None = Field(None, description="Of within, relative and stated intervals; 0.95 if not said")
    sigma: Number | None = Field(None, description="The noise's standard deviation, in the answer's unit")
    calibration: Literal["analytic", "classical"] | None = None
    spend: Number | None = Field(None, description="The most accurate answer for this share of the budget, e.g. 1%")
    groups: Literal["each", "all"] | None = Field(
        None, description="Whether the confidence holds for each number, or for all of them at once; each if not said"
    )

    def accuracy_options(self) -> AccuracyOptions:
        """Return the accuracy options as keyword arguments of the Python API."""
        return collect_accuracy(
            epsilon=self.epsilon, delta=self.delta, within=self.within, relative=self.relative, floor=self.floor,
            sigma=self.sigma, confidence=self.confidence, calibration=self.calibration,
            spend=self.spend, groups=self.groups,
        )  # fmt: skip


class Agreed(StrictModel):
    """A wallet's signature (EIP-712) that agrees to this request."""

    max_cost_units: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,30}$")] = Field(
        description="The most to spend, in units of 1e-18 precision, as it was signed"
    )
    deadline: int = Field(description="Seconds since 1970, as it was signed", ge=0, lt=2**63)
    signature: Annotated[str, StringConstraints(pattern=r"^0x[0-9a-fA-F]{130}$")]


class AskIn(QuoteIn):
    """A request that may spend. Send an Idempotency-Key: the same key gives the same answer, charged once."""

    mode: Literal["exact", "best"] = Field(
        "exact", description="exact: the noise that is asked for. best: if something better is free, that"
    )
    max_cost: Number | None = Field(
        None, description="The most to spend: precision, or a share of the budget; more is refused"
    )
    agreed: Agreed | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"sql": "SELECT count(*) FROM survey", "epsilon": "0.5", "delta": "1e-6"}]},
    )


class QuoteOut(StrictModel):
    """The price of an answer. Costs nothing and depends on no data."""

    sql: str
    case: CaseName
    in_words: str
    wanted: Amount
    cost: Amount
    left: Amount
    budget: Amount
    share: float = Field(description="The cost as a share of the budget, from 0 to 1")
    epsilon: float = Field(description="Of the cost alone, at the account's delta; for display")
    delta: float
    view_left: Amount | None = Field(description="What this analyst may still learn")
    affordable: bool
    stddev: float | None = Field(description="The noise's standard deviation; null if the error depends on the data")
    confidence: float
    half_width: float | None = Field(description="Of the interval at that confidence: what stands after ±")
    reused_stddev: float | None
    share_now: float = Field(description="Of the budget that is spent")
    share_after: float
    remains: Amount
    how_many: int
    way: Literal["cube", "plain", "both"] = Field(description="both: its parts take different ways")
    why: str = Field(description="Which way the answer would take and why, in a sentence")
    cube: list[str]
    cell_factor: int
    first_look: Amount
    coarse_look: Amount = Field(
        description="Where the noise depends on the data: what the look before costs; cost is then the most in all"
    )
    parts: list[QuoteOut]
    floor: float | None = Field(description="Of a relative request: from which true value on its promise holds")


class HistoryRow(StrictModel):
    id: str
    time: int
    sql: str
    case: CaseName
    wanted: Amount
    cost: Amount
    published: bool


class History(StrictModel):
    """Newest first."""

    answers: list[HistoryRow]
    next: str | None = Field(description="The cursor of the next page; null at the end")


class EntryOut(StrictModel):
    """What the public ledger shows of a reservation: amounts and salted digests."""

    number: int
    id: str
    time: int
    block: int
    case: CaseName
    about: str
    wanted: Amount
    cost: Amount
    spent: Amount
    query: str
    analyst: str
    cube: int
    version: int
    answer: str | None
    published_in: int | None


class Entries(StrictModel):
    """Newest first."""

    entries: list[EntryOut]
    next: str | None


class Dataset(StrictModel):
    """An account's public facts."""

    name: str
    account: str
    version: int
    epsilon: float = Field(description="What all answers together promise, whenever somebody looks")
    delta: float
    budget: Amount
    spent: Amount
    left: Amount
    paused: bool
    answers: int
    measurements: int
    policy: dict[str, Any]


class Datasets(StrictModel):
    datasets: list[Dataset]


class Balance(StrictModel):
    """The account's balance, and the caller's view."""

    budget: Amount
    spent: Amount
    left: Amount
    share: float = Field(description="Of the budget that is spent")
    epsilon: float = Field(description="What all answers together promise, whenever somebody looks")
    view_limit: Amount | None
    view_used: Amount | None


class StatementOut(StrictModel):
    """For the owner: balance and cases, and every entry with its question."""

    name: str
    account: str
    budget: Amount
    spent: Amount
    left: Amount
    naive: Amount = Field(description="What the same answers would have cost one by one, without reuse and cubes")
    saved: Amount = Field(description="How much less they have cost; looks at cubes apart")
    looks: Amount = Field(description="What looks at cubes have cost, a part of what is spent: an investment")
    returned: Amount = Field(description="What answers in these cubes have saved since they were looked at")
    share: float = Field(description="Of the budget that is spent")
    epsilon: float = Field(description="What all answers together promise, whenever somebody looks")
    delta: float
    raised: bool = Field(description="After answers were given: the promise is an odometer's")
    lowered: bool = Field(description="After answers were given: the promise stays that of the larger budget")
    measurements: int
    cases: dict[str, int]
    changes: list[str]
    entries: list[dict[str, Any]]
    next: str | None


class HeadOut(StrictModel):
    number: int
    digest: str
    chain_id: int
    contract: str


class Checked(StrictModel):
    """Whether a receipt is on this ledger."""

    holds: bool
    detail: str


class ReceiptIn(StrictModel):
    receipt: dict[str, Any]


class PersonIn(StrictModel):
    name: Name = Field(examples=["maria"])
    role: Literal["analyst", "curator", "auditor"] = "analyst"
    wallet: str | None = Field(None, description="An Ethereum address; signs in by EIP-4361")
    must_sign: bool = Field(False, description="Every answer needs the wallet's EIP-712 signature")


class ViewOut(StrictModel):
    dataset: str
    limit: Amount
    used: Amount


class PersonOut(StrictModel):
    name: str
    role: Literal["owner", "analyst", "curator", "auditor"]
    wallet: str | None
    must_sign: bool
    made: int
    disabled: int | None = Field(description="Since when this person is shut out; null: not")
    views: list[ViewOut]


class People(StrictModel):
    analysts: list[PersonOut]


class LimitIn(StrictModel):
    epsilon: Number = Field(description="At the account's delta; 0: no more than was learned so far")


class WalletIn(StrictModel):
    wallet: str | None


class KeyIn(StrictModel):
    scopes: list[Literal["quote", "ask", "statement", "metrics", "manage"]] | None = Field(
        None, description="All that the role may do, unless said otherwise"
    )
    label: str = ""
    days: float | None = Field(None, gt=0, le=3650, description="Until it expires; never, unless said otherwise")


class KeyOut(StrictModel):
    id: str
    person: str
    scopes: list[str]
    label: str
    made: int
    expires: int | None
    revoked: int | None


class NewKey(KeyOut):
    secret: str = Field(description="Shown this once")


class Keys(StrictModel):
    keys: list[KeyOut]


class NonceIn(StrictModel):
    address: Annotated[str, StringConstraints(pattern=r"^0x[0-9a-fA-F]{40}$")]


class NonceOut(StrictModel):
    nonce: str
    expires: int
    message: str = Field(description="To be signed by the wallet (personal_sign)")


class SignInIn(StrictModel):
    message: Annotated[str, StringConstraints(max_length=2_000)]
    signature: Annotated[str, StringConstraints(max_length=140)]


class Session(StrictModel):
    token: str = Field(description="Send it as a bearer token; shown this once")
    expires: int
    name: str
    role: str


class SessionOut(StrictModel):
    id: str
    person: str
    key: str | None = Field(description="The id of the key that it was made with")
    wallet: str | None = Field(description="The wallet that it was made with")
    made: int
    expires: int
    current: bool = Field(description="Whether this request came with it")


class SessionsOut(StrictModel):
    sessions: list[SessionOut]


class Me(StrictModel):
    name: str
    role: str
    scopes: list[str]
    key: str
    wallet: str | None


class Health(StrictModel):
    status: Literal["ok", "closing"]


class Ready(StrictModel):
    ready: bool
    datasets: int
    head: int

"""All errors of this package, in one tree. Messages say what was asked and what is allowed; fields carry the values.

    try:
        answer = account.ask(sql, epsilon="0.5", delta="1e-6")
    except noisebank.NoisebankError as error:
        print(error.kind, error)  # or one of the classes below

NoisebankError
├── Misuse                    the request itself is wrong; nothing happened (exit code 2)
│   ├── BadPolicy             every mistake of a policy file, each with its line
│   ├── BadQuery              not SQL, or a name or value that the policy does not declare
│   ├── UnsupportedQuery      SQL that this bank does not answer, the clause named
│   ├── BadRequest            an accuracy, key or amount outside its range
│   ├── BadTable              the table cannot be read, or is not as its policy says
│   ├── BadBank               not a bank, not readable, a key missing
│   ├── BadLedger             a chain that cannot be used: wrong chain or contract, no funds
│   ├── BankInUse             another process holds the bank
│   └── ExtraMissing          needs a package that is not installed
├── Refused                   a sound request that the books refuse; nothing spent (exit code 1)
│   ├── BudgetExhausted       costs more than is left
│   ├── ViewExhausted         more than this analyst may learn
│   ├── DrawsExhausted        more noise drawn than the proof allows an account
│   ├── LooksExhausted        answers of looks decided as much of the public ledger as they may
│   ├── PriceMoved            costs more than the quote that was accepted
│   ├── TableChanged          the table is no longer the one that was opened
│   ├── KeyReused             the same idempotency key with another request
│   ├── AlreadyTookPart       a device takes part in a learning task once
│   ├── AnswerLost            published once, missing from the vault; never measured again
│   ├── LedgerRefused         any other reason of the contract, in its own words
│   └── LedgerHalted          the chain contradicts what it said before
├── OutcomeUnknown            nobody knows yet whether it was charged; recovery will find out
│   ├── Unreachable           no answer from a service, however often it was asked
│   └── VaultUnreachable      the vault's database is gone or does not answer; nothing is shown that is not sealed
├── TurnedAway                a service refused before the bank saw the request; nothing spent
│   ├── NotSignedIn           no key, or one that opens nothing; a signature that does not hold
│   ├── NotAllowed            a key or role that may not do this
│   ├── NotFound              nothing there, or nothing of the caller's
│   └── TooBusy               too fast for this key, or too much for the service
└── Tampered                  a journal or vault does not agree with itself
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from noisebank.core.units import Precision


ASK_INSTEAD = ". Instead, ask: "


class NoisebankError(Exception):
    """Base of all errors that this package raises on purpose."""

    kind: ClassVar[str] = "NoisebankError"
    """The name in `--json`, logs and HTTP problems. A literal: renaming a class does not change what outsiders read."""

    def place_in_batch(self, number: int, count: int) -> None:
        """Says in the message which question of an atomic batch the error is about: it is the outcome of all."""
        self.args = (f"question {number} of {count}: {self}",)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as message and fields: most errors are made from something other than their message."""
        return _restore_error, (type(self), self.args, dict(self.__dict__))


def _restore_error(kind: type[NoisebankError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> NoisebankError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


def kind_of(error: BaseException) -> str:
    """Returns the name under which an error is reported: its `kind`, or the class's name if it is not one of ours."""
    return error.kind if isinstance(error, NoisebankError) else type(error).__name__


class Misuse(NoisebankError):
    """The request is wrong in itself. Nothing happened."""

    kind = "Misuse"
    nearest: str | None = None
    """Of a question that is not answered: SQL of the nearest one that is."""

    def name_nearest(self, sql: str, price: str = "") -> None:
        """Adds the nearest question that can be answered to the message, and what it costs, if that is known."""
        text = str(self) if self.nearest is None else str(self).rpartition(ASK_INSTEAD)[0]
        self.nearest = sql
        self.args = (f"{text}{ASK_INSTEAD}{sql}{price and f' ({price})'}",)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with a policy: where, what, and what would be right."""

    line: int
    """From 1; 0 if it is in no line."""
    where: str
    what: str
    right: str

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line else ""
        return f"{line}{self.where}: {self.what}; {self.right}"


class BadPolicy(Misuse):
    """Every mistake of a policy, found in one reading."""

    kind = "BadPolicy"

    def __init__(self, mistakes: tuple[Mistake, ...], origin: str = "policy") -> None:
        lines = "\n".join(f"  {mistake}" for mistake in mistakes)
        noun = "mistake" if len(mistakes) == 1 else "mistakes"
        super().__init__(f"{origin} has {len(mistakes)} {noun}:\n{lines}")
        self.mistakes = mistakes
        self.origin = origin


class BadQuery(Misuse):
    """The text is not SQL, or names something that the policy does not declare."""

    kind = "BadQuery"
    is_answer = False
    """Whether the message is the answer, since it follows from the policy: then no other question is named."""

    @classmethod
    def with_answer(cls, message: str) -> BadQuery:
        """Returns the refusal of a question whose answer is public."""
        error = cls(message)
        error.is_answer = True
        return error


class UnsupportedQuery(Misuse):
    """Valid SQL with a clause that this bank does not answer."""

    kind = "UnsupportedQuery"

    def __init__(self, clause: str, advice: str) -> None:
        super().__init__(f"{clause} is not supported: {advice}")
        self.clause, self.advice = clause, advice


class BadRequest(Misuse):
    """A parameter outside its range, or one that is missing (`got` is None)."""

    kind = "BadRequest"

    def __init__(self, parameter: str, got: object, allowed: str) -> None:
        super().__init__(f"{parameter} is missing: {allowed}" if got is None else f"{parameter} = {got!s}: {allowed}")
        self.parameter, self.got, self.allowed = parameter, got, allowed


class BadTable(Misuse):
    """The table cannot be read, or contradicts its policy. Never quotes a value of the table."""

    kind = "BadTable"


class BadBank(Misuse):
    """The folder is no bank, or something in it cannot be read."""

    kind = "BadBank"


class BankInUse(Misuse):
    """Another process holds the bank."""

    kind = "BankInUse"


class BadLedger(Misuse):
    """The chain cannot be used as it is: wrong chain or contract, no funds, no answer."""

    kind = "BadLedger"


class ExtraMissing(Misuse):
    """Something that needs an extra of this package which is not installed."""

    kind = "ExtraMissing"

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f'{purpose} needs {package}: pip install "noisebank[{extra}]"')
        self.package, self.extra = package, extra


class Refused(NoisebankError):
    """A sound request that is refused. Nothing was spent by refusing it."""

    kind = "Refused"


class BudgetExhausted(Refused):
    """The answer costs more than the account has left."""

    kind = "BudgetExhausted"

    def __init__(self, cost: Precision, left: Precision, budget: Precision, unit: str = "precision") -> None:
        from noisebank.core.wording import budget_share, describe_share, format_percent  # which builds on this module

        remains = format_percent(budget_share(left, budget))
        super().__init__(
            f"this costs {describe_share(cost, budget)}; {remains} is left ({cost} and {left} {unit}). "
            "Nothing was spent"
        )
        self.asked, self.left = cost, left


class ViewExhausted(Refused):
    """The answer would tell this analyst more than the owner allows."""

    kind = "ViewExhausted"

    def __init__(self, limit: Precision, used: Precision, budget: Precision) -> None:
        from noisebank.core.wording import budget_share, describe_share, format_percent

        learned = format_percent(budget_share(used, budget))
        super().__init__(
            f"this analyst may learn as much as {describe_share(limit, budget)} and has learned {learned} ({limit} and "
            f"{used} precision): this would be more. Nothing was spent"
        )
        self.limit, self.used = limit, used


class DrawsExhausted(Refused):
    """The account has drawn as much noise as the proof of its budget allows. Known answers are still reused."""

    kind = "DrawsExhausted"

    def __init__(self, most: int, drawn: int) -> None:
        super().__init__(
            f"this account may draw {most:,} noisy numbers that one person can touch and has drawn {drawn:,}: nothing "
            "new is measured, known answers are still reused"
        )
        self.most, self.drawn = most, drawn


class LooksExhausted(Refused):
    """What looks have decided stands on the public ledger, and has reached the share of the budget that it may."""

    kind = "LooksExhausted"

    def __init__(self, most: Precision) -> None:
        super().__init__(
            f"a look would come first, and what looks decide may show at most {most} precision on the public ledger: "
            "that is reached. Say epsilon, sigma or spend, or a floor for a count. Nothing was spent"
        )
        self.most = most


class PriceMoved(Refused):
    """More than `max_cost`; or somebody else's answer changed the price between quote and reservation."""

    kind = "PriceMoved"

    def __init__(self, limit: Precision, cost: Precision, budget: Precision) -> None:
        from noisebank.core.wording import budget_share, describe_share, format_percent

        most = format_percent(budget_share(limit, budget))
        super().__init__(
            f"this costs {describe_share(cost, budget)} and may cost {most} ({cost} and {limit} precision): quote "
            "again. Nothing was spent"
        )
        self.limit, self.cost = limit, cost


class TableChanged(Refused):
    """The table's identity differs from the one recorded when the account was opened."""

    kind = "TableChanged"


class KeyReused(Refused):
    """The same idempotency key came with another request."""

    kind = "KeyReused"

    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key!r} was used for another request; choose a new one")
        self.key = key


class AlreadyTookPart(Refused):
    """A device has one participation in a learning task, and it is used."""

    kind = "AlreadyTookPart"


class AnswerLost(Refused):
    """The ledger shows an answer that the vault no longer has. It is never measured again."""

    kind = "AnswerLost"


class LedgerRefused(Refused):
    """The contract said no, in its own words."""

    kind = "LedgerRefused"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LedgerHalted(Refused):
    """The chain contradicts what it said before, deeper than it may: nothing is spent until somebody has looked."""

    kind = "LedgerHalted"


class OutcomeUnknown(NoisebankError):
    """A step was cut off: it may or may not have been charged. Ask again with the same key."""

    kind = "OutcomeUnknown"


class Unreachable(OutcomeUnknown):
    """A service gave no answer in the time there was. What was asked may have been charged: the same key finds out."""

    kind = "Unreachable"


class TurnedAway(NoisebankError):
    """A service refused a request before its bank saw it. Nothing was spent."""

    kind = "TurnedAway"

    def __init__(self, detail: str, problem: str = "", status: int = 0) -> None:
        super().__init__(detail)
        self.problem, self.status = problem, status


class NotSignedIn(TurnedAway):
    """No key or session, one that opens nothing, or a wallet's signature that does not hold."""

    kind = "NotSignedIn"


class NotAllowed(TurnedAway):
    """This key or role may not do that."""

    kind = "NotAllowed"


class NotFound(TurnedAway):
    """Nothing there, or nothing of the caller's."""

    kind = "NotFound"


class TooBusy(TurnedAway):
    """Faster than this key may ask, or more than the service can queue; asked again in vain."""

    kind = "TooBusy"


class VaultUnreachable(OutcomeUnknown):
    """The vault's database cannot be reached. Whatever was charged stays charged; ask again with the same key."""

    kind = "VaultUnreachable"


class Tampered(NoisebankError):
    """A journal or vault contradicts itself or its signatures."""

    kind = "Tampered"

    def __init__(self, what: str, block: int | None = None) -> None:
        super().__init__(what if block is None else f"block {block}: {what}")
        self.what, self.block = what, block

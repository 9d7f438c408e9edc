"""From reservations to published answers: chooses who draws, and calls `settle`. The path and recovery use it alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noisebank.account.context import AccountContext
from noisebank.account.strategies import Contents, PaidQuestion
from noisebank.core.errors import NoisebankError
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import Question
from noisebank.vault.settlement import Settled, find_recorded, settle
from noisebank.vault.vault import SealedAnswer


def complete_reservations(context: AccountContext, paid: Sequence[PaidQuestion]) -> list[Settled]:
    """Returns the published answer to each reservation, or why there is none. Requires the locks of their queries.

    A REPEAT has no answer of its own but the recorded one, same bits.
    """
    outcomes: dict[bytes, Settled] = {}
    unpublished: dict[bytes, PaidQuestion] = {}
    owners: list[bytes] = []
    for reservation, question in paid:
        owner = reservation.id
        try:
            recorded = find_recorded(context.ledger, reservation)
            owner = recorded.id
            if recorded.answer_digest is None:
                unpublished[owner] = recorded, question
            elif owner not in outcomes:
                outcomes[owner] = context.read_published(owner, recorded.answer_digest, bool(question.query.by))
        except NoisebankError as error:
            outcomes[owner] = error
        owners.append(owner)
    for layer in _independent_layers(list(unpublished.values())):
        outcomes |= _settle_layer(context, layer)
    return [outcomes[id] for id in owners]


def require_completed(context: AccountContext, paid: Sequence[PaidQuestion]) -> None:
    """Finishes reservations that others build on; raises the first error."""
    for outcome in complete_reservations(context, paid):
        if isinstance(outcome, NoisebankError):
            raise outcome


def _independent_layers(paid: Sequence[PaidQuestion]) -> Iterator[list[PaidQuestion]]:
    """Yields reservations in layers: within one, none builds on another one's answer (same query or cube)."""
    waiting = list(paid)
    while waiting:
        layer: list[PaidQuestion] = []
        later: list[PaidQuestion] = []
        taken: set[bytes | int] = set()
        for part in waiting:
            name = part[0].cube or part[0].query
            (later if name in taken else layer).append(part)
            taken.add(name)
        yield layer
        waiting = later


def _settle_layer(context: AccountContext, paid: Sequence[PaidQuestion]) -> dict[bytes, Settled]:
    """Settles reservations of which none builds on another, and keeps the cubes' state to what is sealed."""
    questions = {reservation.id: question for reservation, question in paid}
    reservations = [reservation for reservation, _ in paid]
    in_cubes = [reservation.id for reservation in reservations if reservation.cube]
    drawn: dict[bytes, bytes] = {}

    def draw(unsealed: Sequence[Reservation]) -> list[Settled]:
        answers = _draw_answers(context, [(reservation, questions[reservation.id]) for reservation in unsealed])
        drawn.update({answer.id: answer.salt for answer in answers if isinstance(answer, SealedAnswer)})
        return answers

    try:
        settled = settle(reservations, context.vault, context.ledger, draw)
    except BaseException:
        for id in in_cubes:
            context.cubes.forget_sample(id)
        raise
    outcomes = dict(zip(questions, settled, strict=True))
    for id in in_cubes:
        sealed = outcomes[id]
        if not isinstance(sealed, SealedAnswer):
            context.cubes.forget_sample(id)
        elif drawn.get(id, sealed.salt) != sealed.salt:  # another sample was sealed for it before ours
            context.cubes.rebuild()
        else:
            context.cubes.note_published(id)
    return outcomes


def _draw_answers(context: AccountContext, paid: Sequence[PaidQuestion]) -> list[Settled]:
    """Makes the answers to reservations, each by its own strategy, and salts them. Nothing is durable yet."""
    contents: dict[bytes, Contents] = {}
    payable = []
    for part in paid:
        try:
            if part[0].fresh_precision:
                context.draws.check_paid(part[0])
            payable.append(part)
        except NoisebankError as error:
            contents[part[0].id] = error
    for strategy, own in (
        (context.plain, [part for part in payable if not part[0].cube]),
        (context.cubes, [part for part in payable if part[0].cube]),
    ):
        if own:
            contents |= zip((reservation.id for reservation, _ in own), strategy.draw_contents(own), strict=True)
    return [_salt_contents(context, *part, contents[part[0].id]) for part in paid]


def _salt_contents(
    context: AccountContext, reservation: Reservation, question: Question, contents: Contents
) -> Settled:
    if isinstance(contents, NoisebankError):
        return contents
    body = {
        "account": context.id.hex(),
        "id": reservation.id.hex(),
        "query": reservation.query.hex(),
        "case": reservation.case.name,
        "wanted": reservation.target.units,
        "fresh": reservation.fresh_precision.units,
        "sensitivity": str(context.sensitivity_of(question.query)),
        "unit": str(question.unit),
    }
    return SealedAnswer(reservation.id, context.id, reservation.query, body | contents, context.entropy.token())

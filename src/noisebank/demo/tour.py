"""The tour through the served demonstration: one stop for each of the papers."""

from __future__ import annotations

from noisebank.bank.bank import Bank
from noisebank.demo.phones import DEVICE_COUNT
from noisebank.service.learning import LearningMonitor
from noisebank.service.settings import Settings
from noisebank.service.tour import TourStop


def list_stops(bank: Bank, settings: Settings) -> list[TourStop]:
    """Return the stops, in the order of the papers."""
    learning = LearningMonitor(bank, settings)
    try:
        tasks = {task["kind"]: f"/learning/{task['id']}" for task in learning.list_tasks()["tasks"]}
        rounds = tuple(
            (f"/learning/relays/{round['id']}", round["name"]) for round in learning.relays.list_reports()
        )  # fmt: skip
    finally:
        learning.close()
    return [
        TourStop(
            "Answers that are asked again",
            "150 random requests over five questions took few looks at the data: what was paid for once is used again.",
            (("/d/survey", "survey"), ("/d/survey/statement", "its statement, for the owner")),
            "p0",
        ),
        TourStop(
            "Answers that follow from others",
            "Two analysts asked overlapping questions about a clinic; what earlier answers tell is not paid for twice.",
            (("/d/clinic", "clinic"), ("/d/clinic/statement", "its statement, for the owner")),
            "p1",
        ),
        TourStop(
            "A mean that nobody collects",
            "Ten members averaged their numbers in a relay, and again under masks; each sees what it was promised, "
            "against whom.",
            rounds,
            "p2",
        ),
        TourStop(
            "Accuracy first",
            "Questions about electricity meters named the accuracy that they need; the bank found the least noise cost "
            "from public facts, before any look at the data.",
            (("/d/meters", "meters"), ("/d/meters/console", "ask within a distance, as maria or noor")),
            "p3",
        ),
        TourStop(
            "One noisy report from each phone",
            f"{DEVICE_COUNT:,} phones sent one report each, noisy before it left the phone, and a model was learned "
            "from them; a second report is refused by the ledger.",
            ((tasks["sgd"], "phone batteries"),),
            "p4",
        ),
        TourStop(
            "A crowd that judges itself",
            "Seven members trained on handwritten digits, two of them cheating; the recorded task can be verified "
            "round by round.",
            ((tasks["crowd"], "handwritten digits"),),
            "p4",
        ),
    ]  # fmt: skip

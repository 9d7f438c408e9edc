"""P3, accuracy-driven budgets (OPU-TF-IoT)."""

from __future__ import annotations

from math import exp, sqrt

from research.papers.errata.erratum import Erratum, Makers, describe


def _search(
    truth: float, accuracy: float = 0.95, default: float = 1.0, step: float = 0.0005, slack: float = 0.02
) -> float:
    """The epsilon that Algorithm 1 ends at, with the mean error 1/epsilon of Laplace noise."""
    steps = 0
    while abs(1 - 1 / ((default - steps * step) * truth) - accuracy) > slack + 1e-12:
        steps += 1
    return default - steps * step


def _published_epsilon() -> Erratum:
    found = {f"count_{count}": _search(float(count)) for count in (200, 201, 202)}
    return describe(
        "Algorithm 1, Definition 2", "each answer satisfies epsilon_sut-DP",
        "epsilon_sut is found by comparing with the true answer, and published: neighbouring tables publish different "
        "numbers",
        **found,
    )  # fmt: skip


def _empty_loop() -> Erratum:
    total, default = 8.0, 0.5
    return describe("Algorithm 1, line 1", "while i <= k and eps_t <= eps_def",
                    "eps_t >= eps_def: as printed the loop never begins", eps_t=total, eps_def=default,
                    condition_as_printed=total <= default)  # fmt: skip


def _endless_loop() -> Erratum:
    actual, required, slack, turns = 0.99, 0.95, 0.02, 0
    while abs(actual - required) > slack and turns < 1_000_000:
        turns += 1  # lines 16 to 18 change eps_sut only
    return describe("Algorithm 1, lines 16 to 18", "the inner loop lowers eps_sut until the accuracy fits",
                    "it never evaluates the accuracy again", turns_until_we_stopped=turns)  # fmt: skip


def _maximum() -> Erratum:
    one, other = [0, 0, 99_999], [0, 0]
    return describe("Algorithm 1 (sensitivity 1), Section IV", "Average, Maximum and Minimum have sensitivity 1",
                    "removing one person moves the maximum of capital gains by its range",
                    maximum=max(one), without_one_person=max(other), sensitivity=max(one) - max(other))  # fmt: skip


def _reuse_key() -> Erratum:
    ledger: dict[tuple[float, str, int], tuple[str, int]] = {}
    answers = {}
    for question, truth in (("people over 60", 2000), ("people in New York", 300)):
        key = (0.95, "Count", 1)
        answers[question] = ledger.setdefault(key, (question, truth))
    return describe("Algorithm 3", "reuse if accuracy, function and type match a record",
                    "two different questions can match", asked="people in New York",
                    gets_the_answer_of=answers["people in New York"][0])  # fmt: skip


def _query_types() -> Erratum:
    return describe("Section III-D and Section IV", "N = 0 is the whole data set (III-D); N = 0 is a portion (IV)",
                    "one contradicts the other", n_0_in_III_D="whole", n_0_in_IV="portion")  # fmt: skip


def _budget_of_table() -> Erratum:
    return describe("Table II, Section IV", "the total budget is 8", "its own columns for eps_def 1 spend more",
                    budget=8, BST=9 * 1.0, standard=10 * 1.0)  # fmt: skip


def _too_accurate() -> Erratum:
    actual, required, slack = 0.999, 0.95, 0.02
    return describe("Definition 3", "satisfactory if |A_act - A_req| <= tau",
                    "A_act >= A_req - tau: as printed a better answer does not satisfy",
                    A_act=actual, A_req=required, satisfies_as_printed=abs(actual - required) <= slack)  # fmt: skip


def _relative_error() -> Erratum:
    truth, noisy = 1, 4
    error = abs(truth - noisy) / truth
    return describe("Eq. 4 and 5", "0 <= relative error <= 1, hence 0 <= accuracy <= 1",
                    "noise may exceed the answer; and an answer of 0 has no relative error at all",
                    truth=truth, noisy=noisy, relative_error=error, accuracy=1 - error)  # fmt: skip


def _other_noise() -> Erratum:
    return describe(
        "Section III-D1", "the accuracy of an answer is the mean over 1,000 other draws of its noise",
        "the answer that is returned has a noise of its own, which errs more than the mean of Laplace noise often",
        chance=exp(-1.0),
    )  # fmt: skip


def _flat_reuse() -> Erratum:
    default, paid = 0.5, 9
    return describe(
        "Section IV, Table II, Figure 7", "BST-DP [18] costs the sum of the epsilons of ten queries, one repeated",
        "[18] (P0, Theorem 3) adds squares: its own cost is less than OPU-TF-IoT's for every function",
        eps_def=default, BST_as_printed=paid * default, BST_by_its_own_theorem=sqrt(paid) * default,
        OPU_printed="2.00 to 3.12",
    )  # fmt: skip


def _caption() -> Erratum:
    captions = (0.005, 0.005, 0.05)
    return describe("Table III, caption", "eta in {0.005, 0.005, 0.05}", "its parts are for 0.0005, 0.005 and 0.05",
                    different_values_in_the_caption=len(set(captions)), parts=3)  # fmt: skip


ERRATA: Makers = (
    _published_epsilon, _empty_loop, _endless_loop, _maximum, _reuse_key, _query_types, _budget_of_table,
    _too_accurate, _relative_error, _other_noise, _flat_reuse, _caption,
)  # fmt: skip

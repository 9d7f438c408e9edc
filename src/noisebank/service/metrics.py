"""Prometheus metrics. Labels are names of ours: routes, cases, problems, data sets; never a question or a value."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from noisebank.bank.bank import Bank

BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters and gauges of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "noisebank_requests_total", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "noisebank_request_seconds",
            "Time to the response",
            ["route"],
            buckets=BUCKET_SECONDS,
            registry=self._registry,
        )
        self.answers = Counter(
            "noisebank_answers_total", "Answers by data set and case", ["dataset", "case"], registry=self._registry
        )
        self._request_children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        """Of `requests` and `seconds`, by route and status: finding them takes longer than counting."""
        self.problems = Counter(
            "noisebank_problems_total", "Requests that failed, by problem", ["problem"], registry=self._registry
        )
        self.active_jobs = Gauge(
            "noisebank_waiting", "Requests in work or waiting for a thread", registry=self._registry
        )
        self._balances = Gauge(
            "noisebank_precision", "Budget and spend of an account", ["dataset", "what"], registry=self._registry
        )
        self._blocks = Gauge("noisebank_blocks", "The ledger's newest block", registry=self._registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and the time that it took."""
        children = self._request_children.get((route, status))
        if children is None:
            children = self.requests.labels(route, str(status)), self.seconds.labels(route)
            self._request_children[route, status] = children
        requests, duration = children
        requests.inc()
        duration.observe(seconds)

    def render_text(self, bank: Bank, active_jobs: int) -> bytes:
        """Return all metrics in Prometheus' text format, with the current balances."""
        for account in bank.accounts():
            state = account.state
            self._balances.labels(account.name, "budget").set(float(state.budget))
            self._balances.labels(account.name, "spent").set(float(state.spent))
        self._blocks.set(bank.head().number)
        self.active_jobs.set(active_jobs)
        return generate_latest(self._registry)

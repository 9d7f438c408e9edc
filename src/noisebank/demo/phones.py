"""A learning task for the served demonstration: synthetic phones that each report once, with local noise."""

from __future__ import annotations

import numpy as np

from noisebank.bank.bank import Bank
from noisebank.core.entropy import simulation_rng
from noisebank.federated.fedsgd import Design, LearningAccount, Task, learn_model, open_task
from noisebank.federated.ldp import Category, Number, Schema

DEVICE_COUNT = 2_000


def train_phone_model(bank: Bank) -> LearningAccount:
    """Train a task on the bank's own ledger; every group is charged before its reports are drawn."""
    source = simulation_rng(8)
    hours, age = source.uniform(0, 12, DEVICE_COUNT), source.uniform(0, 5, DEVICE_COUNT)
    flat = hours / 6 - 1 + 0.6 * (age / 2.5 - 1) + source.normal(0, 0.3, DEVICE_COUNT) > 0
    design = Design(
        Schema((Number("hours a day", 0, 12), Number("age in years", 0, 5), Category("flat by night", ("no", "yes")))),
        "flat by night",
    )
    task = Task("phone batteries", design, epsilon="2", group=100, devices=DEVICE_COUNT)
    rows, targets = design.build_rows(
        {
            "hours a day": hours.tolist(),
            "age in years": age.tolist(),
            "flat by night": np.where(flat, "yes", "no").tolist(),
        }
    )
    account = open_task(bank.parts, task)
    learn_model(task, rows, targets, account)
    return account

"""LDP-FedSGD: learn a model from devices that each send one noisy gradient, once, charged before it is drawn.

>>> from noisebank.federated.ldp import Category, Number, Schema
>>> design = Design(Schema((Number("age", 0, 100), Category("buys", ("no", "yes")))), target="buys")
>>> task = Task("offers", design, model="logistic", epsilon="2", group=50, devices=400)
>>> table = {"age": [20, 80] * 200, "buys": ["no", "yes"] * 200}
>>> rows, targets = design.build_rows(table)
>>> learned = learn(task, rows, targets)  # in one process; with a bank's account every group is charged first
>>> learned.group_count, learned.device_count
(8, 400)

The Flower client and server are in `flower_client` and `flower_server` (extra `[federated]`): docs/learning.md.
"""

from noisebank.federated.fedsgd.collection import Collected, collect_reports
from noisebank.federated.fedsgd.descent import Descent
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.fedsgd.device import Device, Order
from noisebank.federated.fedsgd.gradients import ExactMean, GradientNoise, published_noise, task_noise
from noisebank.federated.fedsgd.models import MODELS, Model, model_named
from noisebank.federated.fedsgd.participation import LearningAccount, open_or_resume, open_task, task_account, tasks
from noisebank.federated.fedsgd.simulation import Learned, learn, learned_so_far, noisy_mean
from noisebank.federated.fedsgd.task import Task

__all__ = [
    "MODELS",
    "Collected",
    "Descent",
    "Design",
    "Device",
    "ExactMean",
    "GradientNoise",
    "Learned",
    "LearningAccount",
    "Model",
    "Order",
    "Task",
    "collect_reports",
    "learn",
    "learned_so_far",
    "model_named",
    "noisy_mean",
    "open_or_resume",
    "open_task",
    "published_noise",
    "task_account",
    "task_noise",
    "tasks",
]

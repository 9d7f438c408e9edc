"""LDP-FedSGD: learn a model from devices that each send one noisy gradient, once, charged before it is drawn.

>>> from noisebank.federated.ldp import Category, Number, Schema
>>> design = Design(Schema((Number("age", 0, 100), Category("buys", ("no", "yes")))), target="buys")
>>> task = Task("offers", design, model="logistic", epsilon="2", group=50, devices=400)
>>> table = {"age": [20, 80] * 200, "buys": ["no", "yes"] * 200}
>>> rows, targets = design.build_rows(table)
>>> learned = learn_model(task, rows, targets)  # in one process; with a bank's account every group is charged first
>>> learned.group_count, learned.device_count
(8, 400)

The Flower client and server are in `flower_client` and `flower_server` (extra `[federated]`):
docs/explanation/learning.md.
"""

from noisebank.federated.fedsgd.collection import CollectedReports, collect_reports
from noisebank.federated.fedsgd.descent import GradientDescent
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.fedsgd.device import Device, TrainingOrder
from noisebank.federated.fedsgd.gradients import ExactMean, GradientNoise, published_noise, task_noise
from noisebank.federated.fedsgd.models import MODELS, SgdModel, get_model
from noisebank.federated.fedsgd.participation import (
    LearningAccount,
    find_task,
    list_tasks,
    open_or_resume_task,
    open_task,
)
from noisebank.federated.fedsgd.simulation import LearnedModel, learn_model, noisy_mean, rebuild_model
from noisebank.federated.fedsgd.task import Task

__all__ = [
    "MODELS",
    "CollectedReports",
    "Design",
    "Device",
    "ExactMean",
    "GradientDescent",
    "GradientNoise",
    "LearnedModel",
    "LearningAccount",
    "SgdModel",
    "Task",
    "TrainingOrder",
    "collect_reports",
    "find_task",
    "get_model",
    "learn_model",
    "list_tasks",
    "noisy_mean",
    "open_or_resume_task",
    "open_task",
    "published_noise",
    "rebuild_model",
    "task_noise",
]

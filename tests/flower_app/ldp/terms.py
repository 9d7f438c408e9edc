"""What all parts agree on."""

from noisebank.federated.fedsgd import Design, Task
from noisebank.federated.ldp import Category, Number, Schema

DESIGN = Design(Schema((Number("age", 0, 100), Category("buys", ("no", "yes")))), "buys")
TASK = Task("offers", DESIGN, epsilon="2", group=2, devices=4)

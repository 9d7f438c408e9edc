"""The command line: `main` and its commands. Exit codes: 0 done, 1 refused (nothing spent), 2 misuse (nothing done)."""

from __future__ import annotations

import os

import click

from noisebank.cli import (
    analyst as ruling,
)
from noisebank.cli import (
    ask as asking,
)
from noisebank.cli import (
    backup as keeping,
)
from noisebank.cli import (
    chain as chaining,
)
from noisebank.cli import (
    demo as showing,
)
from noisebank.cli import (
    key as admitting,
)
from noisebank.cli import (
    learn as learn_group,
)
from noisebank.cli import (
    learn_hosting as crowd_hosting,
)
from noisebank.cli import (
    learn_sgd as learning,
)
from noisebank.cli import (
    learn_tasks as crowding,
)
from noisebank.cli import (
    local as localising,
)
from noisebank.cli import (
    open as owning,
)
from noisebank.cli import (
    policy as drafting,
)
from noisebank.cli import (
    relay as relaying,
)
from noisebank.cli import (
    serve as serving,
)
from noisebank.cli import (
    statement as books,
)
from noisebank.cli import (
    verify as verifying,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noisebank")
def main() -> None:
    """A privacy bank: noisy answers, an enforced budget, books that anyone can check.

    Start with:  noisebank demo
    """
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False


# Commands of these two modules join the group `learn` when they are imported.
assert {crowd_hosting.host.name, crowding.post.name} <= learn_group.learn.commands.keys()
learn_group.learn.add_command(learning.sgd)
for command in (
    showing.demo, owning.init, drafting.policy, owning.open_, asking.quote, asking.ask, asking.explain, books.statement,
    verifying.verify, owning.budget, ruling.analyst, ruling.roles, ruling.pause, ruling.resume, chaining.deploy,
    chaining.anchor, serving.serve, admitting.key, keeping.backup, keeping.restore, localising.local, relaying.relay,
    learn_group.learn,
):  # fmt: skip
    main.add_command(command)

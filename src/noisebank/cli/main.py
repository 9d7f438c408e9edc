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
assert {crowd_hosting.host_chain.name, crowding.post_learning_task.name} <= learn_group.learn_group.commands.keys()
learn_group.learn_group.add_command(learning.learn_sgd)
for command in (
    showing.run_demo,
    owning.init_bank,
    drafting.policy_group,
    owning.open_account,
    asking.quote_question,
    asking.ask_question,
    asking.explain_questions,
    books.show_statement,
    verifying.verify_books,
    owning.budget_group,
    ruling.analyst_group,
    ruling.roles_group,
    ruling.pause_account,
    ruling.resume_account,
    chaining.deploy_contract,
    chaining.anchor_journal,
    serving.serve_bank,
    admitting.key_group,
    keeping.back_up_bank,
    keeping.restore_bank,
    localising.local_group,
    relaying.relay_group,
    learn_group.learn_group,
):
    main.add_command(command)

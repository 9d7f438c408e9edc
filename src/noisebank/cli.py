"""The command line: `main` and its commands. Exit codes: 0 done, 1 refused (nothing spent), 2 misuse (nothing done)."""

from __future__ import annotations

import os

import click

from noisebank.commands import (
    admitting,
    asking,
    books,
    chaining,
    crowd_hosting,
    crowding,
    drafting,
    keeping,
    learn_group,
    learning,
    localising,
    owning,
    relaying,
    ruling,
    serving,
    showing,
    verifying,
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

"""The command line: `main` and its commands. Exit codes: 0 done, 1 refused (nothing spent), 2 misuse (nothing done)."""

from __future__ import annotations

import inspect
import os

import click

from noisebank.cli import learn_hosting, learn_tasks
from noisebank.cli.analyst import analyst_group
from noisebank.cli.anchor import anchor_journal
from noisebank.cli.ask import ask_question
from noisebank.cli.backup import back_up_bank
from noisebank.cli.budget import budget_group
from noisebank.cli.demo import run_demo
from noisebank.cli.deploy import deploy_contract
from noisebank.cli.explain import explain_questions
from noisebank.cli.init import init_bank
from noisebank.cli.key import key_group
from noisebank.cli.learn import learn_group
from noisebank.cli.learn_sgd import learn_sgd
from noisebank.cli.local import local_group
from noisebank.cli.open import open_account
from noisebank.cli.pause import pause_account
from noisebank.cli.policy import policy_group
from noisebank.cli.quote import quote_question
from noisebank.cli.relay import relay_group
from noisebank.cli.restore import restore_bank
from noisebank.cli.resume import resume_account
from noisebank.cli.roles import roles_group
from noisebank.cli.serve import serve_bank
from noisebank.cli.statement import show_statement
from noisebank.cli.verify import verify_books


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noisebank")
def main() -> None:
    """A privacy bank: noisy answers, an enforced budget, books that anyone can check.

    Start with:  noisebank demo
    """
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False


# Commands of these two modules join the group `learn` when they are imported.
assert {learn_hosting.host_chain.name, learn_tasks.post_learning_task.name} <= learn_group.commands.keys()
learn_group.add_command(learn_sgd)
for command in (
    run_demo, init_bank, policy_group, open_account, quote_question, ask_question, explain_questions, show_statement,
    verify_books, budget_group, analyst_group, roles_group, pause_account, resume_account, deploy_contract,
    anchor_journal, serve_bank, key_group, back_up_bank, restore_bank, local_group, relay_group, learn_group,
):  # fmt: skip
    main.add_command(command)


def keep_example_lines(command: click.Command) -> None:
    """Leaves each example of a command's help on a line of its own, to be pasted; click would fill paragraphs."""
    command.help = inspect.cleandoc(command.help or "").replace("\n\nExample:", "\n\n\b\nExample:")
    if isinstance(command, click.Group):
        for each in command.commands.values():
            keep_example_lines(each)


keep_example_lines(main)

"""The reference of the command line, from click: every command with its help, example and options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from noisebank.cli.main import main
from research.__main__ import main as research
from tools.docsite.markdown import as_code, format_block, format_table

PROGRAMS = (("noisebank", main), ("python -m research", research))


def list_commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """Yields every command below a group with its full name."""
    for name, command in group.commands.items():
        path = f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from list_commands(command, path)
        else:
            yield path, command


def write_commands() -> str:
    """Returns the page: one section per command."""
    return "\n\n".join(
        write_command(path, command) for program, group in PROGRAMS for path, command in list_commands(group, program)
    )


def write_command(path: str, command: click.Command) -> str:
    """Returns the section of one command."""
    text, examples = split_help(command.help or "")
    usage = " ".join(
        [path, *(argument.make_metavar(_context(command)) for argument in _arguments(command)), "[OPTIONS]"]
    )
    parts = [f"## {path}", text, format_block("\n".join(examples) or usage, "sh")]
    parts.append(f"Usage: `{usage}`")
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        parts.append(format_table(("option", "meaning"), [_describe_option(option, command) for option in options]))
    return "\n\n".join(parts)


def split_help(text: str) -> tuple[str, list[str]]:
    """Returns the help as paragraphs, and its examples as lines for a shell."""
    examples, lines = [], []
    for line in inspect.cleandoc(text).replace("\b", "").splitlines():
        match = re.match(r"\s*Example:\s*(.*)", line)
        if match:
            examples.append(match[1])
        elif examples and line.startswith("  "):
            examples[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines).strip(), examples


def _describe_option(option: click.Option, command: click.Command) -> tuple[str, str]:
    names = ", ".join(as_code(name) for name in (*reversed(option.opts), *option.secondary_opts))
    value = "" if option.is_flag or option.count else option.make_metavar(_context(command))
    return f"{names} {as_code(value)}".strip(), f"{option.help or ''}{_describe_default(option)}"


def _describe_default(option: click.Option) -> str:
    default = option.default
    if not option.show_default or callable(default) or default is None:
        return ""
    return f" Default: `{default}`."


def _arguments(command: click.Command) -> list[click.Argument]:
    return [argument for argument in command.params if isinstance(argument, click.Argument)]


def _context(command: click.Command) -> click.Context:
    return click.Context(command)

"""The references of errors, of the service's settings and of the policy file, each from the code that defines it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from noisebank.core import errors
from noisebank.policy.schema import COLUMN_SETTINGS, TOP_SETTINGS, PolicySetting
from noisebank.service.errors import BANK_PROBLEMS
from noisebank.service.settings import ENVIRONMENT_PREFIX, list_settings
from tools.docsite.markdown import as_code, format_block, format_table


def write_errors() -> str:
    """Returns the drawn tree, then every error with its meaning and the problem that a service reports it as."""
    tree = (errors.__doc__ or "").split("\n\nNoisebankError\n", 1)[1]
    rows = (
        (as_code(kind.__name__), (kind.__doc__ or "").splitlines()[0], as_code(problem_name(kind)))
        for kind in list_errors()
    )
    return "\n\n".join(
        [format_block(f"NoisebankError\n{tree}", "text"), format_table(("error", "meaning", "over HTTP"), rows)]
    )


def list_errors() -> Iterator[type[errors.NoisebankError]]:
    """Yields every class of the tree, in the order of the module."""
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.NoisebankError):
            yield kind


def problem_name(kind: type[errors.NoisebankError]) -> str:
    """Returns the name of the HTTP problem of exactly this class; empty if there is none."""
    return BANK_PROBLEMS[kind].name if kind in BANK_PROBLEMS else ""


def write_settings() -> str:
    """Returns the table of the service's settings."""
    rows = (
        (as_code(name), as_code(f"{ENVIRONMENT_PREFIX}{name.upper()}"), as_code(default) or "(empty)", text)
        for name, default, text in list_settings()
    )
    return format_table(("setting", "environment", "default", "meaning"), rows)


def write_policy() -> str:
    """Returns the settings of a policy file, then those of a column."""
    return "\n\n".join([
        "## Settings of the table", _write_policy_table("", TOP_SETTINGS),
        "## Settings of a column", _write_policy_table("columns.NAME.", COLUMN_SETTINGS),
    ])  # fmt: skip


def _write_policy_table(prefix: str, settings: tuple[PolicySetting, ...]) -> str:
    rows = ((as_code(prefix + setting.key), as_code(setting.form), setting.text) for setting in settings)
    return format_table(("setting", "written as", "meaning"), rows)

"""The reference of the Python API, from signatures and docstrings of the public names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

import noisebank
from noisebank.client.async_client import AsyncAccount, AsyncClient
from noisebank.client.sync_client import Client, RemoteAccount
from tools.docsite.markdown import format_block

MAX_LINE = 88
CLIENTS = (Client, RemoteAccount, AsyncClient, AsyncAccount)
"""What `connect` and `connect_async` return: public, though nobody imports them."""


def list_public() -> Iterator[tuple[str, object]]:
    """Yields what `noisebank` exports, functions first, then what its clients are."""
    names = sorted(noisebank.__all__, key=lambda name: (name[0].isupper(), name))
    yield from ((f"noisebank.{name}", getattr(noisebank, name)) for name in names)
    for kind in CLIENTS:
        yield kind.__name__, kind


def write_python() -> str:
    """Returns the page: one section per public name."""
    return "\n\n".join(
        write_class(name, item) if inspect.isclass(item) else write_function(name, item, "##")
        for name, item in list_public()
        if inspect.isclass(item) or inspect.isfunction(item)
    )


def write_class(name: str, kind: type) -> str:
    """Returns the section of a class: what it is, then its public members."""
    parts = [f"## {name}", inspect.getdoc(kind) or "", _list_fields(kind)]
    for member, value in list_members(kind):
        label = f"{kind.__name__}.{member}"
        if isinstance(value, property):
            parts += [f"### {label}", _format_type(value), inspect.getdoc(value) or ""]
        else:
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            parts.append(write_function(label, function, "###"))
    return "\n\n".join(part for part in parts if part)


def list_members(kind: type) -> Iterator[tuple[str, object]]:
    """Yields public methods and properties, also inherited ones of this package, each once."""
    names = [
        name
        for base in kind.__mro__
        if base.__module__.startswith("noisebank")
        for name in vars(base)
        if not name.startswith("_")
    ]
    for name in dict.fromkeys(names):
        value = inspect.getattr_static(kind, name)
        if isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value):
            yield name, value


def write_function(name: str, function: Callable[..., object], mark: str) -> str:
    """Returns the section of a function: its signature and what it says of itself."""
    signature = format_signature(name.rpartition(".")[2], function)
    return "\n\n".join([f"{mark} {name}", format_block(signature, "python"), inspect.getdoc(function) or ""]).rstrip()


def format_signature(name: str, function: Callable[..., object]) -> str:
    """Returns the signature, one parameter per line where it is long."""
    signature = inspect.signature(function)
    parameters: list[str] = []
    for key, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in parameters):
            parameters.append("*")
        if key not in ("self", "cls"):
            parameters.append(_format_parameter(parameter))
    result = signature.return_annotation
    tail = "" if result is signature.empty else f" -> {_format_annotation(result)}"
    line = f"{name}({', '.join(parameters)}){tail}"
    if len(line) <= MAX_LINE:
        return line
    inner = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{inner}){tail}"


def _format_parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_format_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {'...' if callable(parameter.default) else repr(parameter.default)}"


def _format_annotation(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _list_fields(kind: type) -> str:
    """The public fields of a dataclass, with their types."""
    if not is_dataclass(kind):
        return ""
    lines = [f"{field.name}: {field.type}" for field in fields(kind) if not field.name.startswith("_")]
    return format_block("\n".join(lines), "python") if lines else ""


def _format_type(value: property) -> str:
    annotation = inspect.signature(value.fget).return_annotation if value.fget else ""
    return f"Type: `{_format_annotation(annotation)}`"

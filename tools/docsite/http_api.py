"""The reference of the HTTP API, from the application's OpenAPI description and the table of problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any

from noisebank import create_bank, open_bank
from noisebank.client.errors import ERRORS
from noisebank.service import api
from noisebank.service.app import make_app
from noisebank.service.authenticator import Requires
from noisebank.service.errors import list_problems
from noisebank.service.settings import Settings
from tools.docsite.markdown import as_code, format_table

TAGS = {
    "public": "Public facts",
    "asking": "Quotes and answers",
    "ledger": "Ledger, entries, statements",
    "learning": "Learning tasks",
    "owner": "People and keys",
    "sign-in": "Sessions and signing in",
}


def write_http_api() -> str:
    """Returns the page: every route with its fields, then every schema that a route takes or gives."""
    with TemporaryDirectory() as folder:
        create_bank(Path(folder) / "bank")
        with open_bank(Path(folder) / "bank") as bank:
            app = make_app(bank, Settings(bank=Path(folder) / "bank"))
            description = app.openapi()
            scopes = dict(list_scopes())
            app.state.access.close()
    parts = [write_routes(tag, description, scopes) for tag in list_tags(description)]
    return "\n\n".join([*parts, "## Bodies", *write_schemas(description)])


def list_tags(description: Mapping[str, Any]) -> list[str]:
    """Returns the groups of routes, in the order in which the application adds them."""
    tags = (operation["tags"][0] for methods in description["paths"].values() for operation in methods.values())
    return list(dict.fromkeys(tags))


def list_scopes() -> Iterator[tuple[tuple[str, str], str]]:
    """Yields what each route asks of its caller, by method and path."""
    for module in iter_modules(api.__path__, f"{api.__name__}."):
        for route in import_module(module.name).router.routes:
            needs = [part.call.scope for part in route.dependant.dependencies if isinstance(part.call, Requires)]
            scope = needs[0] if needs else None
            text = "anybody" if scope is None else "anybody signed in" if scope == "any" else as_code(scope.value)
            for method in route.methods:
                yield (method.lower(), route.path), text


def write_routes(tag: str, description: Mapping[str, Any], scopes: Mapping[tuple[str, str], str]) -> str:
    """Returns one group of routes."""
    parts = [f"## {TAGS.get(tag, tag.capitalize())}"]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if operation["tags"][0] == tag:
                parts += [f"### {method.upper()} {path}", operation.get("description", "")]
                parts.append(f"Needs: {scopes[method, path]}. {_describe_bodies(operation)}")
                parts += _describe_parameters(operation)
    return "\n\n".join(parts)


def write_schemas(description: Mapping[str, Any]) -> Iterator[str]:
    """Yields one section for every schema."""
    for name, schema in description["components"]["schemas"].items():
        yield f"### {name}"
        yield schema.get("description", "")
        required = set(schema.get("required", ()))
        rows = [
            (as_code(field), _describe_type(form), "yes" if field in required else "", form.get("description", ""))
            for field, form in schema.get("properties", {}).items()
        ]
        yield format_table(("field", "type", "required", "meaning"), rows)


def write_problems() -> str:
    """Returns the table of every problem."""
    rows = (
        (as_code(row.name), str(row.status), row.title, row.spent, as_code(ERRORS[row.name].__name__))
        for row in list_problems()
    )
    return format_table(("name", "status", "when", "spent", "in the SDK"), rows)


def _describe_parameters(operation: Mapping[str, Any]) -> list[str]:
    rows = [
        (as_code(parameter["name"]), parameter["in"], _describe_type(parameter["schema"]))
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "path"
    ]
    return [format_table(("parameter", "in", "type"), rows)] if rows else []


def _describe_bodies(operation: Mapping[str, Any]) -> str:
    taken = _body_type(operation.get("requestBody", {}))
    given = next((_body_type(answer) for status, answer in operation["responses"].items() if status[0] == "2"), "")
    return " ".join(f"{verb} {kind}." for verb, kind in (("Takes", taken), ("Returns", given)) if kind)


def _body_type(body: Mapping[str, Any]) -> str:
    for media, content in body.get("content", {}).items():
        schema = content.get("schema", {})
        return _describe_type(schema) if schema else as_code(media)
    return ""


def _describe_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_describe_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(as_code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return as_code(str(schema["const"]))
    if schema.get("type") == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    return f"{schema.get('type', 'any')}{_describe_range(schema)}"


def _describe_range(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if "maxLength" in schema:
        return f", at most {schema['maxLength']} characters"
    return ""

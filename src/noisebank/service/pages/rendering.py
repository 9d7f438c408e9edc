"""From facts to HTML: templates, tokens for forms, problems as pages."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote as quoted

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from noisebank import __version__
from noisebank.digests import keccak
from noisebank.errors import NoisebankError
from noisebank.service.gate import COOKIE, sent_from_elsewhere, state_of
from noisebank.service.pages import drawing, plain_words
from noisebank.service.problems import Problem, Turned
from noisebank.service.roles import Caller, Scope

HERE = Path(__file__).parent
STATIC = HERE / "static"
FORM_COOKIE = "noisebank_form"
"""Of visitors without a session: what their forms' token is made from."""


@cache
def templates() -> Environment:
    """Everything is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.globals |= {"static": static_address, "draw": drawing, "say": plain_words, "version": __version__}
    made.filters |= {"path": lambda text: quoted(str(text), safe="")}
    return made


@cache
def static_address(name: str) -> str:
    """A file's address with a digest of its bytes: it may be kept for ever, and a new one has another address."""
    return f"/static/{name}?v={keccak((STATIC / name).read_bytes()).hex()[:12]}"


def page(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A whole page."""
    caller: Caller | None = request.scope["state"].get("caller")
    secret, new = _form_secret(request)
    bank = state_of(request).desk.bank
    facts = {"dataset": None, "here": ""} | facts
    text = templates().get_template(template).render(
        caller=caller, may={scope.value for scope in caller.scopes} if caller else set(), scopes=Scope,
        datasets=[account.name for account in bank.accounts()], token=token_of(secret), asked_for=request.url.path,
        **facts,
    )  # fmt: skip
    made = HTMLResponse(text, status, {"cache-control": "no-store"})
    if new:
        secure = state_of(request).settings.secure_cookies
        made.set_cookie(FORM_COOKIE, secret, httponly=True, samesite="strict", secure=secure, path="/")
    return made


def fragment(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A part of a page, for htmx."""
    text = templates().get_template(template).render(**facts)
    return HTMLResponse(text, status, {"cache-control": "no-store"})


def by_htmx(request: Request) -> bool:
    """Whether only a part of the page is wanted."""
    return request.headers.get("hx-request") == "true"


# -- forms -------------------------------------------------------------------------------------


def token_of(secret: str) -> str:
    """What a form of ours carries; nobody who cannot read the cookie can make one."""
    return keccak(b"noisebank form\n", secret.encode()).hex()[:40]


def _form_secret(request: Request) -> tuple[str, bool]:
    """The session's or the visitor's secret, and whether it is new."""
    known = request.cookies.get(COOKIE) if request.scope["state"].get("caller") else None
    known = known or request.cookies.get(FORM_COOKIE)
    return (known, False) if known else (state_of(request).entropy.token(18).hex(), True)


async def form_of(request: Request) -> dict[str, str]:
    """A form's fields, once it is sure that the form is of ours. `request.scope` has the caller by then."""
    if sent_from_elsewhere(request):
        raise Turned("not-allowed", "this form was sent from another site")
    given = await request.form(max_files=0, max_fields=100)
    # Browsers send lines with a carriage return; what was signed or written before had none.
    fields = {name: value.replace("\r\n", "\n") for name, value in given.items() if isinstance(value, str)}
    secrets = {request.cookies.get(COOKIE), request.cookies.get(FORM_COOKIE)} - {None, ""}
    if not any(fields.get("token") == token_of(secret) for secret in secrets if secret):
        raise Turned("not-allowed", "this form is out of date, or not ours: load the page again, then send it")
    return fields


# -- problems ----------------------------------------------------------------------------------


def wants_page(path: str) -> bool:
    """Whether a problem is shown to a person: everything outside of the API."""
    return not path.startswith(("/v1/", "/static/"))


def problem_page(request: Request, problem: Problem, body: dict[str, Any], headers: dict[str, str]) -> Response:
    """A problem for a person. Who is not signed in is sent to do so, and comes back."""
    kept = {name: value for name, value in headers.items() if name not in ("www-authenticate", "cache-control")}
    if "caller" not in request.scope["state"]:  # no route, so nobody has looked who it is
        with suppress(NoisebankError):
            state_of(request).gate.caller(request)
    if problem.name == "not-signed-in":
        where = f"/sign-in?next={quoted(request.url.path)}"
        if by_htmx(request):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in", "cache-control": "no-store"})
        if request.method == "GET":
            return RedirectResponse(where, 303)
    if by_htmx(request):
        made: Response = fragment(request, "problem_part.html", problem.status, problem=problem, body=body)
    else:
        made = page(request, "problem.html", problem.status, problem=problem, body=body)
    made.headers.update(kept)
    return made


@cache
def bare_problem() -> bytes:
    """For what nobody expected: needs nothing that could fail again."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Something went wrong</title>'
        f'<link rel="stylesheet" href="{static_address("style.css")}"><body><main class="narrow"><h1>Something went '
        "wrong here</h1><p>The mistake is ours and is in the log. If you were asking a question: ask again with the "
        'same form; it is charged once.</p><p><a href="/">Back to the start</a></p></main></body></html>'
    ).encode()

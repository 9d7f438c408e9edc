"""Renders pages and fragments from templates, protects forms against forgery, and shows problems as pages.

Templates are given plain dictionaries, numbers and text, and the functions of `draw` and `say`: names of classes and
functions can change without them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote as quoted

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from noisebank import __version__
from noisebank.core import wording
from noisebank.core.digests import keccak
from noisebank.core.errors import NoisebankError
from noisebank.core.problems import Problem
from noisebank.core.rendering import format_confidence
from noisebank.ledger.protocol import AccountState
from noisebank.service.authenticator import SESSION_COOKIE, is_cross_origin, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller
from noisebank.service.web import formatting, result_charts, svg

PACKAGE_FOLDER = Path(__file__).parent
STATIC_FOLDER = PACKAGE_FOLDER / "static"
FORM_COOKIE = "noisebank_form"
"""Cookie of visitors without a session; the token of their forms is made from it."""
DRAW = SimpleNamespace(
    gauge=svg.draw_gauge,
    progress=svg.draw_progress,
    interval=svg.draw_interval,
    groups=result_charts.draw_groups,
    lines=svg.draw_lines,
    heat=svg.draw_heat_map,
)
SAY = SimpleNamespace(
    word=formatting.case_label,
    sentence=formatting.case_sentence,
    number=formatting.format_number,
    amount=formatting.format_amount,
    share=formatting.format_share,
    count=formatting.format_count,
    epsilon=wording.format_epsilon,
    times=formatting.format_times,
    percent=wording.format_percent,
    confidence=format_confidence,
    when=formatting.format_time,
    stamp=formatting.format_timestamp,
    span=formatting.format_duration,
    short=formatting.shorten_digest,
    ether=formatting.format_ether,
)
"""What templates may call."""


@cache
def load_templates() -> Environment:
    """Return the templates: everything is escaped, and an unknown name is an error."""
    environment = Environment(
        loader=FileSystemLoader(PACKAGE_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    environment.globals |= {"static": static_address, "draw": DRAW, "say": SAY, "version": __version__}
    environment.filters |= {"path": lambda text: quoted(str(text), safe="")}
    return environment


@cache
def static_address(name: str) -> str:
    """Return a file's address with a digest of its bytes: browsers may keep it forever."""
    return f"/static/{name}?v={keccak((STATIC_FOLDER / name).read_bytes()).hex()[:12]}"


def render_page(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Return a whole page; `facts` are the template's variables."""
    caller: Caller | None = request.scope["state"].get("caller")
    secret, new = _form_secret(request)
    bank = state_of(request).operations.bank
    facts = {"dataset": None, "here": ""} | facts
    text = load_templates().get_template(template).render(
        caller={"name": caller.person.name, "role": caller.person.role.value} if caller else None,
        may={scope.value for scope in caller.scopes} if caller else set(),
        datasets=[account.name for account in bank.accounts()], token=form_token(secret), asked_for=request.url.path,
        **facts,
    )  # fmt: skip
    response = HTMLResponse(text, status, {"cache-control": "no-store"})
    if new:
        secure = state_of(request).settings.secure_cookies
        response.set_cookie(FORM_COOKIE, secret, httponly=True, samesite="strict", secure=secure, path="/")
    return response


def render_fragment(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Return a part of a page, for htmx."""
    text = load_templates().get_template(template).render(**facts)
    return HTMLResponse(text, status, {"cache-control": "no-store"})


def is_htmx(request: Request) -> bool:
    """Whether htmx asks for a part of the page only."""
    return request.headers.get("hx-request") == "true"


def state_facts(state: AccountState) -> dict[str, Any]:
    """Return the state of an account as templates show it."""
    return {
        "budget": state.budget, "spent": state.spent, "base": state.base, "measurements": state.measurements,
        "owner": state.owner, "curator": state.curator, "raise_delay": state.raise_delay, "paused": state.paused,
        "version": state.version,
    }  # fmt: skip


# -- forms -------------------------------------------------------------------------------------


def form_token(secret: str) -> str:
    """Return the token that our forms carry; nobody who cannot read the cookie can make one."""
    return keccak(b"noisebank form\n", secret.encode()).hex()[:40]


def _form_secret(request: Request) -> tuple[str, bool]:
    """Return the secret of the session or the visitor, and whether it is new."""
    secret = request.cookies.get(SESSION_COOKIE) if request.scope["state"].get("caller") else None
    secret = secret or request.cookies.get(FORM_COOKIE)
    return (secret, False) if secret else (state_of(request).entropy.token(18).hex(), True)


async def read_form(request: Request) -> dict[str, str]:
    """Return a form's fields; raises unless a page of ours has sent it. `request.scope` has the caller by then."""
    if is_cross_origin(request):
        raise ApiError("not-allowed", "this form was sent from another site")
    form = await request.form(max_files=0, max_fields=100)
    # Browsers send lines with a carriage return; what was signed or written before had none.
    fields = {name: value.replace("\r\n", "\n") for name, value in form.items() if isinstance(value, str)}
    secrets = {request.cookies.get(SESSION_COOKIE), request.cookies.get(FORM_COOKIE)} - {None, ""}
    if not any(fields.get("token") == form_token(secret) for secret in secrets if secret):
        raise ApiError("not-allowed", "this form is out of date, or not ours: load the page again, then send it")
    return fields


# -- problems ----------------------------------------------------------------------------------


def wants_page(path: str) -> bool:
    """Whether problems at a path are shown as pages: everywhere outside of the API and static files."""
    return not path.startswith(("/v1/", "/static/"))


def problem_page(request: Request, problem: Problem, body: dict[str, Any], headers: dict[str, str]) -> Response:
    """Return a problem as a page. Callers who are not signed in are sent to do so, and come back."""
    extra = {name: value for name, value in headers.items() if name not in ("www-authenticate", "cache-control")}
    if "caller" not in request.scope["state"]:  # no route matched, so the caller is not identified yet
        with suppress(NoisebankError):
            state_of(request).authenticator.authenticate(request)
    if problem.name == "not-signed-in":
        where = f"/sign-in?next={quoted(request.url.path)}"
        if is_htmx(request):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in", "cache-control": "no-store"})
        if request.method == "GET":
            return RedirectResponse(where, 303)
    if is_htmx(request):
        response: Response = render_fragment(request, "problem_part.html", problem.status, problem=problem, body=body)
    else:
        response = render_page(request, "problem.html", problem.status, problem=problem, body=body)
    response.headers.update(extra)
    return response


@cache
def static_problem_page() -> bytes:
    """Return the page for unexpected errors; it needs nothing that could fail again."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Something went wrong</title>'
        f'<link rel="stylesheet" href="{static_address("style.css")}"><body><main class="narrow"><h1>Something went '
        "wrong here</h1><p>The mistake is ours and is in the log. If you were asking a question: ask again with the "
        'same form; it is charged once.</p><p><a href="/">Back to the start</a></p></main></body></html>'
    ).encode()

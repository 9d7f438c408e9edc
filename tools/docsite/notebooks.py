"""Executes the notebooks of docs/notebooks and turns them into pages. Outputs are text, and the pictures of figures.

    python -m tools.docsite.notebooks          # executes all of them and writes their outputs

The owner's notebook makes a bank; it is then served for the analyst's, whose receipt the auditor's checks. The study
has tables of its own, from `python -m examples`. All run in one folder, each in a process of its own. They also run in
Jupyter, beside docs/tutorial's table and policy, or the examples'.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.docsite.markdown import format_block
from tools.docsite.pages import write_if_changed
from tools.docsite.recipes import ROOT, TUTORIAL, make_environment

FOLDER = ROOT / "docs" / "notebooks"
NAMES = ("owner", "analyst", "auditor", "study")
Notebook = dict[str, Any]
CELL_RUNNER = """
import ast, base64, contextlib, io, json, sys
namespace, outputs = {"__name__": "__main__"}, []
for source in json.load(sys.stdin):
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace) if last else None
    picture = io.BytesIO()
    if type(value).__name__ == "Figure":
        value.savefig(picture, format="png", dpi=80)
    shown = "" if value is None else repr(value)
    outputs.append([printed.getvalue(), shown, base64.b64encode(picture.getvalue()).decode()])
json.dump(outputs, sys.stdout)
"""
"""Runs in a process of its own: prints what each cell printed, how its last expression shows itself, its picture."""


def read_notebook(name: str) -> Notebook:
    """Returns a notebook of docs/notebooks."""
    return dict(json.loads((FOLDER / f"{name}.ipynb").read_text()))


def execute_all(folder: Path) -> dict[str, Notebook]:
    """Executes the notebooks in a folder; returns them with the outputs of this run."""
    subprocess.run([sys.executable, TUTORIAL / "hospital.py"], cwd=folder, check=True)
    (folder / "hospital.toml").write_text((TUTORIAL / "hospital.toml").read_text())
    notebooks = {"owner": execute_notebook("owner", folder, {})}
    with serve_bank(folder) as url:
        notebooks["analyst"] = execute_notebook("analyst", folder, {"NOISEBANK_URL": url})
    notebooks["auditor"] = execute_notebook("auditor", folder, {})
    subprocess.run([sys.executable, "-m", "examples", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    notebooks["study"] = execute_notebook("study", folder, {})
    return notebooks


def execute_notebook(name: str, folder: Path, variables: dict[str, str]) -> Notebook:
    """Executes one notebook; raises `CalledProcessError` at the first cell that fails."""
    notebook = read_notebook(name)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    environment = make_environment(folder) | variables
    process = subprocess.run(
        [sys.executable, "-c", CELL_RUNNER], cwd=folder, env=environment, text=True, check=True, stdout=subprocess.PIPE,
        input=json.dumps(["".join(cell["source"]) for cell in cells]),
    )  # fmt: skip
    for number, (cell, shown) in enumerate(zip(cells, json.loads(process.stdout), strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, list(_list_outputs(number, *shown))
    return notebook


def write_notebook(name: str, notebook: Notebook) -> None:
    """Writes a notebook back."""
    (FOLDER / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def list_outputs(notebook: Notebook) -> list[str]:
    """Returns everything that a notebook shows, one text per output."""
    return [
        "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    ]


def write_notebook_pages(folder: Path) -> None:
    """Writes each notebook as a page of Markdown, with the outputs that are stored in it."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        parts = []
        for cell in read_notebook(name)["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else format_block(source, "python"))
            for output in cell.get("outputs", ()):
                picture = output.get("data", {}).get("image/png")
                if picture is None:
                    parts += [format_block(text, "text") for text in list_outputs({"cells": [{"outputs": [output]}]})]
                    continue
                file = folder / f"{name}-{cell['execution_count']}.png"
                file.write_bytes(b64decode(picture))
                parts.append(f"![The figure that the cell above draws]({folder.name}/{file.name})")
        write_if_changed(folder / f"{name}.md", "\n\n".join(parts) + "\n")


@contextmanager
def serve_bank(folder: Path) -> Iterator[str]:
    """Serves the folder's bank; yields its address."""
    command = [sys.executable, "-m", "noisebank", "serve", "--port", "0", "--json"]
    with (folder / "service.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=make_environment(folder), stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdout is not None
        try:
            text = ""
            for line in process.stdout:
                text += line
                if line.startswith("}"):
                    break
            yield json.loads(text)["address"]
        finally:
            process.kill()  # the bank recovers, as it would after a crash
            process.wait()
            process.stdout.close()


def _list_outputs(number: int, printed: str, value: str, picture: str) -> Iterator[dict[str, Any]]:
    if printed:
        yield {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}
    if value:
        data: dict[str, Any] = {"text/plain": value.splitlines(keepends=True)}
        if picture:
            data["image/png"] = picture
        yield {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, notebook in execute_all(Path(folder)).items():
            write_notebook(name, notebook)


if __name__ == "__main__":
    main()

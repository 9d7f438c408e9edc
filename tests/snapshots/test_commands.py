"""The command line: every --help, the shape of every --json that needs no network, exit codes and words of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snapshots.comparing import hold_json, hold_text, shape_of
from snapshots.doors import copy_bank, run_module
from snapshots.making import REPORT, SGD

ADDRESS = "0x" + "11" * 20
COUNT = "SELECT COUNT(*) FROM people WHERE age > 44"


@pytest.mark.parametrize("module", ["noisebank", "research"])
def test_help_of_every_command(module: str) -> None:
    """The commands of a group are those that its help lists."""
    told, todo = [], [(module,)]
    while todo:
        name = todo.pop(0)
        done = run_module(module, *name[1:], "--help")
        assert done.code == 0, name
        told.append(f"$ {' '.join(name)} --help\n{done.out}")
        _, _, listed = done.out.partition("\nCommands:\n")
        todo += [(*name, line.split()[0]) for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(told) > {"noisebank": 50, "research": 3}[module]
    hold_text(f"help-{module}.txt", "\n".join(told))


def test_shapes_of_json(tmp_path: Path) -> None:
    """In an order in which each command finds what it needs."""
    shell = copy_bank(tmp_path)
    wish, people = ("-e", "0.01", "-d", "1e-6"), ("-a", "people")
    session = ("key", "make", "noor", "--role", "curator", "--days", "3")
    story: list[tuple[str, ...]] = [
        ("open", "tables/people.toml", "--next", "people", "--same"),
        ("open", "tables/clinic.toml", "--next", "clinic"),
        ("init", "new"), ("open", "tables/clinic.toml", "--bank", "new"),
        ("policy", "check", "tables/clinic.toml"), ("policy", "draft", "tables/clinic.csv", "--out", "draft.toml"),
        ("quote", COUNT, *wish, *people), ("quote", COUNT, *wish, *people, "--curve"),
        ("quote", "SELECT AVG(income) FROM people WHERE smoker", *wish, *people),
        ("ask", COUNT, *wish, *people), ("ask", "SELECT town, COUNT(*) FROM people GROUP BY town", *wish, *people),
        ("ask", "SELECT AVG(income) FROM people WHERE NOT smoker", *wish, *people),
        ("ask", "SELECT MEDIAN(age), MODE(town) FROM people", *wish, *people),
        ("ask", "SELECT SUM(income) FROM people", "-r", "90%", "-f", "40000", "-c", "0.6", *people),
        ("ask", "SELECT COUNT(*) FROM clinic WHERE age < 16", *wish, "-a", "clinic"),
        ("explain", COUNT, *people), ("statement", *people), ("verify", "bank"),
        ("budget", "raise", "6", *people), ("budget", "lower", "3.9", *people),
        ("analyst", "limit", "noor", "1", *people), ("analyst", "list", *people),
        session, ("key", "list", "noor"), ("key", "sessions"), ("key", "disable", "noor"), ("key", "enable", "noor"),
        ("roles", "show", *people), ("roles", "curator"), ("roles", "owner", ADDRESS, *people),
        ("pause", *people), ("resume", *people),
        ("backup", "bank", "copy", "--with-keys"), ("restore", "copy", "back"),
        ("local", "enrol", "phone-8", "--epsilon", "1"), REPORT, ("local", "status"),
        ("local", "check", "tables/record.json", "--schema", "tables/schema.toml"),
        ("local", "estimate", "exports/reports.txt", "--schema", "tables/schema.toml"),
        SGD, (*SGD, "--rehearse", "--test", "tables/devices.csv", "--out", "model.json"), ("learn", "keys", "member"),
        ("serve", "--show-settings"),
    ]  # fmt: skip
    seen = {" ".join(words): shape_of(shell.json(*words)) for words in story}
    revoked = shell.json("key", "make", "noor")["id"]
    seen["key revoke"] = shape_of(shell.json("key", "revoke", "noor", revoked))
    seen["model.json"] = shape_of(json.loads((shell.folder / "model.json").read_text()))
    seen["copy/manifest.json"] = shape_of(json.loads((shell.folder / "copy" / "manifest.json").read_text()))
    hold_json("json-shapes.json", seen)
    hold_json("settings.json", list(shell.json("serve", "--show-settings")))


W, P = ("-e", "0.1", "-d", "1e-6"), ("-a", "people")
BAD: list[tuple[str, ...]] = [
    ("nonsense",), ("ask",), ("ask", COUNT.replace("people", "strangers"), *W), ("ask", COUNT, *W, "-a", "nobody"),
    ("ask", COUNT, *P),
    *(("ask", sql, *W, *P) for sql in (
        "", "nonsense", "SELECT age FROM people", "SELECT * FROM people", "SELECT COUNT(DISTINCT town) FROM people",
        "SELECT COUNT(*) FROM people JOIN others ON true", "SELECT COUNT(*) FROM elsewhere",
        "SELECT COUNT(*) FROM people WHERE salary > 5", "SELECT COUNT(*) FROM people WHERE town = 'atlantis'",
        "SELECT COUNT(*) FROM people WHERE age = 'old'", "SELECT COUNT(*) FROM people GROUP BY income",
        "SELECT town, COUNT(*) FROM people GROUP BY town HAVING town = 'east'", "SELECT MAX(income) FROM people",
        "SELECT COUNT(*) FROM people; DROP TABLE people", "SELECT SUM(age + town) FROM people",
        "SELECT COUNT(*) FROM people WHERE age > town", "SELECT COUNT(*) FROM people LIMIT 1",
    )),
    *(("quote", COUNT, *wish, *P) for wish in (
        ("-e", "0", "-d", "1e-6"), ("-e", "nan", "-d", "1e-6"), ("-e", "much", "-d", "1e-6"), ("-e", "1", "-d", "0"),
        ("-e", "1"), ("-d", "1e-6"), ("-s", "0"), ("-s", "3", *W), ("-s", "1e300"), ("-w", "-1"), ("-r", "0"),
        ("-r", "5%", "-f", "-2"), ("--within", "3", "--confidence", "1"),
    )),
    ("ask", "SELECT SUM(income) FROM people", "-e", "4", "-d", "1e-6", *P),
    ("ask", COUNT, *W, *P, "--max-cost", "0.000001"), ("ask", COUNT, *W, *P, "--max-cost", "-1"),
    ("ask", COUNT, *W, *P, "--analyst", "maria", "--key", "monday"),
    ("ask", COUNT, "-e", "3", "-d", "1e-6", *P, "--analyst", "maria"),
    ("ask", COUNT, *W, *P, "--analyst", "stranger"),
    ("statement", "--bank", "nowhere"), ("init", "bank"), ("open", "nowhere.toml"), ("open", "tables/people.toml"),
    ("open", "tables/people.toml", "--same"), ("open", "tables/clinic.toml", "--next", "people"),
    ("policy", "check", "tables/people.csv"), ("policy", "check", "bad.toml"), ("policy", "draft", "nowhere.csv"),
    ("verify",), ("verify", "nowhere.jsonl"), ("verify", "exports/journal.jsonl", "--head", "00"),
    ("verify", "exports/journal.jsonl", "--receipt", "tables/record.json"),
    ("verify", "exports/journal.jsonl", "--openings", "tables/record.json"), ("verify", "--rpc", "http://127.0.0.1:1"),
    ("budget", "lower", "9", *P), ("budget", "raise", "1", *P), ("budget", "finish", *P), ("budget", "lower", "x", *P),
    ("analyst", "limit", "maria", "-1", *P), ("key", "make", "a b"), ("key", "make", "owner", "--role", "curator"),
    ("key", "make", "maria", "--days", "0"), ("key", "revoke", "maria", "none"), ("key", "list", "stranger"),
    ("key", "disable", "owner"), ("key", "end", "none"), ("roles", "owner", "0x1", *P), ("roles", "accept", *P),
    ("backup", "nowhere", "copy"), ("restore", "tables", "back"), ("local", "enrol", "phone-7", "--epsilon", "1"),
    ("local", "enrol", "phone-9", "--epsilon", "0"), (*REPORT[:-1], "9"), ("local", "report", "stranger", *REPORT[3:]),
    ("local", "check", "nowhere.json", "--schema", "tables/schema.toml"),
    ("local", "estimate", "tables/record.json", "--schema", "tables/schema.toml"),
    ("local", "check", "tables/record.json", "--schema", "tables/people.toml"),
    (*SGD[:6], "nobody", *SGD[7:]), (*SGD[:-3], "2", *SGD[-2:]), ("learn", "verify", "00", "--rpc", "nowhere"),
    ("relay", "join", "nowhere", "--vector", "none"), ("serve", "--port", "x"),
    ("serve", "--settings", "tables/people.toml"),
]  # fmt: skip


def test_exit_codes_and_words_of_errors(tmp_path: Path) -> None:
    shell = copy_bank(tmp_path)
    (tmp_path / "bad.toml").write_text('name = 3\nsource = ""\n[columns.age]\ntype = "integr"\nbounds = [9, 1]\n')
    shell.json("open", "tables/people.toml", "--next", "people", "--same")
    seen = []
    for words in BAD:
        done, told = shell.run(*words), shell.run(*words, "--json")
        assert done.code == told.code, words
        error = json.loads(told.out).get("error") if told.out.startswith("{") else None
        lines = (done.err or done.out).replace(str(tmp_path), "FOLDER").splitlines()
        seen.append({"words": " ".join(words), "code": done.code, "error": error, "said": lines})
    hold_json("errors-commands.json", seen)

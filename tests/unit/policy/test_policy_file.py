from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.core.digests import to_canonical_json
from noisebank.core.errors import BadPolicy, Mistake
from noisebank.policy.expectations import Workload
from noisebank.policy.file import locate_mistakes, parse_policy, read_policy
from noisebank.policy.model import Column, Kind, Neighbours, Policy, policy_from_json

DIGEST_WITH_CUBES = "23ea987d63ff6bec97c3a99bdca61a8395033d91a2db55dc64005381ae150631"
"""As of the release before `complete` and `expect`."""
GOOD = """\
name = "survey"
source = "people.csv"
neighbours = "replace-one"
rows = 5000

[budget]
epsilon = 8
delta = 1e-4

[columns.age]
type = "integer"
bounds = [0, 120]
bins = [18, 65]

[columns.pay]
type = "number"
step = 0.01
bounds = [-10.5, 1000]
nullable = true

[columns.city]
type = "text"
keys = ["b", "a"]

[columns.ill]
type = "boolean"

[columns.note]
type = "text"

[queries]
ill = "SELECT COUNT(*) FROM survey WHERE ill"
"""


def read(text: str = GOOD, folder: str = "/data") -> Policy:
    return parse_policy(text, Path(folder))


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def mistakes(text: str) -> tuple[Mistake, ...]:
    with pytest.raises(BadPolicy) as caught:
        read(text)
    return caught.value.mistakes


def test_a_full_policy():
    policy = read()
    assert policy.name == "survey"
    assert policy.source == Path("/data/people.csv")
    assert policy.neighbours is Neighbours.REPLACE_ONE
    assert policy.row_cap == policy.public_rows == 5000
    assert (policy.epsilon, policy.delta) == (Fraction(8), Fraction(1, 10**4))
    assert (policy.unit, policy.max_rows, policy.raise_delay) == ("row", 1, 86_400)
    assert policy.columns == {
        "age": Column("age", Kind.INTEGER, Fraction(1), 0, 120, bins=(18, 65)),
        "pay": Column("pay", Kind.NUMBER, Fraction(1, 100), -1050, 100_000, nullable=True),
        "city": Column("city", Kind.TEXT, keys=("a", "b")),
        "ill": Column("ill", Kind.BOOLEAN),
        "note": Column("note", Kind.TEXT),
    }
    assert policy.queries == {"ill": "SELECT COUNT(*) FROM survey WHERE ill"}


def test_people_with_several_rows():
    policy = read(
        changed("rows = 5000", 'row_cap = 10\nunit = "note"\nmax_rows = 3').replace("replace-one", "add-remove")
    )
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert (policy.row_cap, policy.unit, policy.max_rows) == (10, "note", 3)
    assert policy.public_rows is None


def test_the_number_of_rows_is_capped_where_people_have_several():
    """Somebody with one row may be replaced by somebody with three: neighbours share a cap, not the number."""
    policy = read(changed("rows = 5000", 'row_cap = 5000\nunit = "note"\nmax_rows = 3'))
    assert (policy.neighbours, policy.row_cap, policy.public_rows) == (Neighbours.REPLACE_ONE, 5000, None)


def test_source_is_relative_to_the_file(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(GOOD)
    assert read_policy(file).source == tmp_path / "people.csv"
    assert read_policy(str(file)) == read_policy(file)
    file.write_text(changed('"people.csv"', '"/else/where.csv"'))
    assert read_policy(file).source == Path("/else/where.csv")


def test_survives_its_public_form():
    for text in (GOOD, changed("rows = 5000", 'row_cap = 5000\nunit = "note"\nmax_rows = 3\nraise_delay_hours = 1')):
        policy = read(text)
        facts = json.loads(to_canonical_json(policy.to_json()))
        again = policy_from_json(facts, policy.source)
        assert again == policy
        assert again.digest == policy.digest


def test_where_the_table_lies_is_not_public():
    assert read(folder="/a").digest == read(folder="/b").digest
    assert read().digest == read(changed("people.csv", "other.parquet")).digest
    assert "people" not in to_canonical_json(read().to_json())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["b", "a"]', '["a", "b"]'),
        ("epsilon = 8", "epsilon = 8.0"),
        ("delta = 1e-4", 'delta = "1/10000"'),
        ("rows = 5000", "rows = 5_000 # people"),
        ("[0, 120]", "[0.0, 120]"),
        ('type = "boolean"', 'type = "boolean"\nnullable = false'),
        ("rows = 5000", "rows = 5000\nraise_delay_hours = 24"),
    ],
)
def test_spelling_does_not_change_the_digest(old, new):
    assert read(changed(old, new)).digest == read().digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "survey"', 'name = "survey2"'),
        ("rows = 5000", "rows = 5001"),
        ("epsilon = 8", "epsilon = 7"),
        ("delta = 1e-4", "delta = 1e-5"),
        ("[0, 120]", "[0, 121]"),
        ("bins = [18, 65]", "bins = [18, 66]"),
        ("step = 0.01", "step = 0.5"),
        ("nullable = true", "nullable = false"),
        ('["b", "a"]', '["b", "c"]'),
        ("WHERE ill", "WHERE NOT ill"),
        ("rows = 5000", "rows = 5000\nraise_delay_hours = 23"),
    ],
)
def test_meaning_changes_the_digest(old, new):
    assert read(changed(old, new)).digest != read().digest


def test_named_queries_keep_spaces_and_line_breaks():
    text = changed(
        '"SELECT COUNT(*) FROM survey WHERE ill"', "'''\nSELECT COUNT(*) -- all\nFROM survey WHERE city = 'a  b'\n'''"
    )
    assert read(text).queries["ill"] == "SELECT COUNT(*) -- all\nFROM survey WHERE city = 'a  b'"


SINGLE = [
    # old, new, line, where, what, right
    ('name = "survey"\n', "", 1, "name", "is missing", 'name = "survey"'),
    ('name = "survey"', 'name = ""', 1, "name", "is no text", 'name = "survey"'),
    ('name = "survey"', "name = 3", 1, "name", "3 is no text", 'name = "survey"'),
    ('name = "survey"', 'name = "my survey"', 1, "name", "is no name", "letters, digits and _"),
    ('name = "survey"', 'name = "2survey"', 1, "name", "is no name", "not a digit first"),
    ('source = "people.csv"', "source = []", 2, "source", "is no text", 'source = "table.csv"'),
    ('source = "people.csv"', 'source = "a\\u0000b"', 2, "source", "is no text", 'source = "table.csv"'),
    ('source = "people.csv"\n', "", 1, "source", "is missing", 'source = "table.csv"'),
    ('"replace-one"', '"swap"', 3, "neighbours", "'swap' is unknown", '"replace-one"'),
    ('neighbours = "replace-one"\n', "", 1, "neighbours", "is missing", '"add-remove"'),
    ('"replace-one"', '["replace-one"]', 3, "neighbours", "is unknown", '"add-remove"'),
    ('"replace-one"', '"add-remove"', 4, "rows", "does not go with 'add-remove'", "row_cap"),
    ('"replace-one"', '"add-remove"', 1, "row_cap", "is missing", "the most rows that it may ever have"),
    ("rows = 5000\n", "", 1, "rows", "is missing", "public number of rows"),
    ("rows = 5000", "rows = 5000\nrow_cap = 1", 5, "row_cap", "does not go with 'replace-one'", "write rows"),
    ("rows = 5000", 'rows = 9\nunit = "note"\nmax_rows = 3', 4, "rows", "and a unit column", "write row_cap ="),
    ("rows = 5000", 'unit = "note"\nmax_rows = 3', 1, "row_cap", "is missing", "the most rows that it may ever have"),
    ("rows = 5000", "rows = 0", 4, "rows", "0 does not fit", "from 1 to"),
    ("rows = 5000", "rows = -5", 4, "rows", "-5 does not fit", "from 1 to"),
    ("rows = 5000", "rows = true", 4, "rows", "True does not fit", "whole number"),
    ("rows = 5000", "rows = 5e3", 4, "rows", "does not fit", "whole number"),
    ("rows = 5000", 'rows = "many"', 4, "rows", "'many' does not fit", "whole number"),
    ("rows = 5000", "rows = 1099511627777", 4, "rows", "does not fit", "1099511627776"),
    ("rows = 5000", "rows = 5000\nraise_delay_hours = -1", 5, "raise_delay_hours", "-1 does not fit", "from 0 to"),
    ("rows = 5000", "rows = 5000\nmax_rows = 3", 5, "max_rows", "does not go with unit", "tells people apart"),
    ("rows = 5000", 'rows = 5000\nunit = "person"', 5, "unit", "is no declared column", '"row"'),
    ("rows = 5000", "rows = 5000\nunit = 3", 5, "unit", "is no declared column", '"row"'),
    ("rows = 5000", 'rows = 5000\nunit = ["note"]', 5, "unit", "is no declared column", '"row"'),
    ("rows = 5000", 'row_cap = 5000\nunit = "note"', 1, "max_rows", "is missing", "max_rows = 3"),
    ("rows = 5000", 'row_cap = 5000\nunit = "note"\nmax_rows = 0', 6, "max_rows", "0 does not fit", "from 1 to"),
    ("rows = 5000", "rows = 5000\nsalt = 3", 5, "salt", "is no setting", "use one of name, source"),
    ("[budget]\nepsilon = 8\ndelta = 1e-4\n", "", 1, "budget", "is missing", "[budget]"),
    ("[budget]\nepsilon = 8\ndelta = 1e-4\n", "budget = 3\n", 6, "budget", "is missing", "[budget]"),
    ("epsilon = 8\n", "", 6, "budget.epsilon", "is missing", "epsilon = 1"),
    ("delta = 1e-4\n", "", 6, "budget.delta", "is missing", "delta = 1e-6"),
    ("delta = 1e-4", "delta = 1e-4\nrho = 1", 9, "budget.rho", "is no setting", "epsilon, delta"),
    ("epsilon = 8", "epsilon = nan", 7, "budget.epsilon", "NaN does not fit", "finite"),
    ("epsilon = 8", "epsilon = inf", 7, "budget.epsilon", "Infinity does not fit", "finite"),
    ("epsilon = 8", "epsilon = -inf", 7, "budget.epsilon", "does not fit", "finite"),
    ("epsilon = 8", "epsilon = 1e999", 7, "budget.epsilon", "does not fit", "finite"),
    ("epsilon = 8", "epsilon = 1" + "0" * 400, 7, "budget.epsilon", "does not fit", "[1e-05, 100]"),
    ("epsilon = 8", "epsilon = 0", 7, "budget.epsilon", "0 does not fit", "[1e-05, 100]"),
    ("epsilon = 8", "epsilon = -1", 7, "budget.epsilon", "-1 does not fit", "[1e-05, 100]"),
    ("epsilon = 8", "epsilon = 100.1", 7, "budget.epsilon", "100.1 does not fit", "[1e-05, 100]"),
    ("epsilon = 8", "epsilon = true", 7, "budget.epsilon", "True does not fit", "a number"),
    ("epsilon = 8", "epsilon = [8]", 7, "budget.epsilon", "does not fit", "a number"),
    ("epsilon = 8", "epsilon = 1979-05-27", 7, "budget.epsilon", "does not fit", "a number"),
    ("delta = 1e-4", "delta = 0", 8, "budget.delta", "0 does not fit", "(0, 1)"),
    ("delta = 1e-4", "delta = 1", 8, "budget.delta", "1 does not fit", "(0, 1)"),
    ("delta = 1e-4", "delta = -1e-6", 8, "budget.delta", "does not fit", "(0, 1)"),
    ("delta = 1e-4", "delta = nan", 8, "budget.delta", "does not fit", "finite"),
    ('type = "integer"', 'type = "int"', 11, "columns.age.type", "'int' is no type", '"integer", "number", "text"'),
    ('type = "integer"\n', "", 10, "columns.age.type", "None is no type", '"integer"'),
    ('type = "integer"', 'type = ["integer"]', 11, "columns.age.type", "is no type", '"integer"'),
    ('type = "integer"', 'type = "integer"\nunit = "y"', 12, "columns.age.unit", "is no setting", "type, bounds"),
    ('type = "integer"', 'type = "integer"\nkeys = [1]', 12, "columns.age.keys", "does not go with", "bounds"),
    ("[0, 120]", "[120, 0]", 12, "columns.age.bounds", "lower 120 is not below upper 0", "lower < upper"),
    ("[0, 120]", "[18, 18]", 12, "columns.age.bounds", "is not below", "lower < upper"),
    ("[0, 120]", "[0]", 12, "columns.age.bounds", "[0] are no two numbers", "[lower, upper]"),
    ("[0, 120]", "[0, 60, 120]", 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", "120", 12, "columns.age.bounds", "120 are no two numbers", "[lower, upper]"),
    ("[0, 120]", '"19"', 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", "{ 1 = 2, 3 = 4 }", 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", '["low", "high"]', 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", "[nan, 120]", 12, "columns.age.bounds", "[NaN, 120] are no two numbers", "[lower, upper]"),
    ("[0, 120]", "[0, inf]", 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", "[false, true]", 12, "columns.age.bounds", "are no two numbers", "[lower, upper]"),
    ("[0, 120]", "[0.5, 120]", 12, "columns.age.bounds", "[0.5, 120] are not multiples of the step 1", "multiples"),
    ("[0, 120]", "[0, 2147483649]", 12, "columns.age.bounds", "more than 2^31 steps", "narrower"),
    ("[-10.5, 1000]", "[-21474836.48, 0.01]", 18, "columns.pay.bounds", "more than 2^31 steps", "larger step"),
    ("[18, 65]", "[65, 18]", 13, "columns.age.bins", "[65, 18] do not fit", "rising"),
    ("[18, 65]", "[18, 18]", 13, "columns.age.bins", "do not fit", "rising"),
    ("[18, 65]", "[0, 18]", 13, "columns.age.bins", "do not fit", "inside the bounds"),
    ("[18, 65]", "[18, 121]", 13, "columns.age.bins", "do not fit", "inside the bounds"),
    ("[18, 65]", "[18.5]", 13, "columns.age.bins", "[18.5] do not fit", "multiples of step"),
    ("[18, 65]", '"123"', 13, "columns.age.bins", "are no numbers", "rising"),
    ("[18, 65]", "18", 13, "columns.age.bins", "are no numbers", "rising"),
    ("[18, 65]", "[nan]", 13, "columns.age.bins", "are no numbers", "rising"),
    ("bounds = [0, 120]\n", "", 12, "columns.age.bins", "needs bounds", "[lower, upper]"),
    ("step = 0.01", "step = 0", 17, "columns.pay.step", "0 does not fit", "above 0"),
    ("step = 0.01", "step = -0.01", 17, "columns.pay.step", "does not fit", "above 0"),
    ("step = 0.01", "step = nan", 17, "columns.pay.step", "does not fit", "above 0"),
    ("step = 0.01", "step = inf", 17, "columns.pay.step", "does not fit", "above 0"),
    ("step = 0.01", "step = [1]", 17, "columns.pay.step", "does not fit", "above 0"),
    ("[0, 120]", "[0, 120]\nstep = 0.5", 13, "columns.age.step", "does not fit", "whole number above 0"),
    ("nullable = true", "nullable = 1", 19, "columns.pay.nullable", "1 is neither true nor false", "true or false"),
    ('["b", "a"]', '["b", 1]', 23, "columns.city.keys", "are no texts", 'keys = ["a", "b"]'),
    ('["b", "a"]', '"ba"', 23, "columns.city.keys", "are no texts", 'keys = ["a", "b"]'),
    ('["b", "a"]', '["b", "b"]', 23, "columns.city.keys", "a key twice", "once"),
    ('["b", "a"]', str([str(n) for n in range(10_001)]), 23, "columns.city.keys", "has 10001 keys", "at most 10000"),
    ('type = "boolean"', 'type = "boolean"\nkeys = ["x"]', 27, "columns.ill.keys", "does not go", "true and false"),
    ('type = "boolean"', 'type = "boolean"\nbounds = [0, 1]', 27, "columns.ill.bounds", "does not go", "numbers"),
    ("[columns.ill]", '[columns.""]', 25, "columns.", "is no column name", "63 characters"),
    ("[columns.ill]", f"[columns.{'x' * 64}]", 25, "columns." + "x" * 64, "is no column name", "63 characters"),
    ("[columns.ill]", "[columns.Age]", 10, "columns", "upper and lower case", "rename"),
    ("[queries]", "[queries]\nempty = ' '", 32, "queries.empty", "is no SQL", "SELECT COUNT(*)"),
    ("[queries]", "[queries]\nfive = 5", 32, "queries.five", "5 is no SQL", "SELECT COUNT(*)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "where", "what", "right"), SINGLE)
def test_one_mistake(old, new, line, where, what, right):
    found = [mistake for mistake in mistakes(changed(old, new)) if mistake.where == where and what in mistake.what]
    assert len(found) == 1, mistakes(changed(old, new))
    assert found[0].line == line
    assert right in found[0].right


def test_a_table_for_something_else():
    head = GOOD.partition("[columns.age]")[0]
    ((line, where, what),) = [(m.line, m.where, m.what) for m in mistakes(head)]
    assert (line, where, what) == (1, "columns", "is missing")
    (found,) = mistakes(head + "[columns]\nage = 5\n")
    assert (found.line, found.where, found.what) == (11, "columns.age", "is no table")
    (found,) = mistakes(GOOD.replace("[queries]", "[columns.x]\ntype='text'").replace('ill = "SELECT', 'z = "SELECT'))
    assert found.where == "columns.x.z"
    (found,) = mistakes("queries = 3\n" + GOOD.partition("[queries]")[0])
    assert (found.line, found.where) == (1, "queries")


def test_inline_tables_get_the_line_of_the_table():
    text = GOOD.partition("[columns.age]")[0] + '[columns]\nage = { type = "integer", bounds = [5, 1] }\n'
    (found,) = mistakes(text)
    assert (found.line, found.where) == (11, "columns.age.bounds")


def test_quoted_column_names_are_found():
    (found,) = mistakes(changed("[columns.age]", '[columns."age in years"]').replace("[0, 120]", "[120, 0]"))
    assert (found.line, found.where) == (12, "columns.age in years.bounds")


def test_all_mistakes_at_once_in_order_of_lines():
    text = (
        GOOD.replace('"replace-one"', '"swap"')
        .replace("epsilon = 8", "epsilon = nan")
        .replace("delta = 1e-4", "delta = 2")
        .replace("[0, 120]", "[120, 0]")
        .replace("step = 0.01", "step = -1")
        .replace('["b", "a"]', '["b", "b"]')
        .replace('type = "boolean"', 'type = "bool"')
        .replace('name = "survey"', 'title = "survey"')
    )
    found = mistakes(text)
    assert [(mistake.line, mistake.where) for mistake in found] == [
        (1, "title"), (1, "name"), (3, "neighbours"), (7, "budget.epsilon"), (8, "budget.delta"),
        (12, "columns.age.bounds"), (17, "columns.pay.step"), (18, "columns.pay.bounds"), (23, "columns.city.keys"),
        (26, "columns.ill.type"),
    ]  # fmt: skip


def test_the_message_lists_every_mistake():
    with pytest.raises(BadPolicy) as caught:
        parse_policy(changed("epsilon = 8", "epsilon = 0").replace("rows = 5000", "rows = 0"), Path("/"), "my.toml")
    message = str(caught.value)
    assert message.startswith("my.toml has 2 mistakes:\n")
    assert "line 4: rows: 0 does not fit; write a whole number from 1 to" in message
    assert "line 7: budget.epsilon: 0 does not fit; must lie in [1e-05, 100]" in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("rows = 5000", "rows = = 5000"), 4),
        (GOOD + "\n[columns.age]\ntype = 'text'\n", 34),
        (GOOD.replace("epsilon = 8", "epsilon = 8\nepsilon = 9"), 8),
        (GOOD + "[columns", 33),
        (GOOD + 'x = """open\n', 34),
    ],
)
def test_toml_syntax_errors_name_their_line(text, line):
    (found,) = mistakes(text)
    assert (found.line, found.where) == (line, "TOML") and found.right.startswith("write numbers like 10000")


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000, "1e99999999999999999999"])
def test_absurd_values_are_mistakes_not_crashes(value):
    (found,) = mistakes(changed("rows = 5000", f"rows = {value}"))
    assert found.where == "TOML"
    assert "no ordinary size" in found.what


def test_unreadable_files(tmp_path):
    missing, folder, binary = tmp_path / "none.toml", tmp_path, tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, reason in ((missing, "No such file"), (folder, "Is a directory"), (binary, "not UTF-8 text")):
        with pytest.raises(BadPolicy, match=reason) as caught:
            read_policy(path)
        (found,) = caught.value.mistakes
        assert found.where == str(path)
        assert found.right == "name a policy file"


def with_cubes(cubes: str, more: str = "") -> str:
    return changed("rows = 5000\n", f"rows = 5000\ncubes = {cubes}\n{more}")


def test_cubes_are_part_of_the_policy():
    policy = read(with_cubes('[["age", "city"], ["ill"]]', ""))
    assert policy.cubes == (("age", "city"), ("ill",))
    assert policy_from_json(json.loads(to_canonical_json(policy.to_json())), policy.source) == policy
    assert "cubes" not in read().to_json() and read().digest != policy.digest


@pytest.mark.parametrize(
    ("cubes", "what"),
    [
        ('"age"', "is no list"), ('["age"]', "are no declared columns"), ("[[]]", "are no declared columns"),
        ('[["salary"]]', "are no declared columns"), ("[[1]]", "are no declared columns"),
        ('[["age", "age"]]', "has something twice"), ('[["age"], ["age"]]', "has something twice"),
        ('[["pay"]]', "column pay has no declared keys or bins"), ('[["note"]]', "column note has no declared keys"),
    ],
)  # fmt: skip
def test_cubes_that_are_none(cubes: str, what: str):
    found = mistakes(with_cubes(cubes))
    assert [mistake.where for mistake in found] == ["cubes"] * len(found) and what in found[0].what


def test_a_cube_has_room_on_the_ledger():
    edges = ", ".join(str(edge) for edge in range(1, 121))
    text = with_cubes('[["age", "a", "b", "c"]]').replace("bins = [18, 65]", f"bins = [{edges}]")
    for name in "abc":
        text += f'\n[columns.{name}]\ntype = "integer"\nbounds = [0, 120]\nbins = [{edges}]\n'
    (mistake,) = mistakes(text)
    assert mistake.where == "cubes" and "214358881 cells" in mistake.what


@pytest.mark.parametrize(
    "line", ["first_look = 0.25", "first_look = 0", 'first_look_at = "opening"', "first_look_at = 3"]
)
def test_settings_of_an_earlier_release_say_what_to_write(line: str):
    (mistake,) = mistakes(with_cubes('[["age"]]', f"{line}\n"))
    assert mistake.where == line.split()[0] and mistake.line == 6 and "no setting any more" in mistake.what
    assert "expect = [" in mistake.right


def test_policies_of_an_earlier_release_keep_their_digest():
    """Those that accounts were opened with: the ledger has their digest."""
    policy = read(with_cubes('[["age"], ["ill"]]'))
    assert policy.digest.hex() == DIGEST_WITH_CUBES
    former = {**policy.to_json(), "first_look": "1/2", "first_look_at": "opening"}
    opened = policy_from_json(former, policy.source)
    assert opened.to_json() == former and opened.digest != policy.digest


def test_codes_are_keys_of_an_integer_column_and_no_numbers():
    codes = read(changed('[columns.note]\ntype = "text"', '[columns.note]\ntype = "integer"\nkeys = [9, -1, 2]'))
    column = codes.columns["note"]
    assert column == Column("note", Kind.INTEGER, keys=(-1, 2, 9)) and column.key_names == ("-1", "2", "9")
    assert column.is_keyed and not column.is_numeric and column.piece_count == 4
    assert policy_from_json(codes.to_json(), codes.source) == codes


@pytest.mark.parametrize("text", ['["a", "b"]', "[1, 1]", "[true]", "[1.5]", "[]", "[9999999999]"])
def test_codes_are_different_whole_numbers(text: str):
    (mistake,) = mistakes(changed('[columns.note]\ntype = "text"', f'[columns.note]\ntype = "integer"\nkeys = {text}'))
    assert mistake.where == "columns.note.keys"


@pytest.mark.parametrize("line", ["bounds = [0, 3]", "bins = [1]", "step = 2"])
def test_codes_have_nothing_to_add_up(line: str):
    text = changed('[columns.note]\ntype = "text"', f'[columns.note]\ntype = "integer"\nkeys = [1, 2]\n{line}')
    (mistake,) = mistakes(text)
    assert mistake.where == "columns.note.keys" and mistake.what == f"does not go with {line.split()[0]}"


def test_a_complete_column_has_a_cell_less_and_another_digest():
    plain, complete = read(), read(changed('keys = ["b", "a"]', 'keys = ["b", "a"]\ncomplete = true'))
    assert (plain.columns["city"].piece_count, complete.columns["city"].piece_count) == (3, 2)
    assert complete.complete_columns == ("city",) and plain.complete_columns == ()
    assert plain.public_rows == 5000 and complete.public_rows is None and complete.has_fixed_rows
    assert policy_from_json(complete.to_json(), complete.source) == complete and plain.digest != complete.digest
    assert read(changed('keys = ["b", "a"]', 'keys = ["b", "a"]\ncomplete = false')).digest == plain.digest


@pytest.mark.parametrize(
    ("old", "where"),
    [('type = "boolean"', "columns.ill"), ("bins = [18, 65]", "columns.age"), ('keys = ["b", "a"]', "columns.city")],
)
def test_only_keys_can_be_complete(old: str, where: str):
    new = old.replace('keys = ["b", "a"]', "keys = []") + "\ncomplete = true"
    (mistake,) = mistakes(changed(old, new))
    assert mistake.where == f"{where}.complete" and mistake.what == "needs keys"
    (mistake,) = mistakes(changed('keys = ["b", "a"]', 'keys = ["b", "a"]\ncomplete = 1'))
    assert mistake.where == "columns.city.complete"


def test_what_is_expected_is_kinds_of_questions_and_examples():
    text = 'expect = ["ill", "ranges", "SELECT COUNT(*) FROM survey", "marginals", "ranges"]\n'
    policy = read(text + GOOD)
    assert policy.expect == (Workload.MARGINALS, Workload.RANGES, "ill", "SELECT COUNT(*) FROM survey")
    assert policy.expected_sql == ("SELECT COUNT(*) FROM survey WHERE ill", "SELECT COUNT(*) FROM survey")
    assert policy_from_json(json.loads(json.dumps(policy.to_json())), policy.source) == policy
    assert policy.digest != read().digest and read("expect = []\n" + GOOD).digest == read().digest


@pytest.mark.parametrize("value", ['"ranges"', "[1]", '[""]', "true"])
def test_what_is_expected_is_a_list_of_texts(value: str):
    (mistake,) = mistakes(f"expect = {value}\n" + GOOD)
    assert mistake.where == "expect"


def test_a_line_that_is_not_toml_is_quoted(tmp_path: Path):
    """Who fills in a draft need not know TOML: 10,000 is the natural slip."""
    with pytest.raises(BadPolicy) as caught:
        parse_policy(GOOD.replace("rows = 5000", "rows = 5,000  # so many"), tmp_path)
    (mistake,) = caught.value.mistakes
    assert mistake.what.startswith("rows = 5,000: expected newline")
    with pytest.raises(BadPolicy) as caught:  # a table instead of a policy: its rows stay where they are
        parse_policy("39,Bob,none\n", tmp_path)
    assert "Bob" not in str(caught.value)


def test_mistakes_in_named_queries_get_their_lines(tmp_path: Path):
    path = tmp_path / "survey.toml"
    path.write_text(GOOD)
    line = next(number for number, text in enumerate(GOOD.splitlines(), 1) if text.startswith("ill ="))
    found = BadPolicy((Mistake(0, "queries.ill", "is bad", "write another"), Mistake(0, "expect", "too", "none")))
    assert str(found).splitlines()[1] == "  queries.ill: is bad; write another"
    located = locate_mistakes(found, path)
    assert [mistake.line for mistake in located.mistakes] == [line, 0] and str(path) in str(located)

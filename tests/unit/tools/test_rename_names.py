"""`tools/codemod/rename_names.py` on a small repository that is made up here: one run of mypy for all tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

CODEMOD = Path(__file__).parents[3] / "tools" / "codemod"

FILES = {
    "pyproject.toml": """
        [project.scripts]
        shop = "shop.orders:main"
    """,
    "src/shop/__init__.py": "",
    "src/shop/goods.py": '''
        """Goods. See `Thing.weight` and shop.goods.Thing.weight."""

        from __future__ import annotations

        from dataclasses import dataclass, replace
        from enum import Enum
        from typing import Any, ClassVar, NamedTuple, Protocol, TypedDict, overload

        __all__ = ["LIMIT", "Thing", "make"]

        LIMIT = 3
        Things = list["Thing"]


        class Colour(Enum):
            RED = 1
            BLUE = 2


        class Point(NamedTuple):
            x: int
            y: int


        class Options(TypedDict, total=False):
            size: int
            name: str


        @dataclass(frozen=True)
        class Thing:
            """Has a `weight`."""

            weight: int
            colour: Colour = Colour.RED
            known: ClassVar[int] = LIMIT

            @property
            def twice(self) -> int:
                return self.weight * 2

            def heavier(self, by: int) -> Thing:
                """Adds `by`.

                >>> Thing(weight=1).heavier(by=2).twice
                6
                """
                return replace(self, weight=self.weight + by)


        class Store:
            __slots__ = ("_held", "label")

            def __init__(self, label: str) -> None:
                self.label = label
                self._held: dict[str, Thing] = {}

            @property
            def best(self) -> Thing | None:
                return self._held.get("best")

            @best.setter
            def best(self, value: Thing) -> None:
                self._held["best"] = value

            def fetch(self, key: str) -> Thing:
                return self._held[key]

            def show(self) -> str:
                thing, é = self.fetch("é"), "é"
                return f"é {thing.weight!r:>{thing.twice}} {é}" f"{self.fetch(key='é').weight + LIMIT} {LIMIT=}"


        class Cellar(Store):
            def fetch(self, key: str) -> Thing:
                return super().fetch(key=key)


        class Weighs(Protocol):
            def weigh(self, thing: Thing) -> int: ...


        class Scales:
            def weigh(self, thing: Thing) -> int:
                return thing.weight


        class Unlisted:
            def weigh(self, thing: Thing) -> int:
                return 0


        def use(scale: Weighs) -> int:
            return scale.weigh(thing=Thing(1))


        def use_both() -> int:
            return use(Scales()) + use(Unlisted())


        @overload
        def make(asked: int) -> Thing: ...
        @overload
        def make(asked: str) -> str: ...
        def make(asked: int | str) -> Thing | str:
            """Makes what is `asked`."""

            def inner(asked: int) -> int:
                return asked

            def closure() -> object:
                nonlocal asked
                asked = asked or 1
                return [asked for asked in (1, 2)], lambda asked: asked

            closure(), inner(asked=1)
            return Thing(weight=asked) if isinstance(asked, int) else asked


        def outer(size: int) -> int:
            def nested(size: int, other: int) -> int:
                return size + other

            return nested(size=size, other=LIMIT)


        def count() -> int:
            global LIMIT
            LIMIT = 4
            del LIMIT
            return 0


        def judge(value: object, text: "Thing | None" = None) -> int:
            match value:
                case Thing(weight=w, colour=Colour.RED):
                    return w
                case Point(x=0):
                    return LIMIT
            return 0


        def taken(given: int) -> int:
            free = given
            return free


        def uses_total() -> int:
            total = 1
            return helper() + total


        def helper() -> int:
            return 0


        def hand_on(**values: Any) -> Thing:
            return Thing(**values)
    ''',
    "src/shop/orders.py": """
        from __future__ import annotations

        from functools import partial
        from typing import TypeVar, Unpack, cast

        from shop import goods
        from shop.goods import LIMIT as MOST
        from shop.goods import Options, Point, Store, Thing, make

        AnyThing = TypeVar("AnyThing", bound="Thing")


        def order(store: Store, **options: Unpack[Options]) -> int:
            if "size" in options:
                return options["size"] + options.get("size", 0)
            start: Options = {"size": 1, "name": "size"}
            return start["size"] + MOST + goods.LIMIT


        def first(things: list[Thing] | tuple[Thing, ...], either: Thing | Point, kind: type[Thing]) -> int:
            weight = things[0].weight
            kind(weight=weight)
            point = Point(x=1, y=2)._replace(x=3)
            if isinstance(either, Thing):
                return either.weight
            return point.x + cast("Thing", either).weight + sum(t.weight for t in things)


        def heaviest(thing: AnyThing) -> AnyThing:
            thing.weight
            return thing


        def main() -> None:
            order(Store("a"), size=3)
            partial(make, asked=3)()
            make(**{"asked": 3})
            goods.hand_on(weight=3)
            store = Store(label="b")
            store.best = store.fetch(key="c").heavier(by=1)
    """,
    "tests/test_shop.py": """
        from unittest.mock import patch

        import pytest
        from shop import goods
        from shop.goods import Scales, Store, Thing

        ROWS = [(Store, "fetch"), (goods, "LIMIT")]
        WHOLE = {"weight": 1}


        class Double:
            def fetch(self, key):
                return Thing(**WHOLE)


        class Deeper(Store):
            def fetch(self, key):
                return super().fetch(key)


        class TestScales:
            def weigh(self, thing):
                return thing.weight


        @pytest.fixture
        def store():
            return Store(label="x")


        def test_it(store, monkeypatch, anything):
            assert store.fetch("x").weight == 1
            anything.twice
            anything.fetch
            anything.x
            monkeypatch.setattr(goods, "LIMIT", 4)
            monkeypatch.setattr(store, "fetch", None)
            with patch("shop.goods.Store.fetch"), patch.object(Thing, "twice"), patch("shop.orders.make"):
                getattr(store, "label")
            for thing in [store.fetch("y")]:
                thing.weight
    """,
    "docs/guide.md": """
        Call `make(...)`, read `Thing.weight`, see shop.goods.Store.fetch and `LIMIT`. A `weight` is a weight.

        ```python
        from shop.goods import Thing, make
        make(asked=3)
        Thing(weight=3).heavier(by=1)
        ```
    """,
    "docs/adr/0001.md": "shop.goods.Store.fetch",
    "plan.toml": """
        [names]
        "shop.stock.LIMIT" = "MAX_THINGS"
        "shop.stock.Thing" = "Item"
        "shop.stock.Thing.weight" = "grams"
        "shop.stock.Thing.twice" = "double_weight"
        "shop.stock.Thing.heavier" = "add_weight"
        "shop.stock.Thing.heavier(by)" = "grams"
        "shop.stock.Colour.RED" = "CRIMSON"
        "shop.stock.Point.x" = "east"
        "shop.stock.Options.size" = "length"
        "shop.stock.Store._held" = "_items"
        "shop.stock.Store.best" = "best_item"
        "shop.stock.Store.fetch" = "load_item"
        "shop.stock.Store.fetch(key)" = "name"
        "shop.stock.Store.__init__(label)" = "title"
        "shop.stock.Weighs.weigh" = "weigh_item"
        "shop.stock.Scales.weigh" = "weigh_item"
        "shop.stock.make" = "make_item"
        "shop.stock.make(asked)" = "amount"
        "shop.stock.outer.nested" = "add"
        "shop.stock.outer.nested(size)" = "length"
        "shop.stock.taken(given)" = "free"
        "shop.stock.helper" = "total"
        "shop.stock.Store.show" = "label"
        "shop.stock.gone" = "nothing"
        "shop.orders.main" = "run_shop"
    """,
    "moves.toml": """
        [modules]
        "shop.stock" = "shop.goods"
    """,
}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository after the plan, with the log beside it."""
    pytest.importorskip("mypy")
    root = tmp_path_factory.mktemp("repository")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text).lstrip("\n"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    command = [sys.executable, CODEMOD / "rename_names.py", "plan.toml", "--moves", "moves.toml", "--root", root]
    subprocess.run([*command, "--log", "log.txt"], cwd=root, check=True)
    return root


@pytest.fixture(scope="module")
def goods(renamed: Path) -> str:
    return (renamed / "src/shop/goods.py").read_text()


@pytest.fixture(scope="module")
def orders(renamed: Path) -> str:
    return (renamed / "src/shop/orders.py").read_text()


@pytest.fixture(scope="module")
def tests(renamed: Path) -> str:
    return (renamed / "tests/test_shop.py").read_text()


@pytest.fixture(scope="module")
def log(renamed: Path) -> list[str]:
    return (renamed / "log.txt").read_text().splitlines()


def holds(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"{part!r} is missing in\n{text}"


def test_the_renamed_code_still_runs(renamed: Path) -> None:
    code = "from shop import goods, orders; print(goods.Item(grams=1).add_weight(grams=2).double_weight)"
    run = subprocess.run([sys.executable, "-c", code], cwd=renamed / "src", capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("6\n", "")


def test_classes_members_and_lists_of_names(goods: str) -> None:
    holds(
        goods, '__all__ = ["MAX_THINGS", "Item", "make_item"]', 'Things = list["Item"]', "class Item:", "    grams: int"
    )
    holds(
        goods,
        "    CRIMSON = 1",
        "colour: Colour = Colour.CRIMSON",
        "known: ClassVar[int] = MAX_THINGS",
        "    east: int",
    )
    holds(goods, '__slots__ = ("_items", "label")', "@best_item.setter\n    def best_item(self, value: Item)")
    holds(goods, "return replace(self, grams=self.grams + grams)", "global MAX_THINGS", "del MAX_THINGS")


def test_overrides_follow_and_super_is_understood(goods: str, tests: str, log: list[str]) -> None:
    holds(goods, "return super().load_item(name=name)")
    holds(tests, "class Deeper(Store):\n    def load_item(self, name):\n        return super().load_item(name)")
    assert any(line.startswith("implied: shop.goods.Cellar.fetch -> load_item") for line in log)


def test_expressions_in_f_strings_beyond_ascii(goods: str) -> None:
    holds(goods, 'f"é {thing.grams!r:>{thing.double_weight}} {é}"')
    holds(goods, "{self.load_item(name='é').grams + MAX_THINGS} {MAX_THINGS=}")


def test_parameters_with_closures_and_without_what_shadows_them(goods: str) -> None:
    holds(goods, "def make_item(amount: int) -> Item: ...", "def make_item(amount: int | str) -> Item | str:")
    holds(goods, "nonlocal amount", "amount = amount or 1", "[asked for asked in (1, 2)], lambda asked: asked")
    holds(goods, "def inner(asked: int) -> int:\n        return asked", "inner(asked=1)", "Item(grams=amount)")
    holds(goods, "def add(length: int, other: int)", "return add(length=size, other=MAX_THINGS)", "what is `amount`")


def test_patterns_forward_references_and_examples(goods: str) -> None:
    holds(goods, "case Item(grams=w, colour=Colour.CRIMSON):", "case Point(east=0):", 'text: "Item | None" = None')
    holds(goods, ">>> Item(grams=1).add_weight(grams=2).double_weight", "Adds `grams`.", "Has a `grams`.")
    holds(goods, "See `Item.grams` and shop.goods.Item.grams.")


def test_typed_dicts_imports_and_types(orders: str) -> None:
    holds(
        orders,
        'if "length" in options:',
        'options["length"] + options.get("length", 0)',
        '{"length": 1, "name": "size"}',
    )
    holds(orders, "from shop.goods import MAX_THINGS as MOST", 'start["length"] + MOST + goods.MAX_THINGS')
    holds(orders, 'bound="Item"', "things[0].grams", "kind(grams=weight)", "Point(east=1, y=2)._replace(east=3)")
    holds(orders, 'cast("Item", either).grams + sum(t.grams for t in things)', "either.grams", "thing.grams")


def test_keywords(orders: str) -> None:
    holds(orders, 'order(Store("a"), length=3)', "partial(make_item, amount=3)()", 'make_item(**{"amount": 3})')
    holds(orders, "goods.hand_on(grams=3)", 'Store(title="b")', 'store.load_item(name="c").add_weight(grams=1)')
    holds(orders, "store.best_item =")


def test_tests_without_annotations(tests: str, log: list[str]) -> None:
    holds(tests, '(Store, "load_item"), (goods, "MAX_THINGS")', 'WHOLE = {"grams": 1}', 'Store(title="x")')
    holds(tests, 'store.load_item("x").grams', "anything.double_weight", "thing.grams")
    holds(tests, 'monkeypatch.setattr(goods, "MAX_THINGS", 4)', 'monkeypatch.setattr(store, "load_item", None)')
    holds(
        tests,
        'patch("shop.goods.Store.load_item")',
        'patch.object(Item, "double_weight")',
        'patch("shop.orders.make_item")',
    )
    assert any(line.startswith("guessed: tests/test_shop.py") and "double_weight" in line for line in log)
    assert any(line.startswith("undecided: tests/test_shop.py") and "anything.fetch" in line for line in log)


def test_protocols(goods: str, log: list[str]) -> None:
    holds(
        goods,
        "class Scales:\n    def weigh_item(",
        "class Unlisted:\n    def weigh(",
        "scale.weigh_item(thing=Item(1))",
    )
    assert "warnings: shop.goods.Unlisted.weigh implements shop.goods.Weighs.weigh, and is in no plan" in log


def test_documents(renamed: Path) -> None:
    guide = (renamed / "docs/guide.md").read_text()
    holds(guide, "Call `make_item(...)`, read `Item.grams`, see shop.goods.Store.load_item and `MAX_THINGS`.")
    holds(guide, "A `weight` is a weight.", "make_item(amount=3)", "Item(grams=3).add_weight(grams=1)")
    assert (renamed / "docs/adr/0001.md").read_text() == "shop.goods.Store.fetch"
    assert 'shop = "shop.orders:run_shop"' in (renamed / "pyproject.toml").read_text()


def test_names_that_are_taken_are_left_alone(goods: str, log: list[str]) -> None:
    holds(goods, "def taken(given: int) -> int:\n    free = given", "def helper() -> int:", "def show(self) -> str:")
    conflicts = [line for line in log if line.startswith("conflicts: ")]
    assert len(conflicts) == 3 and "names nothing: shop.goods.gone -> nothing" in log

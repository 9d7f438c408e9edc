"""The three examples by name: their tables, and the policies of those that hold people's rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.hospital.generator import make_tables as make_hospital
from examples.meters.generator import make_tables as make_meters
from examples.questions import FOLDER
from examples.survey.generator import make_tables as make_survey
from examples.tables import Table


@dataclass(frozen=True, slots=True)
class World:
    """One example."""

    name: str
    make_tables: Callable[[], tuple[Table, ...]]
    policies: tuple[str, ...]
    """Names of the tables that are asked through a bank; the others are public."""
    home: Path = FOLDER
    """Where its folder is, with the policies and questions."""

    def write_files(self, folder: Path) -> None:
        """Writes tables, policies and questions into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for table in self.make_tables():
            table.write_csv(folder)
        for name in (*(f"{policy}.toml" for policy in self.policies), "questions.sql"):
            (folder / name).write_text((self.home / self.name / name).read_text(encoding="utf-8"), encoding="utf-8")


WORLDS = {
    world.name: world
    for world in (
        World("hospital", make_hospital, ("patients", "stays")),
        World("survey", make_survey, ("persons",)),
        World("meters", make_meters, ("readings", "meters")),
    )
}

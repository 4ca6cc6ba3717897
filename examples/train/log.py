"""The log of a run, a CSV file: a line is one step."""

import csv
import io
import pathlib
from typing import Any

from .checkpoint import write_whole

COLUMNS = ("step", "loss", "validation_loss", "gradient_norm", "learning_rate", "tokens", "seconds")


class Log:
    """Writes lines to out/log.csv, and prints them. Removes lines after `step`, where a run resumes."""

    def __init__(self, folder: str, step: int) -> None:
        self.path = pathlib.Path(folder) / "log.csv" if folder else None
        if self.path is None:
            return
        kept = [row for row in self.rows() if int(row["step"]) <= step]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
        write_whole(self.path, lambda file: file.write(text.getvalue().encode()))

    def rows(self) -> list[dict[str, Any]]:
        """The whole lines. The last one may have been cut by a crash."""
        if self.path is None or not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        return list(csv.DictReader(lines))

    def add(self, values: dict[str, Any]) -> None:
        row = [f"{x:.9g}" if isinstance(x, float) else str(x) for x in (values[c] for c in COLUMNS)]
        print("  ".join(f"{name} {x}" for name, x in zip(COLUMNS, row) if x), flush=True)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(",".join(row) + "\n")

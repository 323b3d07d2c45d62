"""Numbers measured on hardware, rendered into lessons, README.md and docs/.

No measured number is typed by hand: it stands in a file ``docs/data/STEM.json`` of the form

    {"schema": 1, "machine": {"gpu": ..., "driver": ..., "date": ...}, "rows": [{...}, ...]}

and texts name it. Three ways to do so use this module:

* roles in a lesson, expanded by ``ladder build``: ``value_of(query)``, ``ratio_of(query)``,
  ``provenance(stem)``, with queries as ``parse_query`` and ``parse_ratio`` describe them;
* ``bench_table(stem, implementations, cases)`` for a lesson's table;
* markers in README.md and docs/*.md, whose contents ``render_markers(text, path)`` rewrites:

      <!-- data: bench-table STEM implementations=a,b cases=N=256,N=1024 -->
      ... replaced by the build ...
      <!-- /data -->

  A block begins with ``<!-- data:``; inside a sentence it holds no line break, and does not begin a
  line (Markdown would end the paragraph there):
  ``<!-- data: value STEM implementation=solution N=256 : median -->4230<!-- /data -->``.
  Kinds: ``value QUERY``, ``ratio QUERY``, ``provenance STEM``, ``bench-table STEM
  [implementations=...] [cases=...]``, ``table STEM columns=a,b [FILTER ...]``, and ``simulator NAME``
  for what simulator_page.py makes. A case with two parameters is M=4&N=256 there.

A file or a row that doesn't exist yet renders as "(not measured yet)", and ``misses()`` says which
(the build prints them; a finished repository has none). A query that can't be read, or that
several rows answer, raises ``ValueError``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "data"
NOT_MEASURED = "(not measured yet)"
SIGNIFICANT_DIGITS = 3


@dataclass
class DataFolder:
    """The measurements in one folder, and what was asked for and not found there."""

    path: Path
    misses: list[str] = field(default_factory=list)

    def load(self, stem: str) -> dict[str, Any] | None:
        """The file STEM.json, or None (a miss) when it doesn't exist."""
        file = self.path / f"{stem}.json"
        if not file.is_file():
            self.miss(f"{file.name} does not exist")
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
        if data.get("schema") != 1 or not isinstance(data.get("rows"), list):
            raise ValueError(f'{file}: want {{"schema": 1, "machine": {{}}, "rows": []}}')
        return data

    def miss(self, what: str) -> None:
        if what not in self.misses:
            self.misses.append(what)

    def row(self, stem: str, filters: Mapping[str, str]) -> dict[str, Any] | None:
        """The one row that all filters fit, or None (a miss)."""
        data = self.load(stem)
        if data is None:
            return None
        rows = select(data, filters)
        asked = " ".join(f"{key}={wanted}" for key, wanted in filters.items())
        if len(rows) > 1:
            raise ValueError(f"{stem}: {len(rows)} rows fit {asked!r}; add a filter")
        if not rows:
            self.miss(f"{stem}.json has no row with {asked}")
            return None
        return rows[0]

    def number(self, stem: str, filters: Mapping[str, str], name: str) -> Any:
        """The field of the one row that fits, or None (a miss)."""
        row = self.row(stem, filters)
        if row is None:
            return None
        found = lookup(row, name)
        if found is None:
            self.miss(f"{stem}.json has no field {name} in the row with {dict(filters)}")
        return found


# The repository's own measurements. Its list of misses is emptied by whoever reads it.
REPOSITORY = DataFolder(DATA_FOLDER)


def misses() -> list[str]:
    """What was asked for since the last call and isn't measured yet; forgets it."""
    missed = list(REPOSITORY.misses)
    REPOSITORY.misses.clear()
    return missed


def load(stem: str) -> dict[str, Any] | None:
    """docs/data/STEM.json, or None when it doesn't exist (which ``misses()`` then reports)."""
    return REPOSITORY.load(stem)


# Rows


def lookup(row: Mapping[str, Any], key: str) -> Any:
    """A row's own entry, or that of its "case"; None when neither has the key."""
    if key in row:
        return row[key]
    case = row.get("case")
    return case.get(key) if isinstance(case, Mapping) else None


def select(data: Mapping[str, Any], filters: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows whose entries, as text, equal all of ``filters``."""
    return [
        row
        for row in data["rows"]
        if all(_text(lookup(row, key)) == wanted for key, wanted in filters.items())
    ]


def _text(found: Any) -> str:
    return str(found).lower() if isinstance(found, bool) else str(found)


# Numbers


def format_number(number: Any) -> str:
    """Floats with three significant digits and no exponent, everything else as it is."""
    if not isinstance(number, float):
        return str(number)
    if not math.isfinite(number):
        return "-"
    if number == 0:
        return "0"
    # Through the exponent form first, so that 9.996 becomes 10.0 and not 10.00.
    exponent = int(f"{number:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")[2])
    digits = SIGNIFICANT_DIGITS - 1 - exponent
    return f"{round(number, digits):.{max(0, digits)}f}"


def value(stem: str, filters: Mapping[str, str], field: str) -> str:
    """One measured number as text: ``value("bench_x", {"implementation": "eager", "N": "256"}, "median")``."""
    found = REPOSITORY.number(stem, filters, field)
    return NOT_MEASURED if found is None else format_number(found)


def ratio(
    stem: str,
    above: tuple[Mapping[str, str], str],
    below: tuple[Mapping[str, str], str],
) -> str:
    """The quotient of two numbers of a file, each given as (filters, field), with two decimals."""
    top = REPOSITORY.number(stem, *above)
    bottom = REPOSITORY.number(stem, *below)
    return NOT_MEASURED if top is None or bottom is None else f"{top / bottom:.2f}"


def parse_query(text: str) -> tuple[str, dict[str, str], str]:
    """``STEM a=1 b=2 : field`` as (stem, filters, field)."""
    head, colon, name = text.strip().rpartition(" : ")
    words = head.split()
    if not colon or not words or not name.strip():
        raise ValueError(f"{text!r}: want 'FILE key=value ... : field'")
    return words[0], _filters(words[1:]), name.strip()


def parse_ratio(text: str) -> tuple[str, tuple[dict[str, str], str], tuple[dict[str, str], str]]:
    """``STEM a=1 : field / b=2 : field`` as (stem, (filters, field), (filters, field))."""
    above, slash, below = text.partition(" / ")
    if not slash:
        raise ValueError(f"{text!r}: want 'FILE key=value : field / key=value : field'")
    stem, filters, name = parse_query(above)
    _, filters_below, name_below = parse_query(f"{stem} {below}")
    return stem, (filters, name), (filters_below, name_below)


def value_of(query: str) -> str:
    """What the role {measured} stands for."""
    return value(*parse_query(query))


def ratio_of(query: str) -> str:
    """What the role {measured-ratio} stands for."""
    return ratio(*parse_ratio(query))


def _filters(words: Iterable[str]) -> dict[str, str]:
    filters = {}
    for word in words:
        key, equals, wanted = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r}: a filter is written key=value")
        filters[key] = wanted
    return filters


# Provenance and tables

_VERSIONS = (
    ("driver", "driver"),
    ("torch", "PyTorch"),
    ("triton", "Triton"),
    ("cutlass_dsl", "CuTe DSL"),
)


def provenance(stem: str) -> str:
    """Where a file's numbers come from: GPU, driver, versions, date."""
    data = load(stem)
    return NOT_MEASURED if data is None else provenance_of(data["machine"])


def provenance_of(machine: Mapping[str, Any]) -> str:
    parts = [str(machine.get("gpu", "unknown GPU"))]
    parts += [f"{label} {machine[key]}" for key, label in _VERSIONS if machine.get(key)]
    if machine.get("date"):
        parts.append(str(machine["date"]))
    return ", ".join(parts)


def bench_table(
    stem: str,
    implementations: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
) -> str:
    """A bench file as a Markdown table: a line a case, a column an implementation, medians.

    implementations: which columns, in this order (default: all, in the file's order).
    cases: which lines, each "N=256" or "M=4 N=256" (default: all).
    A line under the table says the unit, what all cases share, and the provenance.
    """
    data = load(stem)
    if data is None:
        return NOT_MEASURED
    rows = [row for row in data["rows"] if _wanted(row, cases)]
    columns = list(implementations or dict.fromkeys(row["implementation"] for row in rows))
    by_case = _group_by_case(rows)
    if not by_case:
        REPOSITORY.miss(f"{stem}.json has no row with {cases}")
        return NOT_MEASURED
    varying, shared = _split_parameters([dict(key) for key in by_case])
    lines = []
    for key, medians in by_case.items():
        parameters = dict(key)
        for name in columns:
            if name not in {row["implementation"] for row in rows}:
                REPOSITORY.miss(f"{stem}.json has no implementation {name}")
        lines.append(
            [parameters.get(name, "-") for name in varying]
            + [format_number(medians[name]) if name in medians else "-" for name in columns]
        )
    units = "/".join(dict.fromkeys(row["unit"] for row in rows))
    note = f"Median {units}"
    if shared:
        note += "; " + ", ".join(f"{name}={found}" for name, found in shared.items())
    note += f". {provenance_of(data['machine'])}."
    return f"{markdown_table([*varying, *columns], lines)}\n\n{note}"


def _wanted(row: Mapping[str, Any], cases: Sequence[str] | None) -> bool:
    if cases is None:
        return True
    alternatives = [_filters(case.replace("&", " ").split()) for case in cases]
    return any(
        all(_text(lookup(row, key)) == wanted for key, wanted in filters.items())
        for filters in alternatives
    )


def _group_by_case(rows: Sequence[Mapping[str, Any]]) -> dict[tuple, dict[str, float]]:
    grouped: dict[tuple, dict[str, float]] = {}
    for row in rows:
        key = tuple((name, str(found)) for name, found in row["case"].items())
        grouped.setdefault(key, {})[row["implementation"]] = row["median"]
    return grouped


def _split_parameters(cases: Sequence[Mapping[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Names of the parameters that differ between cases, and those that all share."""
    names = list(dict.fromkeys(name for case in cases for name in case))
    seen = {name: {case.get(name) for case in cases} for name in names}
    varying = [name for name in names if len(seen[name]) > 1] or names[:1]
    shared = {name: str(cases[0][name]) for name in names if name not in varying}
    return varying, shared


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers as ``format_number`` writes them."""
    shown = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    shown += ["| " + " | ".join(format_number(cell) for cell in line) + " |" for line in lines]
    return "\n".join(shown)


def table(stem: str, columns: Sequence[str], filters: Mapping[str, str]) -> str:
    """Chosen fields of the rows that fit, as a Markdown table."""
    data = load(stem)
    if data is None:
        return NOT_MEASURED
    lines = [[_cell(row, name) for name in columns] for row in select(data, filters)]
    return markdown_table([name.replace("_", " ") for name in columns], lines)


def _cell(row: Mapping[str, Any], name: str) -> Any:
    found = lookup(row, name)
    return "-" if found is None else found


# Markers

_MARKER = re.compile(r"(<!-- data: (?P<what>[^\n]*?) -->)(?P<body>.*?)(<!-- /data -->)", re.DOTALL)
_IN_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def render_markers(text: str, path: Path) -> str:
    """``text`` with every marked block rewritten from the data; code blocks are left alone.

    path: the file the text comes from, named in errors.
    """
    pieces = []
    position = 0
    for code in _IN_CODE.finditer(text):
        pieces += [_render_plain(text[position : code.start()], path), code.group()]
        position = code.end()
    pieces.append(_render_plain(text[position:], path))
    return "".join(pieces)


def _render_plain(text: str, path: Path) -> str:
    if text.count("<!-- data: ") != text.count("<!-- /data -->"):
        raise ValueError(f"{path}: a '<!-- data: ... -->' lacks its '<!-- /data -->'")

    def rewritten(match: re.Match[str]) -> str:
        try:
            content = _render_block(match["what"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if "\n" in match["body"] or "\n" in content:
            content = f"\n\n{content}\n\n"
        return f"{match[1]}{content}{match[4]}"

    return _MARKER.sub(rewritten, text)


def _render_block(what: str) -> str:
    kind, _, rest = what.strip().partition(" ")
    if kind == "value":
        return value_of(rest)
    if kind == "ratio":
        return ratio_of(rest)
    if kind == "provenance":
        return provenance(rest.strip())
    if kind == "simulator":
        from checkers import simulator_page as documentation  # only its own page needs it

        return documentation.render(rest.strip())
    stem, *words = rest.split()
    options = _filters(words)
    if kind == "bench-table":
        return bench_table(stem, _list(options, "implementations"), _list(options, "cases"))
    if kind == "table":
        columns = _list(options, "columns")
        if columns is None:
            raise ValueError(f"{what!r}: a table needs columns=a,b")
        del options["columns"]
        return table(stem, columns, options)
    raise ValueError(f"{what!r}: want value, ratio, provenance, bench-table, table or simulator")


def _list(options: Mapping[str, str], name: str) -> list[str] | None:
    return options[name].split(",") if name in options else None

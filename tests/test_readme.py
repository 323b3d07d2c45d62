"""README.md and docs/ are true: links lead somewhere, files exist, commands parse, tables are fresh."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from checkers import readme, rendering
from checkers.cli import app
from checkers.course import Course, CourseError

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = typer.main.get_command(app).commands

every_text = pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors of a Markdown file's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.+)$", without_code(path.read_text(encoding="utf-8")), re.MULTILINE
    )
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def ladder_commands(text: str) -> list[list[str]]:
    """Every ``ladder ...`` in code blocks and code spans, as words."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(ladder [^`\n]+)`", without_code(text))
    found = []
    for line in lines:
        for part in re.split(r"&&|;|\|", line.partition("#")[0]):
            if part.strip().startswith("ladder "):
                found.append(shlex.split(part)[1:])
    return found


@every_text
def test_relative_links_lead_to_files_and_headings(path):
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text(encoding="utf-8")))
    broken = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@every_text
def test_files_that_are_named_exist(path):
    spans = re.findall(r"`([^`\n]+)`", without_code(path.read_text(encoding="utf-8")))
    folders = ("chapters/", "solutions/", "checkers/", "tests/", "docs/", ".ci/")
    named = {
        span.partition(":")[0]
        for span in spans
        # NN, CHAPTER, * and so on stand for something else.
        if span.startswith(folders) and not re.search(r"[*…<>{}\s]|NN|[A-Z]{4}", span)
    }
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@every_text
def test_commands_and_their_options_exist(path):
    for words in ladder_commands(path.read_text(encoding="utf-8")):
        if words[0].startswith("-"):
            continue
        assert words[0] in COMMANDS, f"ladder {' '.join(words)}"
        known = {name for parameter in COMMANDS[words[0]].params for name in parameter.opts}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known | {"--help"}, f"ladder {' '.join(words)}"


@every_text
def test_exercises_that_are_named_exist(path):
    if path.name == "adding_a_chapter.md":
        return  # it makes up a chapter
    course = Course(ROOT)
    for words in ladder_commands(path.read_text(encoding="utf-8")):
        for word in words[1:]:
            if re.fullmatch(r"ch\d\d(\.[a-z_]+)?", word):
                try:
                    course.select([word])
                except CourseError as error:
                    pytest.fail(f"{path.name}: {error}")


def test_the_ladder_in_the_readme_is_the_course():
    assert readme.update(Course(ROOT), check=True) == []


@every_text
def test_measured_numbers_are_those_of_the_data(path):
    text = path.read_text(encoding="utf-8")
    assert rendering.render_markers(text, path) == text


def test_the_readme_is_one_screen_of_commands_that_set_everything_up():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("start", "tests"):
        command = re.search(rf"<!-- command: {name} -->\n```bash\n(.*?)```", text, re.DOTALL)
        assert command is not None, name
        assert command[1].startswith("python3 -m venv .venv && ")
        assert command[1].count("\n") == 1


def test_ci_runs_the_command_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extraction = re.search(r"command=\$\((awk .*?)\)\n\[", script, re.DOTALL)
    assert extraction is not None
    extracted = subprocess.run(
        ["bash", "-c", f"copy={ROOT}; {extraction[1]}"], capture_output=True, text=True, check=True
    )
    assert extracted.stdout.rstrip().endswith("&& pytest -n auto")
    assert extracted.stdout.rstrip() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_tested_versions_are_within_the_ranges_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    ranges = {Requirement(text).name: Requirement(text).specifier for text in texts}
    pins = {}
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[name] = version
    assert "torch" in pins
    for name, version in pins.items():
        assert version in ranges[name], f"{name}=={version}"


def test_the_doctor_asks_for_what_the_package_asks_for():
    from checkers.doctor import CUTE_VERSION, RANGES

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {Requirement(text).name: Requirement(text) for text in project["dependencies"]}
    for name, (low, high, _) in RANGES.items():
        asked = f">={'.'.join(map(str, low))},<{'.'.join(map(str, high))}"
        assert SpecifierSet(asked) == wanted[name].specifier
    assert str(wanted["nvidia-cutlass-dsl"].specifier) == f"=={CUTE_VERSION}"


def test_the_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text

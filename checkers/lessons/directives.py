"""Expands what a lesson.md says in directives and roles into the plain MyST that jupytext reads.

    ```{setup}                the solution module's setup cells, as one code cell
    ```{exercise} ch02.x      a line on points, minutes and needs, and the cell `%%exercise ch02.x`
    ```{bench-table} STEM     a table of docs/data/STEM.json; options :implementations:, :cases:
    {measured}`QUERY`  {measured-ratio}`QUERY / QUERY`  {provenance}`STEM`

``{code-cell}`` and ``{raw-cell}`` are jupytext's own and pass through. A lesson is checked while
it is expanded: ``LessonError`` lists every problem with its line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from jupytext.cell_to_text import three_backticks_or_more
from jupytext.myst import MystMetadataParsingError, get_parser, parse_directive_options
from markdown_it.token import Token

from checkers import rendering
from checkers.answers import MAGIC, setup_of, skeleton_of
from checkers.course import Chapter, Course
from checkers.exercise import Exercise
from checkers.lessons.report_html import anchor

DIRECTIVES = ("setup", "exercise", "bench-table")
JUPYTEXT_DIRECTIVES = ("code-cell", "raw-cell")
LOAD = "%load_ext checkers.lessons"

ROLES: dict[str, Callable[[str], str]] = {
    "measured": lambda query: rendering.value_of(query),
    "measured-ratio": lambda query: rendering.ratio_of(query),
    "provenance": lambda stem: rendering.provenance(stem.strip()),
}

# A role, a code span (which hides what looks like a role in it), or a link: whichever begins first.
# None of them extends over an empty line.
_INLINE = re.compile(
    r"\{(?P<role>[a-z][a-z-]*)\}`(?P<query>(?:(?!\n\n)[^`])+)`"
    r"|(?P<ticks>`+)(?!`)(?:(?!\n\n).)*?(?<!`)(?P=ticks)(?!`)"
    r"|\]\((?P<target>[^)\s]+)",
    re.DOTALL,
)


class LessonError(Exception):
    """A lesson can't be built; one line a problem: file, line, what is there, what is wanted."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def needs(exercise: Exercise) -> str:
    """What an exercise needs beside this package, in words."""
    if all(case.needs_gpu for case in exercise.cases):
        return "a GPU"
    if not exercise.speed:
        return "nothing"
    if exercise.floors:  # without a GPU the simulator counts what it moves
        return "nothing (a GPU times it)"
    return "a GPU for the speed points"


def headline(exercise: Exercise) -> str:
    """The line above an exercise's cell."""
    points = f"{exercise.points} point{'s' if exercise.points != 1 else ''}"
    return (
        f"**Exercise {exercise.id}** · {exercise.title} · {points} · {exercise.minutes} minutes"
        f" · needs: {needs(exercise)}"
    )


def expand(course: Course, chapter: Chapter) -> str:
    """The chapter's lesson as MyST without directives or roles of this course.

    Raises LessonError with everything that is wrong in it.
    """
    return _Expansion(course, chapter).run()


@dataclass
class _Expansion:
    """One pass over a lesson, from top to bottom."""

    course: Course
    chapter: Chapter
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    headings: set[str] = field(default_factory=set)
    exercises: dict[str, int] = field(default_factory=dict)  # id: the line that names it
    setup_line: int | None = None

    def run(self) -> str:
        text = self.chapter.lesson.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        tokens = get_parser().parse(text + "\n")
        self.headings = {heading for _, heading in _headings(tokens)}
        pieces: list[str] = []
        position = 0
        for token, start, end in _blocks(tokens):
            if position < start:
                pieces.append(self.prose(position, start))
            pieces.append(self.block(token, start, end))
            position = end
        pieces.append(self.prose(position, len(self.lines)))
        self.check_headings(tokens)
        self.check_exercises()
        if self.problems:
            raise LessonError(self.problems)
        return "\n".join(pieces) + "\n"

    def problem(self, line: int, says: str) -> None:
        """Notes a problem; ``line`` counts from 1, 0 is the file as a whole."""
        where = self.chapter.lesson.relative_to(self.course.root)
        self.problems.append(f"{where}:{line}: {says}" if line else f"{where}: {says}")

    # Fences, headings

    def block(self, token: Token, start: int, end: int) -> str:
        """A fence, heading, indented code or the front matter, expanded where it is ours."""
        as_it_is = "\n".join(self.lines[start:end])
        if token.type == "heading_open":
            # A cell a section: it can be folded in Jupyter, and an edit changes one cell.
            break_before = "\n+++\n\n" if token.tag == "h2" and token.level == 0 else ""
            return break_before + self.prose(start, end)
        if token.type != "fence" or not token.info.startswith("{"):
            return as_it_is
        match = re.fullmatch(r"\{([^}\s]*)\}\s*(.*)", token.info.strip())
        name, argument = (match[1], match[2]) if match else (token.info, "")
        if not self.is_well_placed(token, name, start, end):
            return as_it_is
        if name in JUPYTEXT_DIRECTIVES:
            self.check_code_cell(token, start)
            return as_it_is
        if name not in DIRECTIVES:
            known = ", ".join((*DIRECTIVES, *JUPYTEXT_DIRECTIVES))
            self.problem(start + 1, f"unknown directive {{{name}}}; there are: {known}")
            return as_it_is
        expand_it = getattr(self, name.replace("-", "_"))
        return expand_it(argument.strip(), token, start + 1)

    def is_well_placed(self, token: Token, name: str, start: int, end: int) -> bool:
        if token.level:
            self.problem(start + 1, f"{{{name}}} stands in a list or quote; put it at the margin")
            return False
        closing = self.lines[end - 1].strip() if end <= len(self.lines) else ""
        if end - 1 == start or not closing.startswith(token.markup) or closing.strip("`~"):
            self.problem(start + 1, f"{{{name}}} is never closed; end it with {token.markup}")
            return False
        return True

    def check_code_cell(self, token: Token, start: int) -> None:
        try:
            body, _ = parse_directive_options(token.content, "")
        except MystMetadataParsingError as error:
            self.problem(start + 1, f"the options of {{code-cell}} can't be read: {error}")
            return
        if any(line.startswith((MAGIC, LOAD)) for line in body):
            self.problem(
                start + 1,
                f"{{code-cell}} holds `{MAGIC}` or `{LOAD}`; use {{exercise}} ID and {{setup}}, "
                "which take the code from the solution",
            )

    def setup(self, argument: str, token: Token, line: int) -> str:
        if self.setup_line is not None:
            self.problem(line, f"{{setup}} was given in line {self.setup_line}; once is enough")
        if argument or token.content.strip():
            self.problem(line, "{setup} takes no argument and no text")
        self.setup_line = self.setup_line or line
        source = setup_of(self.chapter).strip("\n")
        return _code_cell(f"{LOAD}\n\n{source}" if source else LOAD)

    def exercise(self, argument: str, token: Token, line: int) -> str:
        known = {exercise.id: exercise for exercise in self.chapter.exercises}
        if token.content.strip():
            self.problem(line, "{exercise} takes an id and no text: its code is the solution's")
        if argument not in known:
            close = difflib.get_close_matches(argument, known, n=2, cutoff=0.4)
            wanted = (
                f"did you mean {' or '.join(close)}?" if close else f"there are: {_list(known)}"
            )
            named = f"no exercise {argument!r}" if argument else "no exercise named"
            self.problem(line, f"{{exercise}}: {named} in this chapter; {wanted}")
            return ""
        if argument in self.exercises:
            self.problem(
                line,
                f"{{exercise}} {argument} stands in line {self.exercises[argument]} already; "
                "name each exercise once",
            )
        if self.setup_line is None:
            self.problem(line, f"{{exercise}} {argument} stands before {{setup}}; put that first")
        self.exercises.setdefault(argument, line)
        source = skeleton_of(self.course, argument).strip("\n")
        cell = _code_cell(f"{MAGIC} {argument}\n{source}")
        return f"\n+++\n\n{headline(known[argument])}\n\n{cell}"

    def bench_table(self, argument: str, token: Token, line: int) -> str:
        try:
            body, options = parse_directive_options(token.content, "")
        except MystMetadataParsingError as error:
            self.problem(line, f"the options of {{bench-table}} can't be read: {error}")
            return ""
        unknown = set(options) - {"implementations", "cases"}
        if not argument or unknown or any(text.strip() for text in body):
            self.problem(
                line,
                "{bench-table} wants a file's stem in docs/data, and as options only "
                ":implementations: a,b and :cases: N=256,N=1024",
            )
            return ""
        implementations = _split(options.get("implementations"))
        cases = _split(options.get("cases"))
        try:
            return f"\n{rendering.bench_table(argument, implementations, cases)}\n"
        except ValueError as error:
            self.problem(line, f"{{bench-table}} {argument}: {error}")
            return ""

    # Prose

    def prose(self, start: int, end: int) -> str:
        """Lines ``start`` to ``end`` with their roles rendered and their links checked."""
        text = "\n".join(self.lines[start:end])

        def rendered(match: re.Match[str]) -> str:
            line = start + 1 + text.count("\n", 0, match.start())
            if match["target"]:
                return f"]({self.link(match['target'], line)}"
            if match["role"]:
                return self.role(match["role"], " ".join(match["query"].split()), line)
            return match.group()

        return _INLINE.sub(rendered, text)

    def role(self, name: str, query: str, line: int) -> str:
        if name not in ROLES:
            self.problem(line, f"unknown role {{{name}}}; there are: {_list(ROLES)}")
            return query
        try:
            return ROLES[name](query)
        except ValueError as error:
            self.problem(line, f"{{{name}}}: {error}")
            return query

    def link(self, target: str, line: int) -> str:
        """The link's target, which must exist; one to a heading as Jupyter names it."""
        path, _, fragment = target.partition("#")
        if target.startswith("#"):
            names = {name: anchor(text) for text in self.headings for name in _names(text)}
            if fragment not in names:
                self.problem(line, f"{target}: no heading of this lesson has that name")
            return "#" + quote(names.get(fragment, fragment), safe=":,!?'/&=+@")
        outside = re.match(r"[a-z]+:", path) or path == self.chapter.notebook.name
        if not outside and not (self.chapter.folder / path).exists():
            self.problem(line, f"{path} does not exist beside the lesson")
        return target

    # The lesson as a whole

    def check_headings(self, tokens: list[Token]) -> None:
        """The lesson has a title, and the headings that reports send a learner to."""
        tags = [tag for tag, _ in _headings(tokens)]
        if tags[:1] != ["h1"]:
            self.problem(0, "a lesson begins with its title, `# Title`")
        for exercise in self.chapter.exercises:
            wanted = {exercise.section, *(d.reread for d in exercise.diagnoses if d.reread)}
            for heading in sorted(text.lstrip("# ") for text in wanted if text):
                if heading not in self.headings:
                    close = difflib.get_close_matches(heading, self.headings, n=1, cutoff=0.4)
                    hint = f"; the closest is {close[0]!r}" if close else ""
                    self.problem(
                        0,
                        f"no heading {heading!r}, which {exercise.id} sends a learner to "
                        f"(section or reread){hint}",
                    )

    def check_exercises(self) -> None:
        for exercise in self.chapter.exercises:
            if exercise.id not in self.exercises:
                self.problem(
                    0, f"the lesson never names {exercise.id}: add a ```{{exercise}} {exercise.id}"
                )
        if self.setup_line is None and not self.exercises:
            self.problem(0, "no ```{setup}: it belongs before the first code")


def _blocks(tokens: list[Token]) -> Iterator[tuple[Token, int, int]]:
    """(token, first line, line after) of what is not plain prose, and of headings, in order."""
    for token in tokens:
        if token.type in ("fence", "code_block", "front_matter", "heading_open") and token.map:
            yield token, token.map[0], token.map[1]


def _headings(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """(tag, text) of each heading; formatting in it stays as it is written."""
    for opening, inline in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            yield opening.tag, inline.content.strip()


def _names(heading: str) -> tuple[str, str]:
    """What a link may call a heading: GitHub's name, lower case without punctuation, or Jupyter's."""
    jupyter = anchor(heading)
    return re.sub(r"[^\w-]", "", jupyter.lower()), jupyter


def _code_cell(source: str) -> str:
    fence = three_backticks_or_more(source.splitlines())
    return f"\n{fence}{{code-cell}}\n{source}\n{fence}\n"


def _split(option: object) -> list[str] | None:
    return None if option is None else [part.strip() for part in str(option).split(",")]


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"

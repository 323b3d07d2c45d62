"""The source stage: is the blank filled, is the function there, is anything forbidden used.

Everything is read from the syntax tree; nothing is run.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass

from checkers.exercise import Evidence, Exercise, Finding, Stage, Verdict
from checkers.grading import diagnose, syntax

_GRADER = "an answer may not reach into the grader"
_ASYNC = "the grader waits for the current stream; work elsewhere is not seen by the clock"

# (name, why not). A name stands for all its members; a leading dot makes it an attribute.
FORBIDDEN_EVERYWHERE: tuple[tuple[str, str], ...] = (
    ("checkers", _GRADER),
    ("solutions", "an answer may not call the reference solution"),
    ("gc", "the garbage collector finds the expected answer in memory"),
    ("ctypes", "it writes to memory behind PyTorch's back"),
    ("importlib", _GRADER),
    ("builtins.__import__", _GRADER),
    ("builtins.exec", "code in strings can't be read by the source stage"),
    ("builtins.eval", "code in strings can't be read by the source stage"),
    ("builtins.open", "an answer needs no files"),
    ("pathlib", "an answer needs no files"),
    ("inspect.currentframe", _GRADER),
    ("inspect.stack", _GRADER),
    ("inspect.trace", _GRADER),
    ("inspect.getouterframes", _GRADER),
    ("inspect.getinnerframes", _GRADER),
    ("sys._getframe", _GRADER),
    ("sys._current_frames", _GRADER),
    ("sys.modules", _GRADER),
    ("sys.settrace", _GRADER),
    ("sys.setprofile", _GRADER),
    ("unittest.mock", "patching hides what a function really does"),
    ("atexit", _GRADER),
    ("subprocess", "an answer starts no processes"),
    ("multiprocessing", "an answer starts no processes"),
    ("threading", _ASYNC),
    ("torch.Stream", _ASYNC),
    ("torch.cuda.Stream", _ASYNC),
    ("torch.cuda.ExternalStream", _ASYNC),
    ("torch.cuda.stream", _ASYNC),
    ("torch.cuda.set_stream", _ASYNC),
    ("cuda.bindings.driver.cuStreamCreate", _ASYNC),
    ("cuda.bindings.driver.cuStreamCreateWithPriority", _ASYNC),
    ("cuda.bindings.runtime.cudaStreamCreate", _ASYNC),
    ("cuda.bindings.runtime.cudaStreamCreateWithFlags", _ASYNC),
    ("os.putenv", "the environment decides how the grader compiles and runs"),
    ("os.unsetenv", "the environment decides how the grader compiles and runs"),
    (".__subclasses__", _GRADER),
    (".__globals__", _GRADER),
    (".__builtins__", _GRADER),
    (".f_back", _GRADER),
    (".f_globals", _GRADER),
    (".f_locals", _GRADER),
)

# Attributes of modules that an answer may set: they are there to be set.
_SETTINGS = ("torch.backends", "torch._dynamo.config", "torch._inductor.config")

_ENVIRONMENT_WRITERS = ("update", "setdefault", "pop", "popitem", "clear", "__setitem__")


@dataclass(frozen=True)
class Trespass:
    """One use of something that is not allowed: where, what, and why not."""

    line: int
    column: int
    name: str
    why: str


def check_source(
    exercise: Exercise, source: str, skeleton: str | None, first_line: int = 1
) -> Stage:
    """The outcome of the source stage.

    source: the text to be graded.  skeleton: the same text with nothing filled in, None if there
        is none to compare with.  first_line: the line of ``source`` that the learner knows as
        line 1 (what comes before is the setup cell); only the numbers shown depend on it.
    """
    start = time.perf_counter()
    verdict, finding = _judge(exercise, source, skeleton, first_line)
    return Stage(
        "source",
        verdict,
        reason=finding.summary if finding else "",
        seconds=time.perf_counter() - start,
        finding=finding,
    )


def _judge(
    exercise: Exercise, source: str, skeleton: str | None, first_line: int
) -> tuple[Verdict, Finding | None]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return Verdict.FAIL, explain_syntax_error(error, source, first_line)
    if skeleton is not None and syntax.same_code(source, skeleton):
        return Verdict.NOT_ATTEMPTED, Finding("not attempted: the blank is still as it was shipped")

    for error, finding in (
        ("check:blank", _unfilled(tree, source, first_line)),
        ("check:missing_function", _missing_function(exercise.function, tree)),
        *_trespasses(exercise, tree, source, first_line),
    ):
        if finding is not None:
            evidence = Evidence(stage="source", error=error, tree=tree)
            return Verdict.FAIL, diagnose.diagnose(exercise, evidence, finding)
    return Verdict.PASS, None


def explain_syntax_error(
    error: SyntaxError | ValueError, source: str, first_line: int = 1
) -> Finding:
    """A Finding for source that Python can't parse, with the line and a caret."""
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return Finding(f"Python can't read this source: {error}")
    end = error.end_offset if error.end_lineno in (None, error.lineno) else None
    picture = line_picture(
        source, error.lineno, (error.offset or 1) - 1, (end or 0) - 1, first_line
    )
    return Finding(
        f"a {_kind(error)} on line {error.lineno - first_line + 1}: {error.msg}",
        picture=picture,
        probable="Python reads no further than this line; often the mistake is at its end or on "
        "the line before: a bracket that isn't closed, a missing colon, a wrong indentation.",
    )


def _kind(error: SyntaxError) -> str:
    return "wrong indentation" if isinstance(error, IndentationError) else "syntax error"


def line_picture(
    source: str, line: int, column: int = -1, end_column: int = -1, first_line: int = 1
) -> str:
    """The source line with its number, and a caret under columns [column, end_column)."""
    lines = source.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip()
    number = f"{line - first_line + 1:4d} | "
    if not 0 <= column <= len(text):
        return number + text
    caret = "^" * max(1, min(end_column, len(text)) - column)
    return f"{number}{text}\n{' ' * (len(number) + column)}{caret}"


def _unfilled(tree: ast.Module, source: str, first_line: int) -> Finding | None:
    blanks = syntax.unfilled_blanks(tree)
    if not blanks:
        return None
    first = blanks[0]
    count = "a blank is" if len(blanks) == 1 else f"{len(blanks)} blanks are"
    wanted = f": {first.words}" if first.words else ""
    return Finding(
        f"{count} not filled: line {first.line - first_line + 1}{wanted}",
        picture=line_picture(source, first.line, first_line=first_line),
        probable="The line that raises NotImplementedError is still there. Put your code in its "
        "place, and take the line out.",
    )


def _missing_function(name: str, tree: ast.Module) -> Finding | None:
    """Only what is certain without running: a star import or a class may still provide it."""
    bound = syntax.top_level_bindings(tree)
    if name not in bound:
        if "*" in bound:
            return None
        near = [other for other, node in bound.items() if isinstance(node, ast.FunctionDef)]
        return Finding(
            f"there is no function {name}",
            probable=f"The grader calls {name}; it must be defined at the left margin, under "
            "exactly this name." + (f" Defined are: {', '.join(near)}." if near else ""),
        )
    node = bound[name]
    if isinstance(node, ast.AsyncFunctionDef):
        return Finding(f"{name} is an async function; it must be an ordinary one")
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        return Finding(f"{name} is not a function: it is set to {ast.unparse(node.value)}")
    return None


# --- forbidden things --------------------------------------------------------------------------


def _trespasses(
    exercise: Exercise, tree: ast.Module, source: str, first_line: int
) -> Iterator[tuple[str, Finding]]:
    for trespass in sorted(find_trespasses(exercise, tree), key=lambda t: (t.line, t.column)):
        yield (
            f"check:forbidden:{trespass.name}",
            Finding(
                f"{trespass.name.removeprefix('builtins.')} may not be used here "
                f"(line {trespass.line - first_line + 1}): {trespass.why}",
                picture=line_picture(source, trespass.line, trespass.column, first_line=first_line),
            ),
        )


def find_trespasses(exercise: Exercise, tree: ast.Module) -> list[Trespass]:
    """Every forbidden use in the source, the exercise's own and the course's."""
    own = tuple(
        (name, "this exercise asks you to write what it does yourself")
        for name in exercise.forbidden
    )
    mentions = syntax.mentions(tree)
    found = [
        Trespass(mention.node.lineno, mention.node.col_offset, name, why)
        for name, why in own + FORBIDDEN_EVERYWHERE
        for mention in mentions
        if mention.is_of(name)
    ]
    return found + _star_imports(tree, own) + _environment_writes(tree) + _patches(tree)


def _star_imports(tree: ast.Module, own: tuple[tuple[str, str], ...]) -> list[Trespass]:
    """``from torch.nn.functional import *`` where a member of that module is forbidden."""
    return [
        Trespass(node.lineno, node.col_offset, name, why)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for name, why in own
        if syntax.full_name(name).rpartition(".")[0] == node.module
    ]


def _environment_writes(tree: ast.Module) -> list[Trespass]:
    names = syntax.aliases(tree)
    why = "the environment decides how the grader compiles and runs"

    def writes(node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            return syntax.dotted(node.value, names) == "os.environ"
        spelled = syntax.dotted(node.func, names) if isinstance(node, ast.Call) else None
        return spelled in {f"os.environ.{method}" for method in _ENVIRONMENT_WRITERS}

    return [
        Trespass(node.lineno, node.col_offset, "writing to os.environ", why)
        for node in ast.walk(tree)
        if writes(node)
    ]


def _patches(tree: ast.Module) -> list[Trespass]:
    """Assignments to attributes of imported modules and classes: ``time.time = ...``,
    ``torch.cuda.Event.elapsed_time = ...``, ``setattr(torch, ...)``."""
    names = syntax.aliases(tree)
    why = "changing other modules changes what the grader measures"
    found = []
    for node in ast.walk(tree):
        target = None
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            target = syntax.dotted(node, names)
        elif isinstance(node, ast.Call) and syntax.dotted(node.func, names) == "builtins.setattr":
            target = syntax.dotted(node.args[0], names) if node.args else None
        if target and not any(target.startswith(setting) for setting in _SETTINGS):
            found.append(Trespass(node.lineno, node.col_offset, f"setting {target}", why))
    return found

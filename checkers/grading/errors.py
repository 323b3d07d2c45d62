"""Other people's exceptions, as a Finding that a learner can act on.

CuTe DSL, Triton, PyTorch and CUDA wrap errors in errors. The wrapping is walked from the outside
in; what is kept is the innermost thing said, the innermost place in the learner's own file, and a
hint from ``error_hints``.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import sys
import textwrap
import traceback
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from checkers.exercise import Finding
from checkers.grading.error_hints import hint_for
from checkers.grading.source import explain_syntax_error, line_picture

# Longest essence of a message; what comes after repeats itself or lists internals.
LONGEST_TEXT = 320

# Longest text of a cause that is shown beside a message; longer ones are the library's internals.
LONGEST_CAUSE = 80

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class _Place:
    """A place in the learner's file: line from 1, columns from 0, -1 when unknown."""

    line: int
    column: int = -1
    end_column: int = -1


def explain(exception: BaseException, source: str, filename: str, first_line: int = 1) -> Finding:
    """What an exception says, where in the learner's source, and what to do.

    source: the text of ``filename``, which is the name the code was compiled under.
    first_line: the line of it that the learner knows as line 1 (setup cell above).
    """
    if isinstance(exception, SyntaxError) and exception.filename == filename:
        return explain_syntax_error(exception, source, first_line)
    chain = list(_chain(exception))
    place = next(filter(None, (_place_of(each, source, filename) for each in chain[::-1])), None)
    text = shorten(_essence(chain))
    return Finding(
        f"{_where(place, first_line)}{_kind(chain)}{text}",
        picture=_picture(place, source, first_line),
        probable=_hint(chain, source),
    )


def error_text(exception: BaseException) -> str:
    """For Evidence.error: the types of the outer and the inner error, CuTe DSL's code if there is
    one, and what it says: "CompilationError: ValueError: arange's range must be a power of 2"."""
    chain = list(_chain(exception))
    types = dict.fromkeys(type(each).__name__ for each in (exception, _speaker(chain)))
    return ": ".join(part for part in (*types, _code(chain), _essence(chain)) if part)


# --- the chain of causes -----------------------------------------------------------------------


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """The exception, what caused it, what caused that, and so on."""
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = _inside(current)


def _inside(exception: BaseException) -> BaseException | None:
    """What a library's error wraps. Errors of other kinds speak for themselves, whatever they
    were raised from."""
    if _is_cute(exception):
        own = getattr(exception, "cause", None)
        return own if isinstance(own, BaseException) else exception.__cause__
    if _is_triton(exception):
        return exception.__cause__ or exception.__context__  # it raises `from None`
    return exception.__cause__ if _is_dynamo(exception) else None


def _is_triton(exception: BaseException) -> bool:
    return type(exception).__module__.startswith("triton.") and hasattr(exception, "error_message")


def _is_cute(exception: BaseException) -> bool:
    return type(exception).__module__.startswith("cutlass.") and hasattr(exception, "message")


def _is_dynamo(exception: BaseException) -> bool:
    return type(exception).__module__.startswith(("torch._dynamo.", "torch._inductor."))


def _speaker(chain: list[BaseException]) -> BaseException:
    """The error whose type and text are worth showing: CuTe DSL's own when it has a code, the
    innermost otherwise."""
    coded = [each for each in chain if getattr(each, "code", None) and _is_cute(each)]
    return coded[0] if coded else chain[-1]


def _code(chain: list[BaseException]) -> str:
    """CuTe DSL's code of the error, or "" for everybody else's."""
    code = getattr(_speaker(chain), "code", None)
    return code if isinstance(code, str) else ""


def _essence(chain: list[BaseException]) -> str:
    """What the error says, in one line without decoration."""
    speaker = _speaker(chain)
    if type(speaker).__name__ == "MLIRError":
        return _verifier_text(str(speaker))
    if _is_cute(speaker):
        cause = clean(str(getattr(speaker, "cause", None) or ""))
        detail = f" ({cause})" if 0 < len(cause) < LONGEST_CAUSE else ""
        return clean(str(speaker.message)) + detail
    if _is_triton(speaker):
        return clean(speaker.error_message or str(speaker))
    if _is_dynamo(speaker):
        return _dynamo_text(clean(str(speaker)))
    outer = chain[-2] if len(chain) > 1 else None
    if outer is not None and _is_cute(outer) and not isinstance(speaker, NameError):
        return f"{clean(str(outer.message))}: {clean(str(speaker))}"
    return clean(str(speaker))


def _verifier_text(text: str) -> str:
    """The first error of MLIR's verifier, without its location and the operation it prints."""
    line = next((line for line in text.splitlines() if line.startswith("error: ")), text)
    line = line.removeprefix("error: ")
    said = line.partition("): ")[2] or line.removeprefix("unknown: ")
    return clean(said.replace(" S ptr ", " source pointer ").replace(" D ptr ", " target pointer "))


def _dynamo_text(text: str) -> str:
    """torch.compile's headline and explanation, without its hints and the stack it appends."""
    headline, _, rest = text.partition(" Explanation: ")
    explanation = rest.partition(" Hint: ")[0].partition(" Developer debug context: ")[0]
    return f"{headline}: {explanation}" if explanation else headline.partition(" from user code")[0]


def clean(text: str) -> str:
    """Without terminal colours and pictograms, white space made single."""
    plain = "".join(
        mark
        for mark in _COLOUR.sub("", text)
        if unicodedata.category(mark) not in ("So", "Cf", "Cn")
    )
    return " ".join(plain.split())


def shorten(text: str) -> str:
    """At most LONGEST_TEXT characters, ending with a whole sentence if one ends in time."""
    if len(text) <= LONGEST_TEXT:
        return text
    sentence_end = text.rfind(". ", 0, LONGEST_TEXT)
    if sentence_end > LONGEST_TEXT // 3:
        return text[: sentence_end + 1]
    return textwrap.shorten(text, LONGEST_TEXT, placeholder=" ...")


# --- where -------------------------------------------------------------------------------------


def _place_of(exception: BaseException, source: str, filename: str) -> _Place | None:
    """Where in the learner's file one error of the chain points, if it does."""
    if _is_cute(exception) and getattr(exception, "filename", None) == filename:
        line = getattr(exception, "line", None)
        column, end = getattr(exception, "col", None), getattr(exception, "end_col", None)
        if line:
            return _Place(line, -1 if column is None else column, -1 if end is None else end)
    if type(exception).__name__ == "MLIRError":
        return _verifier_place(str(exception), filename)
    if _is_dynamo(exception):
        return _dynamo_place(str(exception), filename) or _traceback_place(exception, filename)
    node = getattr(exception, "node", None)
    if _is_triton(exception) and node is not None:
        return _kernel_place(exception.src, node, source)
    return _traceback_place(exception, filename)


def _verifier_place(text: str, filename: str) -> _Place | None:
    """MLIR names places as "file":line:column."""
    _, found, rest = text.partition(f'"{filename}":')
    numbers = rest.replace(")", ":").split(":")[:2]
    if not found or not all(number.isdigit() for number in numbers):
        return None
    return _Place(int(numbers[0]), int(numbers[1]))


def _dynamo_place(text: str, filename: str) -> _Place | None:
    """torch.compile appends the stack of the code that it was reading to its text."""
    _, found, rest = text.rpartition(f'File "{filename}", line ')
    number = rest.partition(",")[0]
    return _Place(int(number)) if found and number.isdigit() else None


def _kernel_place(kernel: str | None, node: ast.AST, source: str) -> _Place | None:
    """Triton counts lines from the kernel's ``def``: find that in the file."""
    position = source.find(kernel.rstrip()) if kernel else -1
    if position < 0 or not hasattr(node, "lineno"):
        return None
    above = source.count("\n", 0, position)
    same_line = node.end_lineno == node.lineno
    return _Place(above + node.lineno, node.col_offset, node.end_col_offset if same_line else -1)


def _traceback_place(exception: BaseException, filename: str) -> _Place | None:
    """The innermost frame in the learner's file."""
    frames = traceback.extract_tb(exception.__traceback__)
    own = [frame for frame in frames if frame.filename == filename and frame.lineno]
    if not own:
        return None
    frame = own[-1]
    if frame.colno is None or frame.end_lineno != frame.lineno:
        return _Place(frame.lineno)
    return _Place(frame.lineno, frame.colno, frame.end_colno or -1)


def _where(place: _Place | None, first_line: int) -> str:
    if place is None:
        return ""
    if place.line < first_line:
        return f"setup cell, line {place.line}: "
    return f"line {place.line - first_line + 1}: "


def _picture(place: _Place | None, source: str, first_line: int) -> str:
    if place is None:
        return ""
    first_line = first_line if place.line >= first_line else 1
    return line_picture(source, place.line, place.column, place.end_column, first_line)


# --- what to do --------------------------------------------------------------------------------


def _kind(chain: list[BaseException]) -> str:
    """What stands before the text: CuTe DSL's code, or the type of a Python error."""
    code, name = _code(chain), type(_speaker(chain)).__name__
    if code:
        return f"{code}: "
    is_python = hasattr(builtins, name)
    return f"{name}: " if is_python and name != "Exception" else ""


def _hint(chain: list[BaseException], source: str) -> str:
    speaker = _speaker(chain)
    text = " ".join(clean(str(each)) for each in chain)
    for each in chain:
        if isinstance(each, NameError) and "Cannot access global" not in text:
            return _name_hint(each, source)
    return hint_for(_code(chain), text, type(speaker).__name__)


def _name_hint(error: NameError, source: str) -> str:
    """What to do about an unknown name: import it, spell it right, or set it before a branch."""
    quoted = str(error).split("'")[1::2]
    name = error.name or (quoted or str(error).split())[0]
    tree = ast.parse(source)
    bound = {
        node.id if isinstance(node, ast.Name) else node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    if isinstance(error, UnboundLocalError) or name in bound:
        return (
            f"{name} gets its value on some paths only, or later: give it one before the branch or "
            "loop that it is set in."
        )
    if name in sys.stdlib_module_names or name in ("torch", "triton", "cutlass", "numpy"):
        return (
            f"Add import {name}: a cell gets the notebook's setup cell and nothing else, a file gets "
            "only itself."
        )
    near = difflib.get_close_matches(name, bound, n=1, cutoff=0.75)
    if near:
        return f"Did you mean {near[0]}?"
    return (
        "A cell gets the notebook's setup cell and nothing else: what other cells define is not "
        "there. A file gets only itself: copy the setup cell to its top, without %load_ext."
    )

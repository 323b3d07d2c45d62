"""PTX text as kernels and instructions.

The grammar is that of the PTX ISA manual's chapter "Syntax", as far as NVVM and LLVM (CuTe DSL
and Triton) write it, inline assembly included. Nothing is interpreted beyond what the codegen
stage asks: which instructions there are, how many bits a memory instruction moves for a thread,
and which source line each came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

_TYPE_BITS = {"b128": 128, "e4m3x2": 16, "e5m2x2": 16, "f16x2": 32, "bf16x2": 32, "pred": 1}
_TYPE_BITS |= {f"{kind}{bits}": bits for kind in "busf" for bits in (8, 16, 32, 64)}
_TYPE_BITS |= {"bf16": 16}

# Instructions that move data between a thread's registers and memory, by their first part.
_MOVERS = {"ld", "ldu", "st", "atom", "red", "multimem"}

# A place before the .file directives are known: file number, line, column; innermost first.
_Numbers = tuple[tuple[int, int, int], ...]

# Comments around inline assembly, which are kept as if they were directives.
_MARKS = {"// begin inline asm": ".asm_begin\n", "// end inline asm": ".asm_end\n"}

# These end with their line and not with a semicolon.
_LINE_DIRECTIVES = (".loc", ".file", ".version", ".target", ".address_size", ".asm_")


@dataclass(frozen=True)
class Place:
    """A place in a source file; column 0 when unknown."""

    file: str
    line: int
    column: int = 0


@dataclass(frozen=True)
class Instruction:
    """One instruction, of PTX or SASS.

    opcode: with all its parts, "ld.global.v4.b32" or "LDG.E.128".  predicate: "%p1", "!%p1" or
    "".  bits: moved for one thread by a load, store or copy, 0 for anything else or when the
    size is only known at run time.  places: where in the source, innermost first; more than one
    when functions were inlined.
    """

    opcode: str
    operands: tuple[str, ...] = ()
    predicate: str = ""
    bits: int = 0
    places: tuple[Place, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    def is_a(self, opcode: str) -> bool:
        """Whether it begins with the parts of ``opcode``; qualifiers may stand between them
        (``ld.volatile.global`` is a "ld.global"), and the first part must be the same."""
        mine = iter(part.removesuffix("::cta") for part in self.parts)
        wanted = opcode.split(".")
        return self.parts[0] == wanted[0] and all(part in mine for part in wanted)

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class Kernel:
    """One ``.entry``.

    threads: of .reqntid, else .maxntid, as (x, y, z), None without either.  threads_exact: it was
    .reqntid.  cluster: .reqnctapercluster.  max_registers: .maxnreg.  static_shared: bytes of
    .shared variables that it uses, dynamic shared memory not among them.
    """

    name: str
    instructions: tuple[Instruction, ...]
    threads: tuple[int, int, int] | None = None
    threads_exact: bool = False
    cluster: tuple[int, int, int] | None = None
    max_registers: int | None = None
    static_shared: int = 0
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A whole PTX text: ``target`` is "sm_90a"."""

    target: str
    version: str
    kernels: tuple[Kernel, ...]
    files: dict[int, str] = field(default_factory=dict)

    def kernel(self, name: str) -> Kernel:
        """The kernel called ``name``, or the only one whose name contains it.

        Raises KeyError naming the kernels there are.
        """
        exact = [kernel for kernel in self.kernels if kernel.name == name]
        found = exact or [kernel for kernel in self.kernels if name in kernel.name]
        if len(found) != 1:
            names = ", ".join(kernel.name for kernel in self.kernels)
            raise KeyError(f"{len(found)} kernels are called {name!r}; there are: {names}")
        return found[0]


@lru_cache(maxsize=64)  # every rule reads the same few texts again
def parse(text: str) -> Module:
    """Reads a PTX text. Text that isn't PTX gives a module without kernels."""
    return _Reader(text).module()


# --- statements --------------------------------------------------------------------------------


def _without_comments(text: str) -> str:
    """Comments replaced by nothing but _MARKS; line ends and strings stay."""
    kept: list[str] = []
    position = 0
    while position < len(text):
        if text.startswith("//", position):
            end = _end_of_line(text, position)
            kept.append(_MARKS.get(text[position:end].strip(), ""))
            position = end
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            position = len(text) if end < 0 else end + 2
        elif text[position] == '"':
            end = text.find('"', position + 1)
            end = len(text) if end < 0 else end + 1
            kept.append(text[position:end])
            position = end
        else:
            ends = [text.find(mark, position + 1) for mark in ("//", "/*", '"')]
            end = min((end for end in ends if end >= 0), default=len(text))
            kept.append(text[position:end])
            position = end
    return "".join(kept)


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _statements(text: str) -> Iterator[str]:
    """ "{", "}", labels with their colon, directives, headers of functions, instructions."""
    text = _without_comments(text)
    position = start = depth = 0
    while position < len(text):
        mark = text[position]
        if mark not in "{}[]();:.":
            position += 1
            continue
        begun = text[start:position].strip()
        if not begun and text.startswith(_LINE_DIRECTIVES, position):
            end = _end_of_line(text, position)
            yield text[position:end].strip()
            start = position = end
            continue
        is_block = mark == "{" and depth == 0 and (not begun or _is_header(begun))
        if is_block or (mark == "}" and depth == 0):
            if begun:
                yield begun
            yield mark
            start = position + 1
        elif mark in "{[(":
            depth += 1
        elif mark in "}])":
            depth = max(0, depth - 1)
        elif depth == 0 and mark == ";":
            if begun:
                yield begun
            start = position + 1
        elif depth == 0 and mark == ":" and _is_label(text, position, begun):
            yield begun + ":"
            start = position + 1
        position += 1


def _is_header(statement: str) -> bool:
    words = statement.replace("(", " ").split()
    return ".entry" in words or ".func" in words or words[0] == ".section"


def _is_label(text: str, position: int, begun: str) -> bool:
    """A colon after a lone name, and not the "::" of an opcode such as shared::cta."""
    double = text[position + 1 : position + 2] == ":" or text[position - 1] == ":"
    return not double and begun != "" and not any(mark in begun for mark in " \t\n.@")


def split_operands(text: str) -> tuple[str, ...]:
    """ "{%r1, %r2}, [%rd1+8]" -> ("{%r1, %r2}", "[%rd1+8]")."""
    found, depth, start = [], 0, 0
    for position, mark in enumerate(text):
        depth += (mark in "{[(") - (mark in "}])")
        if mark == "," and depth == 0:
            found.append(text[start:position])
            start = position + 1
    found.append(text[start:])
    return tuple(" ".join(operand.split()) for operand in found if operand.strip())


# --- modules, kernels, instructions ------------------------------------------------------------


class _Reader:
    """Walks the statements once. Places are resolved at the end: .file directives come last."""

    def __init__(self, text: str) -> None:
        self.statements = _statements(text)
        self.files: dict[int, str] = {}
        self.version = self.target = ""
        self.shared: dict[str, int] = {}
        self.kernels: list[Kernel] = []
        self.inlined_at: dict[tuple[int, int, int], tuple[int, int, int]] = {}

    def module(self) -> Module:
        bodies: list[tuple[str, list[tuple[str, _Numbers]]]] = []
        for statement in self.statements:
            words = statement.split()
            if words[0] == ".version":
                self.version = words[1]
            elif words[0] == ".target":
                self.target = words[1].rstrip(",")
            elif words[0] == ".file":
                self.files[int(words[1])] = statement.split('"')[1]
            elif _is_header(statement):
                next(self.statements)  # its "{"
                body = self._body()
                if ".entry" in words:
                    bodies.append((statement, body))
            elif ".shared" in words and ".extern" not in words:
                self._declare(statement, self.shared)
        kernels = tuple(self._kernel(header, body) for header, body in bodies)
        return Module(self.target, self.version, kernels, self.files)

    def _body(self) -> list[tuple[str, _Numbers]]:
        """The statements up to the matching "}", each with the .loc it stands under.

        Of the .loc inside inline assembly only those before its first instruction count: LLVM
        adds the lines of the assembly's own text to the others.
        """
        body: list[tuple[str, _Numbers]] = []
        depth, place, asm_start = 1, (), -1
        for statement in self.statements:
            depth += (statement == "{") - (statement == "}")
            if depth == 0:
                break
            if statement.startswith(".asm_"):
                asm_start = len(body) if statement == ".asm_begin" else -1
            elif statement.startswith(".loc"):
                if asm_start in (-1, len(body)):
                    place = self._loc(statement)
            elif statement not in "{}" and not statement.endswith(":"):
                body.append((statement, place))
        return body

    def _loc(self, statement: str) -> _Numbers:
        """``.loc 2 216 16, function_name $L, inlined_at 1 10 20`` -> ((2, 216, 16), (1, 10, 20)).

        The place named by inlined_at may itself have been inlined: its own .loc said so before.
        """
        own, *more = statement.split(",")
        place = tuple(int(word) for word in own.split()[1:4])
        self.inlined_at.pop(place, None)
        for part in more:
            words = part.split()
            if words[0] == "inlined_at":
                self.inlined_at[place] = tuple(int(word) for word in words[1:4])
        chain = [place]
        while chain[-1] in self.inlined_at and len(chain) < 16:
            chain.append(self.inlined_at[chain[-1]])
        return tuple(chain)

    def _declare(self, statement: str, variables: dict[str, int]) -> None:
        """``.shared .align 16 .b8 name[1024]`` -> name: 1024 bytes."""
        declared = statement.partition("=")[0]
        words = declared.replace("[", " [", 1).split()
        bits = next((_TYPE_BITS[w[1:]] for w in words if w[1:] in _TYPE_BITS), 8)
        count = 1
        name = next((w for w in words if not w.startswith((".", "[")) and not w.isdigit()), "")
        for length in declared.split("[")[1:]:
            count *= int(length.partition("]")[0] or 0)
        variables[name] = bits * count // 8

    def _kernel(self, header: str, body: list[tuple[str, _Numbers]]) -> Kernel:
        name, _, rest = header.partition(".entry")[2].strip().partition("(")
        inside, _, after = rest.rpartition(")")
        directives = _directives(after or name)
        shared, instructions = dict(self.shared), []
        for statement, numbers in body:
            if not statement.startswith("."):
                places = tuple(
                    Place(self.files.get(number, ""), line, column)
                    for number, line, column in numbers
                )
                instructions.append(_instruction(statement, places))
            elif ".shared" in statement.split():
                self._declare(statement, shared)
        used = {word for line in instructions for word in _names(line)}
        exact = directives.get(".reqntid")
        return Kernel(
            name=name.split()[0],
            instructions=tuple(instructions),
            threads=exact or directives.get(".maxntid"),
            threads_exact=exact is not None,
            cluster=directives.get(".reqnctapercluster"),
            max_registers=directives.get(".maxnreg", (None,))[0],
            static_shared=sum(size for name, size in shared.items() if name in used),
            parameters=tuple(
                operand.split()[-1].partition("[")[0] for operand in split_operands(inside)
            ),
        )


def _directives(text: str) -> dict[str, tuple[int, int, int]]:
    """ ".reqntid 128, 1, 1 .minnctapersm 1" -> {".reqntid": (128, 1, 1), ...}."""
    found: dict[str, tuple[int, int, int]] = {}
    words = text.replace(",", " ").split()
    for index, word in enumerate(words):
        if word.startswith("."):
            numbers = []
            for number in words[index + 1 :]:
                if not number.isdigit():
                    break
                numbers.append(int(number))
            if numbers:
                found[word] = (*numbers, 1, 1)[:3]
    return found


def _names(instruction: Instruction) -> list[str]:
    """Names in the operands that may be variables."""
    text = " ".join(instruction.operands)
    for mark in "[]{}(),+":
        text = text.replace(mark, " ")
    return text.split()


def _instruction(statement: str, places: tuple[Place, ...]) -> Instruction:
    predicate = ""
    if statement.startswith("@"):
        guard, _, statement = statement.partition(" ") if " " in statement else (statement, "", "")
        predicate = guard[1:]
        statement = statement.strip()
    words = statement.split(None, 1)
    opcode = words[0]
    operands = split_operands(words[1]) if len(words) > 1 else ()
    return Instruction(opcode, operands, predicate, bits_moved(opcode, operands), places)


def bits_moved(opcode: str, operands: tuple[str, ...]) -> int:
    """Bits that an instruction moves for one thread; 0 if it moves none, or a run-time number.

    ld.global.v4.b32: 128.  cp.async.ca.shared.global [..], [..], 16: 128.  ldmatrix.x4: 128.
    cp.async.bulk is issued by one thread for many; its immediate size counts for that thread.
    """
    parts = opcode.split(".")
    if parts[0] == "cp" and parts[1:2] == ["async"]:
        sizes = [int(operand) for operand in operands[2:3] if operand.isdigit()]
        return 8 * sizes[0] if sizes else 0
    if parts[0] in ("ldmatrix", "stmatrix"):
        return 32 * _after_letter(parts, "x")
    if parts[0] == "tcgen05" and parts[1] in ("ld", "st"):
        return 32 * max((operand.count("%") for operand in operands if "{" in operand), default=0)
    if parts[0] not in _MOVERS:
        return 0
    types = [_TYPE_BITS[part] for part in parts if part in _TYPE_BITS]
    return types[-1] * _after_letter(parts, "v") if types else 0


def _after_letter(parts: list[str], letter: str) -> int:
    """The number of the part ".v4" or ".x4"; 1 without one."""
    numbers = [part[1:] for part in parts if part.startswith(letter) and part[1:].isdigit()]
    return int(numbers[0]) if numbers else 1

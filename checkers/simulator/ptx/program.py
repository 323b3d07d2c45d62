"""A PTX module as data: what the parser gives and the machine runs.

Nothing here knows what an instruction means. The names are those of the PTX ISA manual, chapters
"Syntax" and "State Spaces, Types, and Variables".
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Bits of the fundamental and packed types of a register, a parameter or an instruction.
TYPE_BITS = {"pred": 1, "b128": 128, "f16x2": 32, "bf16x2": 32, "bf16": 16, "tf32": 32}
TYPE_BITS |= {f"{kind}{bits}": bits for kind in "busf" for bits in (8, 16, 32, 64)}
TYPE_BITS |= {"e4m3x2": 16, "e5m2x2": 16, "e4m3": 8, "e5m2": 8, "u16x2": 32, "s16x2": 32}
TYPE_BITS |= {"f32x2": 64, "u32x2": 64}


@dataclass(frozen=True)
class Place:
    """A place in a source file; column 0 when unknown. ``function``: where inlined, else ""."""

    file: str
    line: int
    column: int = 0
    function: str = ""


# --- operands ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Register:
    """A register: ``name`` with its %, made unique by the parser where scopes nest.

    ``type``: as declared, "b32", "f32", "pred"; special registers such as %tid.x have "special".
    ``negated``: written !%p1.
    """

    name: str
    type: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A constant. ``bits``: its 64-bit pattern as the manual's chapter on constants gives it
    (integers sign-extended, modulo 2**64); for floats ``value`` is exact and ``bits`` is the f64
    pattern, or the f32 pattern for 0f constants. ``kind``: "int", "f32" (0f...), "f64" (0d... or
    decimal)."""

    kind: str
    value: int | float
    bits: int


@dataclass(frozen=True)
class Symbol:
    """The name of a variable, parameter, label or function used as an operand."""

    name: str


@dataclass(frozen=True)
class Address:
    """[base + offset]: ``base`` a register, a symbol, or an immediate for an absolute address.

    ``coordinates``: of a tensor operand [map, {c0, c1}], innermost first, else empty.
    """

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Register | Immediate, ...] = ()


@dataclass(frozen=True)
class Vector:
    """{a, b, c, d}."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """d|p: a destination and a predicate destination."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Sink:
    """_: a result that nobody wants."""


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Sink


# --- instructions ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction.

    opcode: the first part, "ld".  modifiers: the others, in order, ("global", "v4", "b32");
    "shared::cta" is one modifier.  guard: the predicate register of @%p or @!%p.  places: where in
    the source, innermost first.  line: of the PTX text, from 1.  text: as written, on one line.
    For ``call``: operands are (Vector of results, Symbol, Vector of arguments, ...).
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    places: tuple[Place, ...]
    line: int
    text: str

    @property
    def name(self) -> str:
        """The opcode with its modifiers: "ld.global.v4.b32"."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Relocation:
    """An address in a variable's initial data (manual 5.4.4): the bytes from ``offset`` hold
    ((address of ``symbol``) + ``addend``) >> ``shift``, cut to ``bytes``.

    generic: written generic(symbol), the generic address; else the one in its state space.
    """

    offset: int
    bytes: int
    symbol: str
    addend: int = 0
    generic: bool = False
    shift: int = 0


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter.

    space: "param", "shared", "global", "const" or "local"; "reg" for a parameter of a .func that
    is a register.  name: unique within its function.  bytes: its size, 0 for an ``extern`` array
    without one.  align: in bytes.  data: its first initial bytes, the others being zero; with
    ``relocations``.  offset: in the parameter buffer, for parameters.  pointer: a parameter
    declared .ptr.
    """

    name: str
    space: str
    type: str
    bytes: int
    align: int
    extern: bool = False
    data: bytes = b""
    offset: int = 0
    pointer: bool = False
    relocations: tuple[Relocation, ...] = ()


@dataclass(frozen=True, eq=False)
class Function:
    """One .entry or .func.

    instructions: those of the body; ``labels`` maps a label to the index of the instruction that it stands
    before (the number of instructions for one at the end).  registers: every declared one, name to type.
    variables: .shared, .local and .param ones declared in the body.  threads: .reqntid, else
    .maxntid.  cluster: .reqnctapercluster.
    """

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    threads: tuple[int, int, int] | None = None
    threads_exact: bool = False
    cluster: tuple[int, int, int] | None = None
    max_registers: int | None = None
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Module:
    """A whole PTX text. ``target``: "sm_90a". ``version``: "8.8". ``variables``: at module scope."""

    target: str
    version: str
    functions: dict[str, Function]
    variables: tuple[Variable, ...]
    files: dict[int, str] = field(default_factory=dict)

    def entry(self, name: str) -> Function:
        """The kernel called ``name``. Raises KeyError naming the kernels there are."""
        function = self.functions.get(name)
        if function is None or not function.entry:
            names = ", ".join(f.name for f in self.functions.values() if f.entry)
            raise KeyError(f"there is no kernel {name!r}; there are: {names}")
        return function

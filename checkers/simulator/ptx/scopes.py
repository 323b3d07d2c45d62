"""The names that a place in a PTX text can see.

Blocks nest, and inline assembly declares the same names in block after block. A register, variable or
label whose name was used before in its function is renamed: ``p`` of the second block that has one
is ``p@2``, which no PTX text can write itself.
"""

from __future__ import annotations

from checkers.simulator.ptx.lexer import Words
from checkers.simulator.ptx.program import Register, Variable, Vector

Named = Register | tuple[Register, ...] | Variable  # a tuple: a register declared .v2 or .v4

_PLAIN = """aggr_smem_size clock clock_hi clock64 cluster_ctarank cluster_nctarank
    current_graph_exec dynamic_smem_size globaltimer globaltimer_hi globaltimer_lo gridid
    is_explicit_cluster laneid lanemask_eq lanemask_ge lanemask_gt lanemask_le lanemask_lt nsmid
    nwarpid reserved_smem_offset_begin reserved_smem_offset_cap reserved_smem_offset_end
    reserved_smem_offset_0 reserved_smem_offset_1 smid total_smem_size warpid""".split()
_VECTORS = "cluster_ctaid cluster_nctaid clusterid ctaid nclusterid nctaid ntid tid".split()

# Manual, chapter "Special Registers".
SPECIAL = {
    name: Register(name, "special")
    for name in (
        *(f"%{name}" for name in _PLAIN),
        *(f"%{name}.{part}" for name in _VECTORS for part in "xyzw"),
        *(f"%envreg{number}" for number in range(32)),
        *(f"%pm{number}{bits}" for number in range(8) for bits in ("", "_64")),
    )
}
SPECIAL_VECTORS = {
    f"%{name}": Vector(tuple(SPECIAL[f"%{name}.{part}"] for part in "xyzw")) for name in _VECTORS
}

# More registers than any compiler declares in a function; a declaration of a few letters can ask
# for billions.
MOST_REGISTERS = 1 << 17


class Names:
    """What a function, or the module outside of functions, has declared by its own unique names."""

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.prototypes: set[str] = set()
        # Names used as operands before any declaration, with their line: labels mostly.
        self.pending: list[tuple[str, int, Scope]] = []
        self._used: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """The name itself, or with a number if it is taken."""
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else f"{name}@{count}"


class Scope:
    """A block: its own names, and those of the blocks around it."""

    def __init__(self, outer: Scope | None, names: Names) -> None:
        self.outer = outer
        self.names = names
        self._own: dict[str, Named] = {}
        self._labels: dict[str, str] = {}

    def find(self, name: str) -> Named | None:
        """What ``name`` stands for here, None if it isn't declared (yet)."""
        scope: Scope | None = self
        while scope is not None:
            if (found := scope._own.get(name)) is not None:
                return found
            scope = scope.outer
        return None

    def label(self, name: str) -> str | None:
        """The unique name of the label that ``name`` means here, once all of it has been read."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._labels:
                return scope._labels[name]
            scope = scope.outer
        return None

    def add(self, words: Words, name: str, thing: Named) -> None:
        """Declares a name. Raises PtxSyntaxError if this block has it already."""
        if name in self._own:
            raise words.wrong(f"no second declaration of {name!r}")
        self._own[name] = thing

    def add_register(self, words: Words, name: str, kind: str) -> Register:
        if len(self.names.registers) >= MOST_REGISTERS:
            raise words.wrong(f"at most {MOST_REGISTERS} registers")
        register = Register(self.names.unique(name), kind)
        self.add(words, name, register)
        self.names.registers[register.name] = kind
        return register

    def add_label(self, words: Words, name: str) -> str:
        """Declares a label; gives its unique name."""
        if name in self._labels:
            raise words.wrong(f"no second label {name!r}")
        self._labels[name] = unique = self.names.unique(name)
        return unique

"""Small PTX texts: a head, a kernel with some registers, and what is to be looked at in it."""

from __future__ import annotations

from checkers.simulator.ptx.parser import parse
from checkers.simulator.ptx.program import Function, Module

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
REGISTERS = """\
	.reg .pred %p<4>, done;
	.reg .b16 %rs<3>;
	.reg .b32 %r<20>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<9>;
	.reg .v4 .f32 accel;
"""


def module_of(text: str) -> Module:
    """The module that ``text`` makes under a head."""
    return parse(HEAD + text)


def body_of(text: str, before: str = "") -> Function:
    """A kernel of these statements, with some registers declared; one line each from line 12."""
    return module_of(f"{before}.entry k(.param .u64 data)\n{{\n{REGISTERS}{text}\n}}\n").entry("k")

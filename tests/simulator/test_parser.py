"""PTX text to data: every construct of the manual that kernels use, with its values."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from checkers.simulator.ptx.parser import parse
from checkers.simulator.ptx.program import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Place,
    Register,
    Relocation,
    Sink,
    Symbol,
    Variable,
    Vector,
)
from tests.simulator.ptx_text import body_of, module_of


def one(statement: str) -> Instruction:
    """The only instruction of a kernel."""
    before = ".shared .align 4 .b32 table[8];\n"
    (instruction,) = body_of(statement, before).instructions
    return instruction


def operand(text: str) -> Operand:
    """The last operand of an instruction."""
    return one(f"mov.b32 %r1, {text};").operands[-1]


def reg(name: str, kind: str = "b32") -> Register:
    return Register(name, kind)


# --- the module --------------------------------------------------------------------------------


def test_the_head_of_a_module() -> None:
    module = parse(
        "// by a compiler\n.version 8.8 /* a\n comment */\n.target sm_100a, debug\n.address_size 64\n"
    )
    assert (module.version, module.target, module.functions) == ("8.8", "sm_100a", {})


def test_a_text_may_end_in_the_zero_of_a_c_string() -> None:
    assert module_of(".entry k() { ret; }\n\0").entry("k").instructions[0].opcode == "ret"


def test_a_kernel_is_found_by_name_and_its_directives_are_read() -> None:
    module = module_of(
        ".visible .entry first(.param .u32 n)\n.reqntid 128, 2\n.maxnreg 64\n.minnctapersm 1\n"
        '.reqnctapercluster 2, 1, 1\n.explicitcluster\n.pragma "nounroll";\n{ ret; }\n'
        ".entry second .maxntid 256 .maxclusterrank 8 { ret; }\n"
        ".weak .entry third() .blocksareclusters {}\n"
    )
    first, second, third = (module.entry(name) for name in ("first", "second", "third"))
    assert (first.threads, first.threads_exact, first.cluster) == ((128, 2, 1), True, (2, 1, 1))
    assert first.max_registers == 64
    assert (second.threads, second.threads_exact, second.cluster) == ((256, 1, 1), False, None)
    assert (third.threads, third.instructions, third.parameters) == (None, (), ())
    with pytest.raises(KeyError, match="there are: first, second, third"):
        module.entry("fourth")


def test_parameters_lie_where_their_alignment_puts_them() -> None:
    kernel = module_of(
        ".entry k(\n.param .align 64 .b8 map[128],\n.param .u64 .ptr .global .align 16 data,\n"
        ".param .u32 .ptr.shared.align 8 tile,\n.param .b8 flag,\n.param .f64 scale\n)\n{ ret; }"
    ).entry("k")
    assert [(p.name, p.type, p.bytes, p.align, p.offset, p.pointer) for p in kernel.parameters] == [
        ("map", "b8", 128, 64, 0, False),
        ("data", "u64", 8, 8, 128, True),
        ("tile", "u32", 4, 4, 136, True),
        ("flag", "b8", 1, 1, 140, False),
        ("scale", "f64", 8, 8, 144, False),
    ]


def test_functions_and_their_prototypes() -> None:
    module = module_of(
        ".extern .func (.param .b32 out) vprintf (.param .b64 format, .param .b64 args);\n"
        ".func (.reg .u32 rv) twice (.reg .u32 a) { add.u32 rv, a, a; ret; }\n"
        ".func nothing .noreturn { trap; }\n.func same;\n.alias same, nothing;\n"
    )
    assert [p.offset for p in module.functions["vprintf"].parameters] == [0, 8]
    assert module.functions["vprintf"].instructions == ()
    twice = module.functions["twice"]
    assert not twice.entry
    assert twice.results == (Variable("rv", "reg", "u32", 4, 4),)
    assert twice.instructions[0].operands == (reg("rv", "u32"), reg("a", "u32"), reg("a", "u32"))
    assert module.functions["same"].instructions == module.functions["nothing"].instructions


def test_a_prototype_does_not_hide_the_function() -> None:
    module = module_of(".func f;\n.func f { ret; }\n.func f;\n")
    assert len(module.functions["f"].instructions) == 1


# --- variables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            ".extern .shared .align 1024 .b8 x[];",
            Variable("x", "shared", "b8", 0, 1024, extern=True),
        ),
        (".visible .shared .align 16 .b8 x[4][8];", Variable("x", "shared", "b8", 32, 16)),
        (".shared .b64 x;", Variable("x", "shared", "b64", 8, 8)),
        (".global .v4 .f32 x;", Variable("x", "global", "f32", 16, 16)),
        (".global .attribute(.managed) .s32 x;", Variable("x", "global", "s32", 4, 4)),
        (
            ".const .f32 x[] = {-1.0, 0f3F800000};",
            Variable("x", "const", "f32", 8, 4, data=bytes.fromhex("000080bf0000803f")),
        ),
        (
            ".const .f64 x = 3.25;",
            Variable("x", "const", "f64", 8, 8, data=bytes.fromhex("0000000000000a40")),
        ),
        (
            ".global .b8 x[6] = {104, 0x69, 0b101, 010, -1};",
            Variable("x", "global", "b8", 6, 1, data=b"hi\x05\x08\xff"),
        ),
        (
            '.global .align 1 .b8 x[] = "hi";',
            Variable("x", "global", "b8", 3, 1, data=b"hi"),
        ),
        (
            ".global .u16 x[3][2] = { {1,2}, {3} };",
            Variable("x", "global", "u16", 12, 2, data=b"\1\0\2\0\3\0"),
        ),
        (
            ".global .s8 x[][2] = { {-1, 0}, {0, -1}, {1, 0} };",
            Variable("x", "global", "s8", 6, 1, data=b"\xff\0\0\xff\1\0"),
        ),
        (".global .u32 x = 5U;", Variable("x", "global", "u32", 4, 4, data=b"\5\0\0\0")),
        (
            ".global .b32 x = 0f3F800000;",
            Variable("x", "global", "b32", 4, 4, data=b"\0\0\x80?"),
        ),
    ],
)
def test_variables(text: str, wanted: Variable) -> None:
    assert module_of(text).variables == (wanted,)


def test_addresses_in_initial_data() -> None:
    *_, far, near, pieces = module_of(
        ".global .u32 a;\n.global .u64 far[2] = { generic(a), generic(a)+8 };\n"
        ".global .u64 near = a-4;\n.global .u8 pieces[] = { 0xff(a), 0xff00(a+4), 0xFF00(131187) };"
    ).variables
    assert far.relocations == (
        Relocation(0, 8, "a", 0, generic=True),
        Relocation(8, 8, "a", 8, generic=True),
    )
    assert near.relocations == (Relocation(0, 8, "a", -4),)
    assert pieces.relocations == (Relocation(0, 1, "a"), Relocation(1, 1, "a", 4, shift=8))
    assert (pieces.bytes, pieces.data) == (3, bytes(3))  # 131187 is 0x20073: its second byte is 0


def test_variables_of_a_body_and_several_in_a_declaration() -> None:
    kernel = body_of(".local .align 8 .b8 depot[16];\n.shared .b32 a, b[2], part<2>;")
    assert [(v.name, v.space, v.bytes) for v in kernel.variables] == [
        ("depot", "local", 16),
        ("a", "shared", 4),
        ("b", "shared", 8),
        ("part0", "shared", 4),
        ("part1", "shared", 4),
    ]


# --- instructions ------------------------------------------------------------------------------


def test_an_instruction_is_taken_apart() -> None:
    kernel = body_of(
        "\n\t@!%p1 ld.global.L1::evict_first.v2.b32 { %r1,\n %r2 }, // why\n\t[%rd1 + 4];"
    )
    (load,) = kernel.instructions
    assert (load.opcode, load.modifiers) == ("ld", ("global", "L1::evict_first", "v2", "b32"))
    assert load.name == "ld.global.L1::evict_first.v2.b32"
    assert load.guard == Register("%p1", "pred", negated=True)
    assert load.operands == (
        Vector((reg("%r1"), reg("%r2"))),
        Address(reg("%rd1", "b64"), 4),
    )
    assert load.line == 13
    assert load.text == "@!%p1 ld.global.L1::evict_first.v2.b32 { %r1, %r2 }, [%rd1 + 4]"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("5", 5),
        ("-5", -5),
        ("0x10", 16),
        ("0XFFU", 255),
        ("017", 15),
        ("0b101", 5),
        ("0", 0),
        ("WARP_SZ", 32),
        ("WARP_SZ/2", 16),
        ("0xffffffffffffffff", 2**64 - 1),
        ("-0xffffffffffffffff", 1),
        ("-(-42)", 42),
        ("~0", 2**64 - 1),
        ("!3", 0),
        ("!(1 - 1)", 1),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("-7 / 2", -3),
        ("7 % 4", 3),
        ("1 << 4 | 2", 18),
        ("-1 >> 63", -1),
        ("0xffffffffffffffff >> 63", 1),
        ("1 << 100", 0),
        ("6 & 3 ^ 1", 3),
        ("2 < 3", 1),
        ("-1 < 1U", 0),  # the unsigned conversions of C
        ("1 == 1 && 0 || 1", 1),
        ("5 > 3 ? 10 : 20", 10),
        ("0 ? 10 : 0 ? 20 : 30", 30),
        ("(.u64) -1", 2**64 - 1),
        ("(.s64) 0xffffffffffffffff", -1),
    ],
)
def test_integer_constants(text: str, wanted: int) -> None:
    assert operand(text) == Immediate("int", wanted, wanted % 2**64)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0f3F800000", Immediate("f32", 1.0, 0x3F800000)),
        ("0F7f800000", Immediate("f32", math.inf, 0x7F800000)),
        ("0d3FF8000000000000", Immediate("f64", 1.5, 0x3FF8000000000000)),
        ("1.0", Immediate("f64", 1.0, 0x3FF0000000000000)),
        ("-1.5e1", Immediate("f64", -15.0, 0xC02E000000000000)),
        (".5", Immediate("f64", 0.5, 0x3FE0000000000000)),
        ("2.", Immediate("f64", 2.0, 0x4000000000000000)),
        ("1e0 + 0.5", Immediate("f64", 1.5, 0x3FF8000000000000)),
        ("1.0 < 2.0", Immediate("int", 1, 1)),
    ],
)
def test_floating_point_constants(text: str, wanted: Immediate) -> None:
    assert operand(text) == wanted


def test_a_nan_keeps_its_bits() -> None:
    found = operand("0f7FC00001")
    assert isinstance(found, Immediate)
    assert math.isnan(found.value)
    assert found.bits == 0x7FC00001


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%tid.x", Register("%tid.x", "special")),
        ("%tid", Vector(tuple(reg(f"%tid.{part}", "special") for part in "xyzw"))),
        ("%clock64", Register("%clock64", "special")),
        ("%envreg3", Register("%envreg3", "special")),
        ("accel.y", reg("accel.y", "f32")),
        ("accel.b", reg("accel.z", "f32")),  # .rgba are other names of .xyzw
        ("accel", Vector(tuple(reg(f"accel.{part}", "f32") for part in "xyzw"))),
        ("{%r2}", Vector((reg("%r2"),))),
        ("{%rs1, _}", Vector((reg("%rs1", "b16"), Sink()))),
        ("_", Sink()),
        ("!%p1", Register("%p1", "pred", negated=True)),
        ("%r1|%p1", Pair(reg("%r1"), reg("%p1", "pred"))),
        ("_|done", Pair(Sink(), reg("done", "pred"))),
        ("table", Symbol("table")),
        ("table+8", Address(Symbol("table"), 8)),
        ("table[2]", Address(Symbol("table"), 8)),
        ("[%rd1]", Address(reg("%rd1", "b64"))),
        ("[ %rd1 + 0 ]", Address(reg("%rd1", "b64"))),
        ("[%rd1+8]", Address(reg("%rd1", "b64"), 8)),
        ("[%rd1+-8]", Address(reg("%rd1", "b64"), -8)),
        ("[%rd1-8]", Address(reg("%rd1", "b64"), -8)),
        ("[%rd1+4*2+1]", Address(reg("%rd1", "b64"), 9)),
        ("[data]", Address(Symbol("data"))),
        ("[table+4]", Address(Symbol("table"), 4)),
        ("[table[3]]", Address(Symbol("table"), 12)),
        ("[0x10]", Address(Immediate("int", 16, 16))),
        (
            "[%rd1, {%r2, 4}]",
            Address(reg("%rd1", "b64"), 0, (reg("%r2"), Immediate("int", 4, 4))),
        ),
    ],
)
def test_operands(text: str, wanted: Operand) -> None:
    assert operand(text) == wanted


def test_long_instructions_of_the_newest_units() -> None:
    copy = one(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%r5], [%rd1, {%r6, 4}], [%r7], %rd3;"
    )
    assert copy.modifiers[2:] == (
        *("tensor", "2d", "shared::cluster", "global", "tile"),
        *("mbarrier::complete_tx::bytes", "L2::cache_hint"),
    )
    assert [type(each) for each in copy.operands] == [Address, Address, Address, Register]
    multiply = one(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16\n"
        " {%f0, %f1, %f2, %f3}, %rd4, %rd5, %p1, 1, -1, 0, 0;"
    )
    assert multiply.modifiers == ("mma_async", "sync", "aligned", "m64n8k16", "f32", "f16", "f16")
    assert [getattr(each, "value", None) for each in multiply.operands[3:]] == [None, 1, -1, 0, 0]
    tensor = one(
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3, %r4, %r5, %r6}, %p1;"
    )
    assert tensor.modifiers == ("mma", "cta_group::1", "kind::f16")
    assert tensor.operands[0] == Address(reg("%r1"))
    assert one("tcgen05.wait::ld.sync.aligned;").modifiers == ("wait::ld", "sync", "aligned")
    assert one("bar .sync 0;").name == "bar.sync"


def test_labels_stand_before_an_instruction() -> None:
    kernel = body_of("A: ret;\nB:\nC: bra B;\nD:")
    assert kernel.labels == {"A": 0, "B": 1, "C": 1, "D": 2}


def test_names_of_inline_assembly_are_made_unique() -> None:
    block = "{ .reg .pred p; WAIT: @p bra DONE; bra WAIT; DONE: }\n"
    kernel = body_of(block + block + ".reg .pred p;\n@p bra OUT;\n{ bra OUT; OUT: }\nOUT: ret;")
    assert [kernel.registers[name] for name in ("p", "p@2", "p@3")] == ["pred"] * 3
    assert [each.guard.name for each in kernel.instructions if each.guard] == ["p", "p@2", "p@3"]
    targets = [each.operands[0].name for each in kernel.instructions[:-1]]  # type: ignore[union-attr]
    assert targets == ["DONE", "WAIT", "DONE@2", "WAIT@2", "OUT@2", "OUT"]
    assert [kernel.labels[name] for name in targets] == [2, 0, 4, 2, 6, 6]
    assert kernel.instructions[2].text == "@p bra DONE"  # as written


def test_an_inner_name_hides_an_outer_one_only_inside() -> None:
    kernel = body_of("{ .reg .b32 %r<3>; mov.b32 %r1, 1; mov.b32 %r5, 1; }\nmov.b32 %r1, 1;")
    names = [each.operands[0].name for each in kernel.instructions]  # type: ignore[union-attr]
    assert names == ["%r1@2", "%r5", "%r1"]


CALLS = """\
	.reg .b64 pointer;
	call.uni (%r8), twice, (%r6);
	call nothing;
	targets: .calltargets twice;
	proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[12]) .noreturn;
	call (%r8), pointer, (%r6, 4), targets;
	call pointer, proto;
	{
	.param .b64 param0;
	.param .b32 retval0;
	st.param.b64 [param0+0], %rd1;
	call.uni (retval0),
	vprintf,
	(
	param0
	);
	}
	{
	.param .b64 param0;
	st.param.b64 [param0], 0;
	}
"""


def test_calls() -> None:
    before = (
        ".extern .func (.param .b32 r) vprintf (.param .b64 f);\n.func nothing { ret; }\n"
        ".func (.reg .u32 rv) twice (.reg .u32 a) { ret; }\n"
    )
    kernel = body_of(CALLS, before)
    nothing = Vector(())
    assert [each.operands for each in kernel.instructions if each.opcode == "call"] == [
        (Vector((reg("%r8"),)), Symbol("twice"), Vector((reg("%r6"),))),
        (nothing, Symbol("nothing"), nothing),
        (
            Vector((reg("%r8"),)),
            reg("pointer", "b64"),
            Vector((reg("%r6"), Immediate("int", 4, 4))),
            Symbol("targets"),
        ),
        (nothing, reg("pointer", "b64"), nothing, Symbol("proto")),
        (Vector((Symbol("retval0"),)), Symbol("vprintf"), Vector((Symbol("param0"),))),
    ]
    assert kernel.branch_tables == {"targets": ("twice",)}
    assert [v.name for v in kernel.variables] == ["param0", "retval0", "param0@2"]
    assert kernel.instructions[-1].operands[0] == Address(Symbol("param0@2"))


def test_tables_of_branches() -> None:
    kernel = body_of("N0: N1: M: ts: .branchtargets M, N<2>;\nbrx.idx %r1, ts;")
    assert kernel.branch_tables == {"ts": ("M", "N0", "N1")}
    assert kernel.instructions[0].operands == (reg("%r1"), Symbol("ts"))
    assert "ts" not in kernel.labels


# --- places ------------------------------------------------------------------------------------

PLACES = """\
	ret;
	.loc	1 7 3
	ret;
	.loc	2 216 16, function_name $info0, inlined_at 1 10 20 // standard.py:216:16
	ret;
	.loc	3 5 1, function_name .debug_str+3, inlined_at 2 216 16
	ret;
	// begin inline asm
	.loc	1 12 5
	mov.u32 %r1, 0x0;
	.loc	1 13 5
	ret;
	// end inline asm
	.loc	2 216 16
	ret;
"""
FILES = """\
	.file	1 "/home/learner/answer.py"
	.file	2 "/lib/standard.py", 0, 10
	.section	.debug_str
	{
$info0:
.b8 95                                 // string offset=0 ; _x
.b8 120
.b8 0
.b8 104, 105, 0
	}
	.section	.debug_abbrev { .b32 $end-$begin, -1 }
	.section	.debug_macinfo	{	}
"""


def test_lines_of_inline_assembly_are_not_lines_of_the_source() -> None:
    text = """.entry k()
{
	.loc	1 53 12
	// begin inline asm
	{
	.reg .pred P1;
	.loc	1 55 12
	WAIT:
	.loc	1 56 12
	@P1 bra WAIT;
	}
	// end inline asm
	ret;
}
.file 1 "answer.py"
"""
    assert [each.places for each in module_of(text).entry("k").instructions] == [
        (Place("answer.py", 53, 12),),
        (Place("answer.py", 53, 12),),
    ]


def test_places_are_named_from_the_inside_out() -> None:
    text = f'.file 3 "inner.py"\n.entry k()\n{{\n.reg .b32 %r1;\n{PLACES}}}\n{FILES}'
    module = module_of(text)
    answer, library, inner = "/home/learner/answer.py", "/lib/standard.py", "inner.py"
    assert module.files == {1: answer, 2: library, 3: inner}
    called = (Place(library, 216, 16, "_x"), Place(answer, 10, 20))
    assert [each.places for each in module.entry("k").instructions] == [
        (),
        (Place(answer, 7, 3),),
        called,
        (Place(inner, 5, 1, "hi"), *called),
        (Place(answer, 12, 5),),
        (Place(answer, 12, 5),),  # a line inside the assembly is not the source's
        (Place(library, 216, 16),),
    ]


def test_every_register_is_declared_once_and_listed() -> None:
    registers = body_of("ret;").registers
    assert len(registers) == 4 + 1 + 3 + 20 + 4 + 9 + 4
    assert (registers["%rd8"], registers["done"], registers["accel.w"]) == ("b64", "pred", "f32")


def test_renaming_keeps_operands_equal() -> None:
    # Operands are values: two instructions that name the same register hold equal ones.
    first, second = body_of("mov.b32 %r1, 1;\nmov.b32 %r1, 1;").instructions
    assert first.operands == second.operands
    assert replace(first.operands[0], negated=True) != second.operands[0]

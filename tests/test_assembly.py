"""PTX and SASS as the instructions that rules see, from texts as the tool chains write them."""

from __future__ import annotations

import pytest

from checkers.grading import sass
from checkers.grading.assembly import Instruction, Kernel, ptx_kernel
from checkers.simulator.ptx.parser import PtxSyntaxError
from checkers.simulator.ptx.program import Place

TEXT = """\
.version 8.8
.target sm_90a
.address_size 64
.shared .align 16 .b8 tile[64];

.visible .entry first(.param .align 8 .b8 first_param_0[16])
.reqntid 128, 2
.reqnctapercluster 2, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<10>;
	.reg .b64 	%rd<7>;
	.loc	1 7 0
	ld.param.b64 	%rd1, [first_param_0+8];
	.loc	2 216 16, function_name $L__info_string0, inlined_at 1 10 20 // standard.py:216:16
	@%p1 ld.global.L1::evict_first.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	st.shared.v2.b64 	[tile+16], {%rd5, %rd6};
	cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;
	cp.async.ca.shared.global [%r1], [%rd1], 8, %r5;
	cp.async.commit_group;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r7, [%r9];
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r8];
	tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3, %r4}, [%r9];
	tcgen05.wait::ld.sync.aligned;
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0;
	atom.global.add.f32 	%r1, [%rd1], %r2;
	ld.volatile.global.u16 	%rs1, [%rd1];
	cvt.rn.bf16x2.f32 	%r4, %r1, %r2;
	mov.b32 	%r9, tile;
	ret;
}
.visible .entry second()
.maxntid 256
{
	ret;
}
	.file	1 "/home/learner/answer.py"
	.file	2 "/lib/standard.py", 0, 10
"""


@pytest.fixture(scope="module")
def first() -> Kernel:
    return ptx_kernel(TEXT, "first")


def find(kernel: Kernel, opcode: str) -> Instruction:
    return next(each for each in kernel.instructions if each.opcode.startswith(opcode))


def test_a_kernel_knows_its_threads_and_cluster(first: Kernel) -> None:
    assert (first.threads, first.cluster) == ((128, 2, 1), (2, 1, 1))
    second = ptx_kernel(TEXT, "second")
    assert (second.threads, second.cluster) == ((256, 1, 1), None)
    assert [each.opcode for each in second.instructions] == ["ret"]


def test_kernels_are_found_by_a_part_of_their_name() -> None:
    assert ptx_kernel(TEXT, "sec").name == "second"
    with pytest.raises(KeyError, match="there are: first, second"):
        ptx_kernel(TEXT, "s")


def test_text_that_is_no_ptx_is_refused() -> None:
    with pytest.raises(PtxSyntaxError, match="PTX line 1: found 'def'"):
        ptx_kernel("def f(x): return x", "f")


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [
        ("ld.param", 64),
        ("ld.global", 128),
        ("st.shared", 128),
        ("cp.async.cg", 128),
        ("cp.async.ca", 64),
        ("cp.async.commit_group", 0),
        ("cp.async.bulk", 0),
        ("ldmatrix", 128),
        ("tcgen05.ld", 128),
        ("tcgen05.wait::ld", 0),
        ("atom", 32),
        ("ld.volatile", 16),
        ("cvt", 0),
        ("mov", 0),
    ],
)
def test_bits_that_a_thread_moves(first: Kernel, opcode: str, bits: int) -> None:
    assert find(first, opcode).bits == bits


def test_an_instruction_is_shown_as_written_with_its_places(first: Kernel) -> None:
    load = find(first, "ld.global")
    assert load.opcode == "ld.global.L1::evict_first.v4.b32"
    assert str(load) == f"@%p1 {load.opcode} {{ %r1, %r2, %r3, %r4 }}, [ %rd1 + 0 ]"
    assert load.places == (
        Place("/lib/standard.py", 216, 16),
        Place("/home/learner/answer.py", 10, 20),
    )


def test_an_opcode_is_matched_by_its_parts(first: Kernel) -> None:
    assert find(first, "ld.volatile").is_a("ld.global")
    assert find(first, "cp.async.cg").is_a("cp.async")
    assert find(first, "mbarrier").is_a("mbarrier.try_wait.shared")
    assert not find(first, "ld.param").is_a("ld.global")
    assert not find(first, "ldmatrix").is_a("ld")
    assert not find(first, "st.shared").is_a("ld.shared")


SASS = """\
	.target	sm_90a
//--------------------- .text.kernel_one      --------------------------
kernel_one:
.text.kernel_one:
	//## File "/lib/standard.py", line 216 inlined at "/home/answer.py", line 10
	//## File "/home/answer.py", line 10
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/home/answer.py", line 11
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR8][R8.64] ;
        /*0020*/                   LDG.E.U16.CONSTANT R4, desc[UR8][R8.64] ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R9], desc[UR4][R2.64] ;
        /*0040*/                   LDSM.16.M88.4 R4, [R0+UR4] ;
        /*0050*/                   FADD R7, R2, R2 ;
        /*0060*/                   EXIT ;
.L_x_0:
        /*0070*/                   BRA `(.L_x_0);
        /*0080*/                   NOP;
.text.kernel_two:
        /*0000*/                   EXIT ;
"""


def test_sass_is_read_in_the_same_form() -> None:
    kernels = sass.parse(SASS)
    assert [len(kernels[name]) for name in ("kernel_one", "kernel_two")] == [8, 1]
    one = kernels["kernel_one"]
    assert [each.bits for each in one] == [32, 128, 16, 128, 128, 0, 0, 0]
    assert one[1].opcode == "LDG.E.128"
    assert str(one[1]) == "@!P0 LDG.E.128 R4, desc[UR8][R8.64]"
    assert [place.line for place in one[0].places] == [216, 10]
    assert one[1].places == (Place("/home/answer.py", 11),)


def test_a_cubin_that_is_none_is_refused_with_the_tools_words() -> None:
    with pytest.raises(sass.ToolError, match="nvdisasm can't read this cubin"):
        sass.disassemble(b"nothing of the sort")


def test_a_missing_tool_says_what_to_install() -> None:
    with pytest.raises(sass.ToolError, match="pip install triton"):
        sass.find_tool("nvnothing")

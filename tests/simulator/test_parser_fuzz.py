"""Whatever the text, the parser gives a Module or a PtxSyntaxError, and soon."""

from __future__ import annotations

import re
import time

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checkers.simulator.ptx.parser import PtxSyntaxError, parse
from checkers.simulator.ptx.program import Module

# One text with every construct; the mutations below break it in all places.
TEXT = """\
.version 8.7
.target sm_90a
.address_size 64
.file 1 "answer.py", 0, 10
.extern .shared .align 1024 .b8 dynamic[];
.shared .align 16 .b8 table[4][8];
.const .f32 bias[] = {-1.0, 0f3F800000};
.global .u64 pointers[2] = { generic(bias), generic(bias)+8 };
.global .u8 piece[] = { 0xff00(bias+4), 0xFF(1000 + 546) };
.global .s32 pairs[][2] = { {-1, 0}, {0, -1} };
.global .b8 text[] = "words";
.extern .func (.param .b32 out) vprintf (.param .b64 format, .param .b64 args);
.func (.reg .u32 rv) twice (.reg .u32 a) { add.u32 rv, a, a; ret; }
.alias same, twice;
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 data)
.reqntid 128, 2 .maxnreg 64 .pragma "nounroll";
{
	.reg .pred %p<4>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<4>;
	.reg .v4 .f32 accel;
	.loc 1 7 3
	.loc 1 16 2, function_name $info+1, inlined_at 1 7 3 // comment
	ld.param.u64 %rd1, [data+0];
start: /* comment */
	@!%p1 ld.global.L1::evict_first.v4.f32 accel, [%rd1+-16];
	setp.lt.and.s32 %p1|%p2, %r1, -5, !%p3;
	add.s32 %r1, %r2, 5 > 3 ? (1 + 2) * 017 : ~0b11 << 4 | 0xFFU;
	mul.f32 accel.x, accel.y, 1.5e1;
	{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [table], 0; @p bra WAIT; }
	// begin inline asm
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
	    [%r5], [%rd1, {%r6, 4}], [%r7];
	// end inline asm
	ts: .branchtargets start, L<2>;
	proto: .callprototype (.param .b32 _) _ (.param .b64 _);
	brx.idx %r6, ts;
L0: L1:
	call.uni (%r8), twice, (%r6), proto;
	elect.sync _|%p2, -1;
	ret;
}
.section .debug_str { $info: .b8 95, 120, 0 }
"""
WORDS = [word for word in re.split(r"(\s+|[,;{}()\[\]<>:|@!+*?])", TEXT) if word]
SECONDS = 1.0  # of the processor, for texts that are read in a fraction of that

unhurried = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def must_answer(text: str) -> None:
    """Parses ``text``: only one error may come out, with a line that the text has, and soon."""
    start = time.process_time()
    try:
        assert isinstance(parse(text), Module)
    except PtxSyntaxError as error:
        assert 1 <= error.line <= text.count("\n") + 1
        assert str(error).startswith(f"PTX line {error.line}: found ")
    assert time.process_time() - start < SECONDS


@given(st.text(max_size=200))
@unhurried
def test_any_text(text: str) -> None:
    must_answer(text)
    must_answer(TEXT.partition("start:")[0] + text)


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.integers(0, len(WORDS)))
@unhurried
def test_words_of_ptx_in_any_order(words: list[str], at: int) -> None:
    must_answer("".join(words))
    must_answer("".join([*WORDS[:at], *words, *WORDS[at:]]))


edits = st.lists(
    st.tuples(
        st.sampled_from(["delete", "repeat", "swap"]),
        st.integers(0, len(TEXT) - 1),
        st.integers(0, len(TEXT) - 1),
    ),
    min_size=1,
    max_size=4,
)


def edited(pieces: list[str], changes: list[tuple[str, int, int]]) -> str:
    """``pieces`` with some of them deleted, repeated or exchanged, as one text."""
    pieces = list(pieces)
    for change, one, other in changes:
        one, other = one % len(pieces), other % len(pieces)
        if change == "delete":
            pieces[one] = ""
        elif change == "repeat":
            pieces[one] *= 2
        else:
            pieces[one], pieces[other] = pieces[other], pieces[one]
    return "".join(pieces)


@given(edits)
@unhurried
def test_words_deleted_repeated_and_exchanged(changes: list[tuple[str, int, int]]) -> None:
    must_answer(edited(WORDS, changes))


@given(edits)
@unhurried
def test_letters_deleted_repeated_and_exchanged(changes: list[tuple[str, int, int]]) -> None:
    must_answer(edited(list(TEXT), changes))


@given(st.integers(0, len(TEXT)))
@example(0)
@unhurried
def test_a_text_cut_short(length: int) -> None:
    must_answer(TEXT[:length])


def test_the_text_itself_is_ptx() -> None:
    assert len(parse(TEXT).entry("k").instructions) == 12


def test_time_grows_with_the_text() -> None:
    """Nested and repeated pieces of every kind, thirty thousand of each."""
    head = TEXT.partition("start:")[0]
    for piece in (
        "{",
        "(",
        "[",
        "-",
        "a|",
        "a.",
        "{a,",
        "/*",
        "/",
        "//",
        '"',
        "1",
        "0x",
        "L:",
        ";",
    ):
        for around in ("{}", "mov.b32 %r1, {};", "mov.b32 %r1, [{}", ".global .b8 x[] = {{{}"):
            must_answer(head + around.replace("{}", piece * 30_000).replace("{{", "{"))


def test_a_long_kernel_takes_little_time() -> None:
    lines = "\t.loc 1 16 2\n\t@%p1 fma.rn.f32 accel.x, accel.y, 0f3F800000, accel.z;\n" * 5000
    text = TEXT.replace("start: /* comment */\n", f"start:\n{lines}")
    start = time.process_time()
    assert len(parse(text).entry("k").instructions) == 5012
    assert time.process_time() - start < SECONDS

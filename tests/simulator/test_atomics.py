"""atom and red: what they leave in memory, what they return, in what order, and who may race."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx

INDEX = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; mul.wide.u32 %rd1, %r0, 8; mul.wide.u32 %rd2, %r0, 16;
    mul.wide.u32 %rd3, %r0, 2;
"""
N = 64


def one_place(operation, type_, start, values, dtype, space="global"):
    """All of N threads apply theirs to one place: (what is left there, what each got)."""
    dtype = np.dtype(dtype)
    register = {2: "%h1", 4: "%r5", 8: "%rd9"}[dtype.itemsize]
    got_in = {2: "%h2", 4: "%r6", 8: "%rd10"}[dtype.itemsize]
    place = np.array([start], dtype)
    values = np.asarray(values, dtype)
    got = np.zeros(N, dtype)
    raw = f"b{8 * dtype.itemsize}"
    step = {2: "%rd3", 4: "%rd0", 8: "%rd1"}[dtype.itemsize]
    body = f".shared .align 16 .b8 s[16];{INDEX} add.u64 %rd5, %values, {step}; add.u64 %rd6, %got, {step};"
    body += f"ld.global.{raw} {register}, [%rd5];"
    if space == "global":
        body += f"atom.global.{operation}.{type_} {got_in}, [%place], {register};"
    else:
        body += f"""
            setp.eq.u32 %p1, %r0, 0; @!%p1 bra MEET; ld.global.{raw} {got_in}, [%place];
            mov.u32 %r9, s; st.shared.{raw} [%r9], {got_in}; MEET: bar.sync 0; mov.u32 %r9, s;
            atom.shared.{operation}.{type_} {got_in}, [%r9], {register}; bar.sync 0;
        """
    body += f"st.global.{raw} [%rd6], {got_in};"
    if space == "shared":
        body += f"@%p1 ld.shared.{raw} {got_in}, [%r9]; @%p1 st.global.{raw} [%place], {got_in};"
    result = run_ptx(body, block=N, place=place, values=values, got=got)
    assert kinds(result) == [], [f.message for f in result.faults]
    return place[0], got


def in_turn(function, start, values):
    got = []
    for value in values:
        got.append(start)
        start = function(start, value)
    return start, got


RNG = np.random.default_rng(5)
U32 = RNG.integers(0, 2**32, N, np.uint32)
S32 = U32.view(np.int32)
U64 = RNG.integers(0, 2**63, N, np.uint64)
INTEGERS = [
    ("add", "u32", lambda a, b: (a + b) % 2**32, 7, U32, np.uint32),
    ("add", "s32", lambda a, b: (a + b + 2**31) % 2**32 - 2**31, -7, S32, np.int32),
    ("add", "u64", lambda a, b: (a + b) % 2**64, 2**63, U64, np.uint64),
    ("min", "u32", min, 2**31, U32, np.uint32),
    ("min", "s32", min, 2**30, S32, np.int32),
    ("max", "u64", max, 5, U64, np.uint64),
    ("max", "s32", max, -(2**31), S32, np.int32),
    ("and", "b32", lambda a, b: a & b, 2**32 - 1, U32 | np.uint32(0xFFFF0FF0), np.uint32),
    ("or", "b64", lambda a, b: a | b, 0, U64, np.uint64),
    ("xor", "b32", lambda a, b: a ^ b, 0, U32, np.uint32),
    ("exch", "b32", lambda a, b: b, 9, U32, np.uint32),
    ("inc", "u32", lambda a, b: 0 if a >= b else a + 1, 3, np.full(N, 10), np.uint32),
    ("dec", "u32", lambda a, b: b if a == 0 or a > b else a - 1, 3, np.full(N, 10), np.uint32),
]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("case", INTEGERS, ids=lambda case: f"{case[0]}.{case[1]}")
def test_integers_meet_one_after_another(case, space):
    operation, type_, function, start, values, dtype = case
    left, got = one_place(operation, type_, start, values, dtype, space)
    wanted, each = in_turn(function, start, [int(v) for v in np.asarray(values, dtype)])
    assert int(left) == wanted and got.tolist() == each


@pytest.mark.parametrize("space", ["global", "shared"])
def test_floats_are_added_one_after_another_with_a_rounding_each(space):
    values = (RNG.standard_normal(N) * 1000).astype(np.float32)
    left, got = one_place("add", "f32", np.float32(0.1), values, np.float32, space)
    wanted, each = in_turn(lambda a, b: np.float32(a + b), np.float32(0.1), values)
    assert left == wanted and np.array_equal(got, np.array(each, np.float32))


def test_doubles_are_added():
    values = RNG.standard_normal(N)
    left, _ = one_place("add", "f64", 0.1, values, np.float64)
    assert left == in_turn(lambda a, b: a + b, np.float64(0.1), values)[0]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_added(dtype):
    name = "f16" if dtype is np.float16 else "bf16"
    values = RNG.standard_normal(N).astype(dtype)
    left, got = one_place("add.noftz", name, dtype(0.5), values, dtype)
    wanted, each = in_turn(lambda a, b: dtype(np.float32(a) + np.float32(b)), dtype(0.5), values)
    assert left == wanted and np.array_equal(got, np.array(each, dtype))


@pytest.mark.parametrize(("space", "kept"), [("global", False), ("shared", True)])
def test_subnormal_floats_are_flushed_in_global_memory_only(space, kept):
    tiny = np.float32(1e-40)
    values = np.zeros(N, np.float32)
    values[3] = tiny
    left, _ = one_place("add", "f32", np.float32(0), values, np.float32, space)
    assert left == (tiny if kept else 0)


def test_more_lanes_at_one_place_than_go_in_rounds():
    """1024 threads: the running sum must be the same as one after another, subnormals and all."""
    values = (RNG.standard_normal(1024) * 10).astype(np.float32)
    values[:4] = [1e-41, -1e-41, 1e-38, -1e-38]
    place = np.zeros(1, np.float32)
    got = np.zeros(1024, np.float32)
    body = (
        INDEX
        + """add.u64 %rd5, %values, %rd0; ld.global.f32 %f1, [%rd5];
        atom.global.add.f32 %f2, [%place], %f1; add.u64 %rd6, %got, %rd0; st.global.f32 [%rd6], %f2;"""
    )
    result = run_ptx(body, block=1024, place=place, values=values, got=got)
    assert kinds(result) == []

    def flush(x):
        return np.float32(0) if abs(x) < np.finfo(np.float32).tiny else x

    left, each = in_turn(lambda a, b: flush(np.float32(flush(a) + flush(b))), np.float32(0), values)
    assert place[0] == left and np.array_equal(got, np.array(each, np.float32))


@pytest.mark.parametrize("name", ["f16x2", "bf16x2"])
def test_packed_halves_are_added_each_by_itself(name):
    dtype = np.float16 if name == "f16x2" else ml_dtypes.bfloat16
    place = np.array([1, 2], dtype)
    values = RNG.integers(-4, 5, (N, 2)).astype(dtype)
    body = (
        INDEX
        + f"""add.u64 %rd5, %values, %rd0; ld.global.b32 %r1, [%rd5];
        red.global.add.noftz.{name} [%place], %r1;"""
    )
    assert kinds(run_ptx(body, block=N, place=place, values=values)) == []
    assert np.array_equal(place.astype(np.float32), values.astype(np.float32).sum(axis=0) + [1, 2])


def test_a_vector_adds_element_by_element():
    room = np.zeros(12, np.float32)
    place = room[(-room.ctypes.data // 4) % 4 :][:4]
    body = (
        INDEX
        + """mov.f32 %f1, 0f3F800000; cvt.rn.f32.u32 %f2, %r0;
        red.global.add.v4.f32 [%place], {%f1, %f2, %f1, %f1};
        bar.sync 0; setp.eq.u32 %p1, %r0, 5; @!%p1 exit;
        atom.global.v2.f32.add {%f3, %f4}, [%place], {%f1, %f1}; st.global.v2.f32 [%got], {%f3, %f4};"""
    )
    got = np.zeros(2, np.float32)
    assert kinds(run_ptx(body, block=N, place=place, got=got)) == []
    total = N * (N - 1) // 2
    assert place.tolist() == [N + 1, total + 1, N, N] and got.tolist() == [N, total]


def test_the_least_of_halves_in_a_vector():
    place = np.array([5, -5], np.float16)
    body = (
        INDEX
        + """cvt.rn.f16.u32 %h1, %r0; neg.f16 %h2, %h1;
        red.global.min.noftz.v2.f16 [%place], {%h1, %h2};"""
    )
    assert kinds(run_ptx(body, block=32, place=place)) == []
    assert place.tolist() == [0, -31]


def test_compare_and_swap_lets_one_win():
    place, got = np.zeros(1, np.uint32), np.zeros(N, np.uint32)
    body = (
        INDEX
        + """add.u32 %r1, %r0, 1; atom.global.cas.b32 %r2, [%place], 0, %r1;
        add.u64 %rd6, %got, %rd0; st.global.u32 [%rd6], %r2;"""
    )
    assert kinds(run_ptx(body, block=N, place=place, got=got)) == []
    assert place[0] == 1 and got.tolist() == [0] + [1] * (N - 1)


@pytest.mark.parametrize("size", [16, 64])
def test_compare_and_swap_of_other_widths(size):
    register, other = ("%h1", "%h2") if size == 16 else ("%rd7", "%rd8")
    place = np.array([77], f"u{size // 8}")
    body = f"""mov.b{size} {register}, 77; mov.b{size} {other}, 5;
        atom.global.cas.b{size} {register}, [%place], {register}, {other};"""
    assert kinds(run_ptx(body, block=1, place=place)) == [] and place[0] == 5


def test_128_bits_are_exchanged_and_compared_whole():
    room = np.zeros(6, np.uint64)
    place = room[(-room.ctypes.data // 8) % 2 :][:2]
    got = np.zeros(8, np.uint64)[(-0):]
    got = got[(-got.ctypes.data // 8) % 2 :][:2]
    body = """mov.b64 %rd1, 3; mov.b64 %rd2, 4; mov.b128 %q1, {%rd1, %rd2};
        atom.global.exch.b128 %q2, [%place], %q1; mov.b64 %rd3, 9; mov.b128 %q3, {%rd1, %rd3};
        atom.global.cas.b128 %q4, [%place], %q3, %q2; atom.global.cas.b128 %q4, [%place], %q1, %q3;
        st.global.b128 [%got], %q4;"""
    assert kinds(run_ptx(body, block=1, place=place, got=got)) == []
    assert place.tolist() == [3, 9] and got.tolist() == [3, 4]


def test_lanes_that_are_masked_off_add_nothing():
    place = np.zeros(1, np.uint32)
    body = INDEX + "setp.lt.u32 %p1, %r0, 20; @%p1 red.global.add.u32 [%place], 3;"
    run_ptx(body, block=N, place=place)
    assert place[0] == 60


def test_a_lock_by_exchange_is_taken_in_turn():
    place = np.zeros(2, np.uint32)
    body = """mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; @%p1 exit;
        TAKE: atom.acquire.gpu.global.exch.b32 %r1, [%place], 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra TAKE;
        ld.global.u32 %r2, [%place+4]; add.u32 %r2, %r2, 1; st.global.u32 [%place+4], %r2;
        st.release.gpu.global.u32 [%place], 0;"""
    result = run_ptx(body, block=32, grid=6, place=place)
    assert kinds(result) == [], [f.message for f in result.faults]
    assert place.tolist() == [0, 6]


def test_a_lock_that_is_released_without_order_protects_nothing():
    place = np.zeros(2, np.uint32)
    body = """mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; @%p1 exit;
        TAKE: atom.relaxed.gpu.global.exch.b32 %r1, [%place], 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra TAKE;
        ld.global.u32 %r2, [%place+4]; add.u32 %r2, %r2, 1; st.global.u32 [%place+4], %r2;
        st.relaxed.gpu.global.u32 [%place], 0;"""
    assert kinds(run_ptx(body, block=32, grid=6, place=place)) == ["race"]


def test_a_lock_that_is_never_released_is_a_deadlock():
    place = np.ones(1, np.uint32)
    body = "TAKE: atom.global.exch.b32 %r1, [%place], 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra TAKE;"
    assert kinds(run_ptx(body, block=1, place=place)) == ["deadlock"]


# --- who may race --------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "wanted"), [("gpu", []), ("sys", []), ("cta", ["scope"])])
def test_blocks_count_together_when_the_scope_holds_both(scope, wanted):
    place = np.zeros(1, np.uint32)
    body = f"red.{scope}.global.add.u32 [%place], 1;"
    result = run_ptx(body, block=32, grid=4, place=place)
    assert kinds(result) == wanted
    assert not wanted or ".cta" in result.faults[0].message


def test_the_scope_of_the_block_is_enough_within_it():
    place = np.zeros(1, np.uint32)
    body = "red.cta.global.add.u32 [%place], 1; atom.cta.global.add.u32 %r1, [%place], 1;"
    assert kinds(run_ptx(body, block=256, place=place)) == []


def test_an_atomic_and_a_plain_read_race():
    place = np.zeros(1, np.uint32)
    body = (
        "mov.u32 %r0, %tid.x; red.global.add.u32 [%place], 1; {edge} ld.global.u32 %r1, [%place];"
    )
    found = run_ptx(body.replace("{edge}", ""), block=64, place=place)
    assert kinds(found) == ["race"]
    assert kinds(run_ptx(body.replace("{edge}", "bar.sync 0;"), block=64, place=place)) == []


def test_an_atomic_on_shared_memory_that_was_not_cleared():
    body = """.shared .align 4 .u32 s[4]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; setp.ne.u32 %p1, %r0, 0;
        {edge} bar.sync 0; atom.shared.add.u32 %r2, [%r1], 1;"""
    result = run_ptx(body.replace("{edge}", ""), block=64)
    assert kinds(result) == ["uninitialised"] and "updates s[0]" in result.faults[0].message
    cleared = body.replace("{edge}", "@!%p1 st.shared.u32 [%r1], 0;")
    assert kinds(run_ptx(cleared, block=64)) == []


def test_a_histogram_in_shared_memory():
    x = RNG.integers(0, 16, 256).astype(np.uint32)
    y = np.zeros(16, np.uint32)
    body = """.shared .align 4 .u32 s[16]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; mov.u32 %r1, s;
        shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; setp.lt.u32 %p1, %r0, 16; @%p1 st.shared.u32 [%r2], 0;
        bar.sync 0; add.u64 %rd1, %x, %rd0; ld.global.u32 %r3, [%rd1]; shl.b32 %r3, %r3, 2;
        add.u32 %r3, %r3, %r1; red.shared.add.u32 [%r3], 1; {edge} @!%p1 exit;
        ld.shared.u32 %r4, [%r2]; add.u64 %rd2, %y, %rd0; st.global.u32 [%rd2], %r4;"""
    assert kinds(run_ptx(body.replace("{edge}", "bar.sync 0;"), block=256, x=x, y=y)) == []
    assert np.array_equal(y, np.bincount(x, minlength=16))
    assert kinds(run_ptx(body.replace("{edge}", ""), block=256, x=x, y=y)) == ["race"]


def test_atomics_are_counted():
    place = np.zeros(1, np.uint32)
    result = run_ptx("red.global.add.u32 [%place], 1;", block=64, grid=2, place=place)
    assert (result.counters["atomics"], result.counters["global_atomics"]) == (128, 128)


def test_an_atomic_on_local_memory_is_refused():
    body = ".local .align 4 .b32 l[1]; mov.u64 %rd1, l; cvta.local.u64 %rd1, %rd1; atom.add.u32 %r1, [%rd1], 1;"
    result = run_ptx(body, block=1)
    assert kinds(result) == ["out_of_bounds"] and "local memory" in result.faults[0].message


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.f16 %h1, [%x], %h2;",
        "atom.global.add.noftz.u32 %r1, [%x], 1;",
        "red.global.exch.b32 [%x], 1;",
        "atom.global.min.f32 %f1, [%x], %f2;",
        "red.acquire.gpu.global.add.u32 [%x], 1;",
        "atom.global.add.v2.u32 {%r1, %r2}, [%x], {%r1, %r2};",
        "atom.global.inc.s32 %r1, [%x], 1;",
    ],
)
def test_a_form_that_is_not_known_is_refused(text):
    with pytest.raises(Unsupported):
        run_ptx(text, block=1, x=np.zeros(8, np.uint32))

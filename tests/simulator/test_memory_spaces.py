"""Where bytes are: every space, width and alignment; and what is said of an address that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator import simulate
from checkers.simulator.memory.grains import grain_of
from checkers.simulator.memory.naming import element, index_of
from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, launch_of, run_ptx, tensor_of

# Thread number in %r0, 4 and 16 times it in %rd0 and %rd1.
INDEX = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
    mul.wide.u32 %rd0, %r0, 4; mul.wide.u32 %rd1, %r0, 16;
"""


def only_fault(result):
    assert len(result.faults) == 1, [f.message for f in result.faults]
    return result.faults[0]


# --- widths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "registers", "size"),
    [
        ("b8", "%h1", 1),
        ("u16", "%h1", 2),
        ("b32", "%r5", 4),
        ("f32", "%f5", 4),
        ("b64", "%rd5", 8),
        ("f64", "%fd5", 8),
        ("b128", "%q1", 16),
        ("v2.b8", "{%h1, %h2}", 2),
        ("v4.u16", "{%h1, %h2, %h3, %h4}", 8),
        ("v2.f32", "{%f1, %f2}", 8),
        ("v4.b32", "{%r3, %r4, %r5, %r6}", 16),
        ("v2.b64", "{%rd5, %rd6}", 16),
        ("v4.b64", "{%rd5, %rd6, %rd7, %rd8}", 32),
        ("v8.f32", "{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}", 32),
    ],
)
def test_every_width_comes_and_goes_whole(type_, registers, size):
    rng = np.random.default_rng(size)
    room = np.zeros(64 * size + 32, np.uint8)
    x = room[-room.ctypes.data % 32 :][: 64 * size]
    x[:] = rng.integers(0, 256, len(x))
    out = np.zeros_like(room)[-room.ctypes.data % 32 :][: 64 * size]
    y = np.zeros(64 * size + 32, np.uint8)
    y = y[-y.ctypes.data % 32 :][: 64 * size]
    body = (
        INDEX
        + f"""
        mul.wide.u32 %rd2, %r0, {size}; add.u64 %rd3, %x, %rd2; add.u64 %rd4, %y, %rd2;
        ld.global.{type_} {registers}, [%rd3]; st.global.{type_} [%rd4], {registers};
    """
    )
    result = run_ptx(body, block=64, x=x, y=y)
    assert kinds(result) == [] and np.array_equal(x, y)
    assert len(out) == len(y)


@pytest.mark.parametrize("space", ["shared", "local"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_shared_and_local_memory_keep_what_is_stored(space, size):
    rng = np.random.default_rng(size)
    x = rng.integers(0, 2**32, 64 * 4, np.uint32)
    y = np.zeros_like(x)
    at = "mul.lo.u32 %r3, %r0, 16; mov.u32 %r4, s; add.u32 %r3, %r3, %r4;"
    if space == "local":
        at = "mov.u32 %r3, s;"
    vector = {
        4: ("b32", "%r9"),
        8: ("v2.b32", "{%r9, %r10}"),
        16: ("v4.b32", "{%r9, %r10, %r11, %r12}"),
    }
    type_, registers = vector[size]
    body = (
        f".{space} .align 16 .b8 s[1024];"
        + INDEX
        + at
        + f"""
        add.u64 %rd3, %x, %rd1; add.u64 %rd4, %y, %rd1;
        ld.global.{type_} {registers}, [%rd3]; st.{space}.{type_} [%r3], {registers};
        mov.u32 %r9, 0; mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
        ld.{space}.{type_} {registers}, [%r3]; st.global.{type_} [%rd4], {registers};
    """
    )
    result = run_ptx(body, block=64, x=x, y=y)
    words = size // 4
    assert kinds(result) == []
    assert np.array_equal(y.reshape(-1, 4)[:, :words], x.reshape(-1, 4)[:, :words])


def test_a_signed_byte_fills_a_wider_register_with_its_sign():
    x = np.array([-3, 5, -128, 127] * 8, np.int8)
    y = np.zeros(32, np.int32)
    z = np.zeros(32, np.uint32)
    body = (
        INDEX
        + """
        cvt.u64.u32 %rd2, %r0; add.u64 %rd3, %x, %rd2; ld.global.s8 %r3, [%rd3]; ld.global.u8 %r4, [%rd3];
        add.u64 %rd4, %y, %rd0; st.global.u32 [%rd4], %r3; add.u64 %rd5, %z, %rd0; st.global.u32 [%rd5], %r4;
    """
    )
    assert kinds(run_ptx(body, block=32, x=x, y=y, z=z)) == []
    assert np.array_equal(y, x) and np.array_equal(z, x.view(np.uint8))


def test_a_sink_in_a_vector_leaves_memory_as_it_is():
    y = np.arange(8, dtype=np.uint32)
    run_ptx("mov.u32 %r1, 77; st.global.v4.u32 [%y], {%r1, _, %r1, _};", block=1, y=y[4:])
    assert y.tolist() == [0, 1, 2, 3, 77, 5, 77, 7]


def test_a_bulk_store_fills_with_zeros_as_far_as_each_lane_says():
    body = """.shared .align 16 .b8 s[32]; mov.u32 %r1, s; mov.u32 %r2, 7; st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2};
        st.shared.v4.u32 [%r1+16], {%r2, %r2, %r2, %r2}; st.bulk.weak.shared::cta [%r1], 24, 0;
        ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r1+16]; st.global.v4.u32 [%y], {%r3, %r4, %r5, %r6};"""
    y = np.zeros(12, np.uint32)
    y = y[(-y.ctypes.data // 4) % 4 :][:4]
    assert kinds(run_ptx(body, block=1, y=y, target="sm_100a")) == []
    assert y.tolist() == [0, 0, 7, 7]


def test_parameters_constants_and_module_variables_are_read():
    module = """
        .const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
        .global .align 4 .u32 counter = 41;
    """
    y = np.zeros(4, np.uint32)
    body = """
        ld.const.u32 %r1, [table+8]; ld.global.u32 %r2, [counter]; add.u32 %r2, %r2, 1;
        st.global.u32 [counter], %r2; ld.global.u32 %r3, [counter];
        mov.u64 %rd0, table; cvta.const.u64 %rd0, %rd0; ld.u32 %r4, [%rd0+4];
        st.global.v4.u32 [%y], {%r1, %r3, %n, %r4};
    """
    result = run_ptx(body, block=1, module=module, y=y, n=1234)
    assert kinds(result) == []
    assert y.tolist() == [3, 42, 1234, 2]


def test_a_parameter_can_be_read_through_a_register():
    y = np.zeros(1, np.uint32)
    body = "mov.b64 %rd1, k_n; ld.param.u32 %r1, [%rd1]; st.global.u32 [%y], %r1;"
    assert kinds(run_ptx(body, block=1, y=y, n=99)) == []
    assert y[0] == 99


def test_generic_addresses_reach_every_space_lane_by_lane():
    x = np.arange(100, 132, dtype=np.uint32)
    y = np.zeros(32, np.uint32)
    body = (
        ".shared .align 4 .b32 s[32]; .local .align 4 .b32 l[4];"
        + INDEX
        + """
        mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r0;
        mov.u64 %rd2, l; add.u32 %r5, %r0, 500; st.local.u32 [%rd2+8], %r5; cvta.local.u64 %rd2, %rd2;
        cvt.u64.u32 %rd3, %r3; cvta.shared.u64 %rd3, %rd3; add.u64 %rd4, %x, %rd0; add.u64 %rd2, %rd2, 8;
        and.b32 %r6, %r0, 3; setp.eq.u32 %p0, %r6, 1; setp.eq.u32 %p1, %r6, 2;
        selp.b64 %rd5, %rd3, %rd4, %p0; selp.b64 %rd5, %rd2, %rd5, %p1;
        ld.u32 %r7, [%rd5]; add.u64 %rd6, %y, %rd0; st.u32 [%rd6], %r7;
    """
    )
    assert kinds(run_ptx(body, block=32, x=x, y=y)) == []
    lanes = np.arange(32)
    wanted = np.where(lanes % 4 == 1, lanes, np.where(lanes % 4 == 2, lanes + 500, lanes + 100))
    assert np.array_equal(y, wanted)


def test_lanes_of_one_instruction_may_read_different_tensors():
    a, b = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.uint32) + 1000
    y = np.zeros(32, np.uint32)
    body = (
        INDEX
        + """
        and.b32 %r3, %r0, 1; setp.eq.u32 %p0, %r3, 0; selp.b64 %rd2, %a, %b, %p0; add.u64 %rd2, %rd2, %rd0;
        ld.global.u32 %r4, [%rd2]; add.u64 %rd3, %y, %rd0; st.global.u32 [%rd3], %r4;
    """
    )
    assert kinds(run_ptx(body, block=32, a=a, b=b, y=y)) == []
    assert np.array_equal(y, np.where(np.arange(32) % 2 == 0, a, b))


# --- out of bounds -------------------------------------------------------------------------------

STORE = INDEX + "add.u64 %rd2, %y, %rd0; {guard} st.global.u32 [%rd2], %r0;"


def test_past_the_end_is_told_with_index_and_distance():
    y = np.zeros((2, 25), np.uint32)
    result = run_ptx(STORE.format(guard=""), block=64, y=y)
    fault = only_fault(result)
    assert fault.kind == "out_of_bounds" and fault.count == 14
    assert fault.message.startswith("y[2, 0]: a 4-byte store begins right at the end of y")
    assert fault.details["tensor"] == "y" and fault.details["index"] == (2, 0)
    assert fault.who.thread == (50, 0, 0)
    assert np.array_equal(y.ravel(), np.arange(50))  # the lanes in bounds are stored


def test_a_masked_tail_is_in_bounds():
    y = np.zeros((2, 25), np.uint32)
    guard = "setp.lt.u32 %p1, %r0, 50; @%p1"
    assert kinds(run_ptx(STORE.format(guard=guard), block=64, y=y)) == []
    assert np.array_equal(y.ravel(), np.arange(50))


def test_a_load_that_reaches_over_the_end_says_by_how_much():
    x = np.zeros(8, np.uint32)
    x = np.zeros(64, np.uint32)[:64]
    x = x[(-x.ctypes.data // 4) % 4 :][:6]
    result = run_ptx("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x+16];", block=1, x=x)
    fault = only_fault(result)
    assert "reaches 8 bytes past the end of x (shape (6,))" in fault.message


def test_before_the_start_is_told():
    y = np.zeros(32, np.uint32)
    result = run_ptx("st.global.u32 [%y+-8], 1;", block=1, y=y)
    assert "begins 8 bytes before the start of y" in only_fault(result).message


def test_a_null_pointer_is_in_no_tensor():
    y = np.zeros(32, np.uint32)
    result = run_ptx("mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];", block=1, y=y)
    assert "is in no tensor of the launch" in only_fault(result).message


def strided(column, guard):
    """Reads x[tid, column] of a (32, 8) view of rows of 16 floats; columns 8 to 15 are the gap."""
    base = np.arange(512, dtype=np.float32).reshape(32, 16)
    launch = launch_of(
        INDEX
        + f"""
        mul.wide.u32 %rd2, %r0, 64; add.u64 %rd3, %x, %rd2; {guard} ld.global.f32 %f1, [%rd3+{4 * column}];
        add.u64 %rd4, %y, %rd0; st.global.f32 [%rd4], %f1;
        """,
        block=32,
        x=base,
        y=(y := np.zeros(32, np.float32)),
    )
    view = tensor_of("x", base[:, :8])
    view.nbytes = (31 * 16 + 8) * 4
    launch.tensors[0] = view
    return simulate(launch), base, y


def test_a_gap_between_rows_is_out_of_bounds():
    result, _, _ = strided(9, "")
    fault = only_fault(result)
    assert fault.kind == "out_of_bounds" and fault.count == 32
    assert "gap between the elements of x (shape (32, 8), strides (16, 1))" in fault.message


def test_the_rows_of_a_strided_view_are_in_bounds():
    result, base, y = strided(7, "")
    assert kinds(result) == [] and np.array_equal(y, base[:, 7])


def test_a_tensor_that_must_not_be_written_stays_as_it_is():
    launch = launch_of("st.global.u32 [%y], 7;", block=1, y=(y := np.zeros(4, np.uint32)))
    launch.tensors[0].writable = False
    result = simulate(launch)
    assert kinds(result) == ["read_only"] and y[0] == 0


def test_shared_memory_ends_where_the_block_s_ends():
    body = (
        ".shared .align 4 .b32 s[32];"
        + INDEX
        + """
        mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3+{at}], %r0;
    """
    )
    result = run_ptx(body.replace("{at}", "4"), block=32)
    fault = only_fault(result)
    assert fault.kind == "out_of_bounds" and fault.count == 1 and fault.who.lane == 31
    assert "begins right at the end of the block's 128 bytes" in fault.message
    assert kinds(run_ptx(body.replace("{at}", "0"), block=32)) == []


def test_dynamic_shared_memory_is_as_large_as_the_launch_says():
    module = ".extern .shared .align 16 .b8 dynamic[];"
    body = (
        INDEX
        + "mov.u32 %r3, dynamic; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], 1;"
    )
    assert kinds(run_ptx(body, block=32, module=module, dynamic_shared=128)) == []
    assert kinds(run_ptx(body, block=32, module=module, dynamic_shared=96)) == ["out_of_bounds"]


def test_the_system_s_part_of_shared_memory_is_out_of_bounds():
    result = run_ptx(".shared .b32 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1+-4], 1;", block=1)
    assert "before the block's shared memory" in only_fault(result).message


def test_local_memory_has_its_bounds():
    result = run_ptx(
        ".local .align 4 .b32 l[4]; mov.u32 %r1, l; st.local.u32 [%r1+16], 1;", block=1
    )
    assert "16 bytes of local memory" in only_fault(result).message


# --- misaligned, uninitialised -------------------------------------------------------------------


@pytest.mark.parametrize("offset", [4, 8, 12])
def test_a_vector_at_no_multiple_of_its_width_is_misaligned(offset):
    x = np.arange(72, dtype=np.uint32)
    x = x[(-x.ctypes.data // 4) % 4 :][:64]
    body = f"ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%x+{offset}];"
    result = run_ptx(body, block=1, x=x)
    fault = only_fault(result)
    assert fault.kind == "misaligned"
    assert fault.message.startswith(f"x[{offset // 4}]: a 16-byte load needs")
    assert fault.details["past_multiple"] == offset
    assert kinds(run_ptx(body.replace(f"+{offset}", "+16"), block=1, x=x)) == []


def test_a_misaligned_shared_access_is_told_by_the_variable():
    body = ".shared .align 16 .b32 s[8]; mov.u32 %r1, s; mov.u64 %rd1, 5; st.shared.u64 [%r1+{at}], %rd1;"
    fault = only_fault(run_ptx(body.replace("{at}", "12"), block=1))
    assert fault.kind == "misaligned" and fault.message.startswith("s[3]: a 8-byte store")
    assert kinds(run_ptx(body.replace("{at}", "8"), block=1)) == []


UNINITIALISED = (
    ".shared .align 4 .b32 s[32];"
    + INDEX
    + """
    mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; setp.lt.u32 %p1, %r0, {written};
    @%p1 st.shared.u32 [%r3], %r0; setp.lt.u32 %p2, %r0, {read}; @%p2 ld.shared.u32 %r5, [%r3];
"""
)


STORED = " mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r5;"


def test_shared_memory_that_nobody_wrote_is_uninitialised():
    out = np.zeros(32, np.uint32)
    body = UNINITIALISED.format(written=30, read=32) + STORED
    fault = only_fault(run_ptx(body, block=32, out=out))
    assert fault.kind == "uninitialised" and fault.count == 2 and fault.who.lane == 30
    assert "reads s[30], which nobody has written yet" in fault.message
    assert fault.is_error and fault.other.what == "stores what it made of it to out[30]"


def test_what_nobody_wrote_may_be_read_by_those_who_store_nothing():
    """As the threads of a tile that hangs over the edge of a matrix do."""
    fault = only_fault(run_ptx(UNINITIALISED.format(written=30, read=32), block=32))
    assert not fault.is_error and fault.count == 2 and "none of these threads" in fault.message


@pytest.mark.parametrize(
    "way",
    [
        "shfl.sync.idx.b32 %r5, %r5, 30, 31, 0xffffffff; setp.eq.u32 %p3, %r0, 4; @%p3 ",
        "@%p2 st.shared.u32 [%r3], %r5; bar.sync 0; ld.shared.u32 %r5, [s+120];"
        " setp.eq.u32 %p3, %r0, 4; @%p3 ",
    ],
)
def test_what_a_thread_that_read_it_hands_on_is_as_bad(way: str):
    out = np.zeros(32, np.uint32)
    to = "mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %out;"
    body = UNINITIALISED.format(written=30, read=32) + to + way + "st.global.u32 [%rd1], %r5;"
    fault = only_fault(run_ptx(body, block=32, out=out))
    assert fault.is_error and fault.who.lane == 30 and fault.other.who.lane == 4


def test_lanes_that_are_masked_off_read_nothing():
    assert kinds(run_ptx(UNINITIALISED.format(written=30, read=30), block=32)) == []


def test_local_memory_that_was_not_written_is_uninitialised():
    body = """.local .align 4 .b32 l[4]; mov.u32 %r1, l; st.local.u32 [%r1], 1;
        ld.local.u32 %r2, [%r1+{at}];"""
    assert kinds(run_ptx(body.replace("{at}", "4"), block=32)) == ["uninitialised"]
    assert kinds(run_ptx(body.replace("{at}", "0"), block=32)) == []


# --- words and grains ----------------------------------------------------------------------------


def test_an_element_is_named_by_its_index_whatever_the_strides():
    x = tensor_of("x", np.zeros((4, 6), np.float32))
    assert element(x, x.address + 4 * 9) == "x[1, 3]"
    t = tensor_of("t", np.zeros((4, 6), np.float32).T)
    assert index_of(t, t.address + 4 * 9) == (3, 1)
    scalar = tensor_of("n", np.zeros((), np.float32))
    assert element(scalar, scalar.address) == "n"


def kernel_of(body, **arguments):
    from checkers.simulator.machine.kernel import load

    launch = launch_of(body, **arguments)
    return load(launch.ptx, launch.kernel)


def test_the_grain_is_the_narrowest_access():
    body = """.shared .align 16 .b8 s[64]; mov.u32 %r1, s; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%x];
        st.shared.v2.u32 [%r1], {%r2, %r3};"""
    kernel = kernel_of(body, x=np.zeros(4, np.uint32))
    assert (grain_of(kernel, "global"), grain_of(kernel, "shared")) == (16, 8)
    kernel = kernel_of(body + "ld.b8 %h1, [%x];", x=np.zeros(4, np.uint32))
    assert (grain_of(kernel, "global"), grain_of(kernel, "shared")) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "ld.global.acquire.b32 %r1, [%x];",
        "ld.shared.nc.b32 %r1, [%r2];",
        "ld.global.v4.b32 {%r1, %r2}, [%x];",
        "st.const.b32 [%x], %r1;",
        "ld.global.v8.b64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [%x];",
        "ld.global.cs.wb.b32 %r1, [%x];",
        "ld.global.L2::cache_hint.b32 %r1, [%x];",
    ],
)
def test_a_form_that_is_not_known_is_refused(text):
    with pytest.raises(Unsupported):
        run_ptx(text, block=1, x=np.zeros(8, np.uint32))

"""mov, cvta, isspacep and the instructions that only speak to caches."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator.machine.kernel import LOCAL_WINDOW, SHARED_WINDOW
from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.registers_harness import compute


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def test_bits_pass_unchanged() -> None:
    nan = words(0x7F800001, 0xFFC12345)
    assert (
        compute("mov.b32 %f1, %r0; mov.f32 %f2, %f1;", "%f2", {"%r0": nan}).view(np.uint32).tolist()
        == nan.tolist()
    )
    assert compute("mov.u64 %rd1, -1;", "%rd1").tolist() == [2**64 - 1]
    assert compute("mov.f32 %f1, 0f3FC00000;", "%f1").tolist() == [1.5]
    assert compute("mov.f64 %fd1, 0.1;", "%fd1").tolist() == [0.1]
    assert compute("mov.b16 %h1, 0x1234;", "%h1").tolist() == [0x1234]
    assert compute("mov.pred %p1, 1; mov.pred %p2, !%p1;", ("%p1", "%p2"))[0].tolist() == [True]


@pytest.mark.parametrize(
    ("text", "elements", "result", "want"),
    [
        ("mov.b32 %r7, {%h0, %h1};", {"%h0": 0x1122, "%h1": 0x3344}, "%r7", 0x33441122),
        ("mov.b64 %rd7, {%r0, %r1};", {"%r0": 0x11, "%r1": 0x22}, "%rd7", 0x22_00000011),
        (
            "mov.b64 %rd7, {%h0, %h1, %h2, %h3};",
            {f"%h{at}": at + 1 for at in range(4)},
            "%rd7",
            0x0004000300020001,
        ),
        ("mov.b16 %h7, {%c0, %c1};", {"%c0": 0xAA, "%c1": 0xBB}, "%h7", 0xBBAA),
        (
            "mov.b32 %r7, {%c0, %c1, %c2, %c3};",
            {f"%c{at}": at + 1 for at in range(4)},
            "%r7",
            0x04030201,
        ),
        ("mov.b64 %rd7, {%r0, 5};", {"%r0": 1}, "%rd7", 0x5_00000001),
    ],
)
def test_pack(text: str, elements: dict[str, int], result: str, want: int) -> None:
    types = {"%c": np.uint8, "%h": np.uint16, "%r": np.uint32}
    inputs = {name: np.array([value], types[name[:2]]) for name, value in elements.items()}
    assert compute(text, result, inputs).tolist() == [want]


def test_unpack() -> None:
    inputs = {"%rd0": np.array([0x8877665544332211], np.uint64), "%r0": words(0xDDCCBBAA)}
    low, high = compute("mov.b64 {%r1, %r2}, %rd0;", ("%r1", "%r2"), inputs)
    assert (int(low[0]), int(high[0])) == (0x44332211, 0x88776655)
    four = compute("mov.b64 {%h0, %h1, %h2, %h3}, %rd0;", ("%h0", "%h1", "%h2", "%h3"), inputs)
    assert [int(x[0]) for x in four] == [0x2211, 0x4433, 0x6655, 0x8877]
    bytes_ = compute("mov.b32 {%c0, %c1, %c2, %c3}, %r0;", ("%c0", "%c3"), inputs)
    assert [int(x[0]) for x in bytes_] == [0xAA, 0xDD]
    assert compute("mov.b64 {_, %r2}, %rd0;", "%r2", inputs).tolist() == [0x88776655]
    assert compute("mov.b32 {%h0, %h1}, 0x12345678;", "%h1").tolist() == [0x1234]


def test_unpacking_into_the_source_itself() -> None:
    inputs = {"%r0": words(0x11), "%r1": words(0x22)}
    body = "mov.b64 %rd0, {%r0, %r1}; mov.b64 {%r1, %r0}, %rd0;"
    a, b = compute(body, ("%r0", "%r1"), inputs)
    assert (int(a[0]), int(b[0])) == (0x22, 0x11)


def test_128_bits() -> None:
    inputs = {"%rd0": np.array([1, 3], np.uint64), "%rd1": np.array([2, 4], np.uint64)}
    body = """mov.b128 %q0, {%rd0, %rd1}; mov.b128 %q1, %q0; mov.b128 {%r0, %r1, %r2, %r3}, %q1;
              mov.b128 {%rd2, %rd3}, %q1;"""
    r0, r2, high = compute(body, ("%r0", "%r2", "%rd3"), inputs)
    assert (r0.tolist(), r2.tolist(), high.tolist()) == ([1, 3], [2, 4], [2, 4])


def test_generic_addresses() -> None:
    address = {"%rd0": np.array([0x01000400, 0x2000], np.uint64)}
    body = "cvta.shared.u64 %rd1, %rd0; cvta.to.shared.u64 %rd2, %rd1; cvta.global.u64 %rd3, %rd0;"
    generic, back, same = compute(body, ("%rd1", "%rd2", "%rd3"), address)
    assert generic.tolist() == [SHARED_WINDOW | 0x01000400, SHARED_WINDOW | 0x2000]
    assert back.tolist() == same.tolist() == [0x01000400, 0x2000]
    got = compute("cvta.local.u64 %rd1, %rd0;", "%rd1", address)
    assert got.tolist() == [LOCAL_WINDOW | 0x01000400, LOCAL_WINDOW | 0x2000]
    got = compute("cvta.shared::cluster.u64 %rd1, %rd0;", "%rd1", address)
    assert got.tolist() == generic.tolist()


def test_isspacep() -> None:
    spaces = {
        "shared::cta": [0, 1, 0, 0, 0],
        "shared": [0, 1, 0, 0, 0],
        "shared::cluster": [0, 1, 1, 0, 0],
        "local": [0, 0, 0, 1, 0],
        "global": [1, 0, 0, 0, 1],
        "param": [0, 0, 0, 0, 1],
        "const": [0, 0, 0, 0, 0],
    }
    places = [0x7F0012345678, SHARED_WINDOW | 1024, SHARED_WINDOW | 1 << 24 | 1024]
    places += [LOCAL_WINDOW | 16, 1 << 58 | 8]
    inputs = {"%rd0": np.array(places, np.uint64)}
    for space, want in spaces.items():
        got = compute(f"isspacep.{space} %p0, %rd0;", "%p0", inputs)
        assert got.astype(int).tolist() == want, space


def test_cache_hints_change_nothing() -> None:
    body = """
        prefetch.global.L1 [%rd0]; prefetch.L2 [%rd0+64]; prefetch.global.L2::evict_last [%rd0];
        prefetch.tensormap [%rd0]; prefetch.param.tensormap [%rd0]; prefetchu.L1 [%rd0];
        applypriority.global.L2::evict_normal [%rd0], 128; discard.global.L2 [%rd0], 128;
        createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;
        createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd1, 0.5;
        createpolicy.range.L2::evict_last.L2::evict_first.b64 %rd1, [%rd0], 16, 32;
        createpolicy.cvt.L2.b64 %rd1, %rd0;
    """
    assert compute(body, "%rd0", {"%rd0": np.array([64], np.uint64)}).tolist() == [64]


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 %r0, {%r1, %r2};",
        "mov.f32 {%h0, %h1}, %f0;",
        "mov.b64 %rd0, {%r0, %r1, %r2};",
        "mov.u8 %h0, %h1;",
        "mov.b32.x %r0, %r1;",
        "mov.b32 %r0, %p0;",
        "cvta.shared.u32 %r0, %r1;",
        "prefetch.shared.L1 [%rd0];",
        "discard.global.L2 [%rd0], 64;",
        "createpolicy.fractional.L2::evict_most.b64 %rd0;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%r0")

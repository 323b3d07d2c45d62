"""Which products the simulator fuses into sums: those that ptxas 12.9 fuses for sm_90a.

The expected texts are what ``cuobjdump -sass`` showed for the same PTX.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from checkers.simulator.arithmetic import special_unit
from checkers.simulator.machine.contraction import contracted
from checkers.simulator.ptx.parser import parse
from tests.simulator.harness import run_ptx

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %a, %b, %c, %d, %e, %f, %u, %v, %w, %x, %y, %z;
.reg .pred %q;
"""
ONE = "mul.f32 %x, %a, %b; "
TWO = ONE + "mul.f32 %u, %c, %d; "
THREE = TWO + "mul.f32 %w, %e, %f; "

# PTX to what it becomes: sums in order, fma(a, b, c) or sum; then the products that are left.
CASES = {
    ONE + "add.f32 %z, %x, %c;": "fma abc",
    ONE + "add.f32 %z, %c, %x;": "fma abc",
    ONE + "sub.f32 %z, %x, %c;": "fms abc",
    ONE + "sub.f32 %z, %c, %x;": "fnma abc",
    ONE + "add.f32 %z, %x, %c; add.f32 %y, %x, %d;": "fma abc, fma abd",
    ONE + "add.sat.f32 %z, %x, %c;": "fma abc",
    "setp.gt.f32 %q, %d, %e; " + ONE + "@%q add.f32 %z, %x, %c;": "fma abc",
    ONE + "bar.sync 0; add.f32 %z, %x, %c;": "fma abc",
    "mul.ftz.f32 %x, %a, %b; add.ftz.f32 %z, %x, %c;": "fma abc",
    "div.full.f32 %x, %a, %b; add.f32 %z, %x, %c;": "fda abc",
    "div.full.f32 %x, %a, %b; sub.f32 %z, %c, %x; sub.f32 %y, %d, %x;": "fnma abc, fnma abd",
    "div.approx.ftz.f32 %x, %a, %b; add.ftz.f32 %z, %x, %c;": "fda abc",
    "div.full.f32 %x, %a, %b; mul.f32 %u, %c, %d; add.f32 %z, %x, %u;": "fda abu, mul cd",
    "div.full.f32 %x, %a, %b; mul.f32 %u, %c, %d; add.f32 %z, %u, %x;": "fma cdx, div ab",
    # Not fused.
    "div.rn.f32 %x, %a, %b; add.f32 %z, %x, %c;": "add xc, div ab",
    "div.full.f32 %x, %a, %b; add.f32 %z, %x, %c; mov.b32 %y, %x;": "add xc, div ab",
    "mul.rn.f32 %x, %a, %b; add.f32 %z, %x, %c;": "add xc, mul ab",
    ONE + "add.rn.f32 %z, %x, %c;": "add xc, mul ab",
    "mul.ftz.f32 %x, %a, %b; add.f32 %z, %x, %c;": "add xc, mul ab",
    "mul.sat.f32 %x, %a, %b; add.f32 %z, %x, %c;": "add xc, mul ab",
    ONE + "add.f32 %z, %x, %x;": "add xx, mul ab",
    ONE + "add.f32 %z, %x, %c; mov.b32 %y, %x;": "add xc, mul ab",
    ONE + "add.f32 %z, %x, %c; fma.rn.f32 %y, %e, %f, %x;": "add xc, fma efx, mul ab",
    "setp.gt.f32 %q, %d, %e; @%q mul.f32 %x, %a, %b; add.f32 %z, %x, %c;": "add xc, mul ab",
    ONE + "@%q bra L; bar.sync 0; L: add.f32 %z, %x, %c;": "add xc, mul ab",
    ONE + "L: add.f32 %z, %x, %z; setp.lt.f32 %q, %z, %d; @%q bra L;": "add xz, mul ab",
    # Two products in a sum.
    TWO + "add.f32 %z, %x, %u;": "fma abu, mul cd",
    TWO + "add.f32 %z, %u, %x;": "fma cdx, mul ab",
    TWO + "add.f32 %z, %x, %u; mov.b32 %y, %x;": "fma cdx, mul ab",
    TWO + "add.f32 %z, %x, %u; add.f32 %y, %u, %e;": "fma abu, add ue, mul cd",
    TWO + "add.f32 %z, %x, %u; sub.f32 %y, %u, %x;": "fma abu, fnma abu, mul cd",
    TWO + "add.f32 %z, %u, %x; add.f32 %y, %x, %c;": "fma cdx, add xc, mul ab",
    TWO + "add.f32 %y, %x, %c; add.f32 %z, %u, %x;": "add xc, fma cdx, mul ab",
    THREE + "add.f32 %z, %x, %u; add.f32 %y, %w, %x;": "fma cdx, fma efx, mul ab",
    THREE + "add.f32 %z, %x, %u; add.f32 %y, %u, %w; add.f32 %v, %w, %x;": (
        "fma abu, fma efu, fma efx, mul ab, mul cd"
    ),
    TWO + "add.f32 %y, %x, %c; add.f32 %v, %u, %d; add.f32 %z, %x, %u;": (
        "fma abc, fma cdd, fma abu, mul cd"
    ),
}


def became(body: str) -> str:
    function = contracted(parse(HEAD + body + " ret; }").entry("k"))
    sums, products = [], []
    for instruction in function.instructions:
        if instruction.opcode in ("add", "fma", "fms", "fnma", "fda", "mul", "div"):
            names = "".join(re.sub("^%", "", o.name)[0] for o in instruction.operands[1:])
            into = products if instruction.opcode in ("mul", "div") else sums
            into.append(f"{instruction.opcode} {names}")
    return ", ".join(sums + products)


@pytest.mark.parametrize("body", CASES)
def test_what_ptxas_fuses_is_fused(body: str) -> None:
    assert became(body) == CASES[body]


def test_labels_stay_before_their_instructions() -> None:
    body = ONE + "add.f32 %z, %x, %c; L: mov.b32 %y, %z; @%q bra L;"
    function = contracted(parse(HEAD + body + " ret; }").entry("k"))
    (at,) = function.labels.values()
    assert function.instructions[at].opcode == "mov"


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        ("add.f32 %r1, %r4, %r3;", lambda a, b, c: a * b + c),
        ("sub.f32 %r1, %r4, %r3;", lambda a, b, c: a * b - c),
        ("sub.f32 %r1, %r3, %r4;", lambda a, b, c: c - a * b),
    ],
)
def test_the_fused_sum_is_rounded_once(total: str, expected) -> None:
    a, b, c = np.float32(1 + 2.0**-12), np.float32(1 - 2.0**-12), np.float32(1)
    bits = [f"{int(x.view(np.uint32)):#x}" for x in (a, b, c)]
    body = f"mov.b32 %r5, {bits[0]}; mov.b32 %r6, {bits[1]}; mov.b32 %r3, {bits[2]};"
    out = np.zeros(32, np.float32)
    body += f"mul.f32 %r4, %r5, %r6; {total} mov.u32 %r7, %tid.x;"
    body += "mad.wide.u32 %rd1, %r7, 4, %out; st.global.b32 [%rd1], %r1;"
    run_ptx(body, out=out)
    wanted = expected(np.float64(a), np.float64(b), np.float64(c))
    assert np.array_equal(out, np.full(32, wanted, np.float32))
    assert wanted != 0  # rounded twice a difference would be 0


def test_halves_are_fused_too() -> None:
    out = np.zeros(32, np.uint16)
    # (1 + 2**-10) * (1 - 2**-10) - 1 = -2**-20, below what f16 keeps of the product.
    body = "mov.b16 %h1, 0x3C01; mov.b16 %h2, 0x3BFE; mov.b16 %h3, 0x3C00; mul.f16 %h4, %h1, %h2;"
    body += "sub.f16 %h5, %h4, %h3; mov.u32 %r7, %tid.x; mad.wide.u32 %rd1, %r7, 2, %out;"
    run_ptx(body + "st.global.b16 [%rd1], %h5;", out=out)
    assert set(out.view(np.float16).tolist()) == {-(2.0**-20)}


def out_of(body: str) -> np.float32:
    """The f32 in %r1 at the end, the same in all lanes."""
    out = np.zeros(32, np.float32)
    store = " mov.u32 %r7, %tid.x; mad.wide.u32 %rd1, %r7, 4, %out; st.global.b32 [%rd1], %r1;"
    run_ptx(body + store, out=out)
    assert len(set(out.tolist())) == 1
    return out[0]


def bits(value: float) -> str:
    return f"0f{int(np.float32(value).view(np.uint32)):08X}"


def test_a_quotient_is_fused_as_the_product_that_it_is() -> None:
    a, b = np.float32(10), np.float32(33)
    inverse = special_unit.reciprocal(np.array([b]))[0]
    body = f"mov.b32 %r5, {bits(a)}; mov.b32 %r6, {bits(b)}; add.f32 %r6, %r6, {bits(0)};"
    body += f"div.full.f32 %r4, %r5, %r6; sub.f32 %r1, %r4, {bits(a * inverse)};"
    rounded_once = np.float64(a) * np.float64(inverse) - np.float64(a * inverse)
    assert rounded_once != 0
    assert out_of(body) == np.float32(rounded_once)


def test_a_constant_divisors_reciprocal_is_correctly_rounded() -> None:
    # The unit's 1 / 33 is one place below.
    inverse = np.float32(1) / np.float32(33)
    assert special_unit.reciprocal(np.float32([33]))[0] != inverse
    body = f"mov.b32 %r5, {bits(1)}; div.full.f32 %r1, %r5, {bits(33)};"
    assert out_of(body) == inverse
    through_a_register = f"mov.b32 %r6, {bits(33)}; mov.b32 %r5, {bits(1)};"
    assert out_of(through_a_register + "div.full.f32 %r1, %r5, %r6;") == inverse

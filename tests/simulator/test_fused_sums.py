"""Sums of the tensor cores, in the cases that the golden vectors don't single out."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator.matrices.fused_sums import multiply_add, warp_multiply_add


def total(c: float, a: list[float], b: list[float], kind: str = "f16", half: bool = False) -> float:
    """One element: c + a . b."""
    start = np.full((1, 1, 1), c, np.float16 if half else np.float32)
    left, right = np.array(a, np.float32)[None, None], np.array(b, np.float32)[None, :, None]
    return float(multiply_add(start, left, right, kind)[0, 0, 0])


def test_small_sums_are_exact() -> None:
    assert total(0.5, [1, 2, 3, 4], [1, -1, 2, 0.25]) == 0.5 + 1 - 2 + 6 + 1
    assert total(0.0, [0, 0], [1, 2]) == 0.0 and not np.signbit(total(-0.0, [0], [-1]))


def test_terms_are_cut_off_25_bits_below_the_largest_exponent() -> None:
    tiny = 2.0**-13
    # 2**-26 next to 1 is lost, eight times over; 2**-25 is kept, and eight of them count.
    assert total(1.0, [tiny] * 8, [tiny] * 8) == 1.0
    assert total(1.0, [2 * tiny] * 8, [tiny] * 8) == 1.0 + 2.0**-22
    # -1 + 2**-26: in float32 it would be rounded, here it is cut off.
    assert total(-1.0, [tiny], [tiny]) == -1.0


def test_the_order_of_terms_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 16)).astype(np.float16).astype(np.float32)
    order = rng.permutation(16)
    assert total(0.1, a.tolist(), b.tolist()) == total(0.1, a[order].tolist(), b[order].tolist())


def test_results_are_rounded_toward_zero() -> None:
    # 1 + 2**-24 + 2**-25 is nearer to 1 + 2**-23.
    terms = [2.0**-12, 2.0**-12], [2.0**-12, 2.0**-13]
    assert total(1.0, *terms) == 1.0
    assert total(-1.0, [-t for t in terms[0]], terms[1]) == -1.0


def test_the_exponent_of_a_product_is_that_of_its_factors() -> None:
    # 1.5 * 1.5 = 2.25 counts as 2**0: 2**-25 is kept.
    assert total(0.0, [1.5, 2.0**-12, -1.5], [1.5, 2.0**-13, 1.5]) == 2.0**-25
    # 2 * 1 = 2**1 does not.
    assert total(0.0, [2.0, 2.0**-12, -2.0], [1.0, 2.0**-13, 1.0]) == 0.0


def test_8_bit_operands_keep_13_bits() -> None:
    assert total(1.0, [2.0**-6], [2.0**-6], "e4m3") == 1.0 + 2.0**-12
    assert total(1.0, [2.0**-6] * 4, [2.0**-8] * 4, "e5m2") == 1.0


def test_f16_results_are_rounded_to_nearest() -> None:
    assert total(1.0, [2.0**-6, 2.0**-8], [2.0**-5, 2.0**-5], half=True) == 1.0 + 2.0**-10


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**-100, 2.0**60, 1.0])
def test_no_exponent_is_too_far_out(scale: float) -> None:
    a, b = [3 * scale, scale, 0.0], [1.0, 0.5, 7.0]
    assert total(0.0, a, b, "bf16") == 3.5 * scale
    assert total(0.0, a, [x * scale for x in b], "bf16") == np.float32(3.5 * scale * scale)


@pytest.mark.filterwarnings("ignore:invalid value")  # steps run under np.errstate
def test_infinities_and_nans_come_through() -> None:
    nan = total(0.0, [np.inf, 1.0], [0.0, 1.0])
    assert np.float32(nan).view(np.uint32) == 0x7FFFFFFF
    assert total(0.0, [np.inf, 1.0], [2.0, 1.0]) == np.inf
    assert np.isnan(total(-np.inf, [np.inf], [1.0]))
    # Only the elements concerned.
    a, b = np.ones((1, 2, 4), np.float32), np.ones((1, 4, 3), np.float32)
    a[0, 0, 0] = -np.inf
    result = multiply_add(np.zeros((1, 2, 3), np.float32), a, b, "f16")
    assert (result[0, 0] == -np.inf).all() and (result[0, 1] == 4).all()


def test_a_warp_adds_8_bit_floats_and_doubles_otherwise() -> None:
    ones = np.ones((1, 1, 4), np.float32)
    start = np.full((1, 1, 1), 2.0**13, np.float32)
    assert (
        warp_multiply_add(start, ones * 2.0**-6, ones.swapaxes(1, 2), "e4m3") == 2.0**13 + 2.0**-4
    )
    assert multiply_add(start, ones * 2.0**-6, ones.swapaxes(1, 2), "e4m3") == 2.0**13
    a, b = np.full((1, 1, 2), 2.0**-30), np.full((1, 2, 1), 2.0**-23)
    # Each of the two is half an ulp of 1: one after another, both are rounded away.
    assert warp_multiply_add(np.ones((1, 1, 1)), a, b, "f64") == 1.0


def test_integers_are_left_to_ordinary_addition() -> None:
    a, b = np.full((1, 1, 2), 100, np.float32), np.full((1, 2, 1), 100, np.float32)
    start = np.full((1, 1, 1), 0x7FFFFFFF, np.int32)
    assert multiply_add(start, a, b, "s8", saturate=True) == 0x7FFFFFFF
    assert multiply_add(start, a, b, "s8") == np.int32(-0x80000000 + 19999)

"""Is an answer right, and where is it wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from checkers.exercise import Tolerance

# Elements compared at a time: in float64 a chunk and its temporaries take about 1 GiB.
CHUNK_ELEMENTS = 2**25

Number = float | complex | bool | int

_SAME_SIZE_INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Comparison:
    """How an answer differs from the oracle's.

    wrong: number of wrong elements.  total: of all.
    wrong_mask: bool, shape of the answer, on its device; None when nothing is wrong.
    worst_index: of the worst element; a NaN or infinity where none belongs is worst of all.
    worst_error: relative to the scale, see Tolerance.  bound: the largest error allowed.
    got, expected: of the worst element, as Python numbers.
    """

    wrong: int
    total: int
    wrong_mask: torch.Tensor | None
    worst_index: tuple[int, ...]
    worst_error: float
    bound: float
    got: Number
    expected: Number

    @property
    def ok(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        """``[3, 128]: got nan, expected 0.0071``, for Finding.element."""
        index = ", ".join(map(str, self.worst_index))
        return f"[{index}]: got {_shown(self.got)}, expected {_shown(self.expected)}"


def _shown(number: Number) -> str:
    return f"{number:.6g}" if isinstance(number, (float, complex)) else str(number)


def compare(
    got: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    dtype: torch.dtype | None = None,
    reduction_length: int = 1,
) -> Comparison:
    """Compares an answer with the oracle's, element by element, in float64.

    An element is right when it is the oracle's rounded to ``got.dtype``, when both are NaN, or
    when its error, relative to the scale of the answer (see Tolerance), is within the bound.
    Integers and booleans must be equal; with ``tolerance.exact`` so must the bits of floats.

    got, expected: same shape, any devices; chunks of ``expected`` are moved to got's.
    dtype: that the answer should have, for the tolerance; None: got's.
    reduction_length: terms in the longest sum behind an element.
    Raises ValueError when the shapes differ.
    """
    if got.shape != expected.shape:
        raise ValueError(f"shapes differ: {tuple(got.shape)} and {tuple(expected.shape)}")
    got, expected = got.detach(), expected.detach()
    exact = tolerance.exact or not (got.is_floating_point() or got.is_complex())
    bound = 0.0 if exact else tolerance.bound(dtype or got.dtype, reduction_length)
    if got.numel() == 0:
        return Comparison(0, 0, None, (), 0.0, bound, 0.0, 0.0)

    shape = got.shape
    got, expected = (tensor.reshape(shape or (1,)) for tensor in (got, expected))
    wrong_mask, wrong, worst_error, worst_index = None, 0, -1.0, (0,) * got.ndim
    for window, error in _errors(got, expected, None if exact else tolerance):
        wrong_here = error > bound
        count = int(wrong_here.count_nonzero())
        if count:
            if wrong_mask is None:
                wrong_mask = torch.zeros(got.shape, dtype=torch.bool, device=got.device)
            wrong_mask[window] = wrong_here
            wrong += count
        largest = int(error.argmax())
        if float(error.flatten()[largest]) > worst_error:
            worst_error = float(error.flatten()[largest])
            worst_index = _place_of(largest, error.shape, window)
    return Comparison(
        wrong=wrong,
        total=got.numel(),
        wrong_mask=None if wrong_mask is None else wrong_mask.reshape(shape),
        worst_index=worst_index if shape else (),
        worst_error=worst_error,
        bound=bound,
        got=got[worst_index].item(),
        expected=expected[worst_index].item(),
    )


def _errors(
    got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance | None
) -> Iterator[tuple[tuple[slice, ...], torch.Tensor]]:
    """The errors of one window of elements after the other; tolerance None: bit for bit."""
    scale = None if tolerance is None else scale_of(expected, tolerance)
    for window in windows(got.shape):
        mine, theirs = got[window], expected[window].to(got.device)
        if scale is None:
            yield window, _exact_error(mine, theirs)
        else:
            here = scale[_clipped(window, scale)].to(got.device)
            yield window, _relative_error(mine, theirs, here)


def _place_of(position: int, shape: torch.Size, window: tuple[slice, ...]) -> tuple[int, ...]:
    """The index in the whole tensor of a position in a flattened window."""
    inside = torch.unravel_index(torch.tensor(position), shape)
    return tuple(int(index) + (part.start or 0) for index, part in zip(inside, window, strict=True))


def scale_of(expected: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """The largest finite |expected| over ``tolerance.scale_dims``, never below its floor.

    float64, with those dimensions kept at length 1.
    """
    dims = {
        dim % expected.ndim for dim in tolerance.scale_dims if -expected.ndim <= dim < expected.ndim
    }
    shape = [1 if dim in dims else length for dim, length in enumerate(expected.shape)]
    scale = torch.full(shape, tolerance.floor, dtype=torch.float64, device=expected.device)
    for window in windows(expected.shape):
        size = expected[window].to(_wide(expected)).abs()
        size = size.masked_fill_(~size.isfinite(), 0.0)
        if dims:
            size = size.amax(dim=tuple(dims), keepdim=True)
        place = _clipped(window, scale)
        scale[place] = torch.maximum(scale[place], size)
    return scale


def windows(shape: torch.Size) -> Iterator[tuple[slice, ...]]:
    """Cuts a shape into pieces of at most about CHUNK_ELEMENTS, along its longest dimension."""
    longest = max(range(len(shape)), key=lambda dim: shape[dim])
    rest = max(1, shape.numel() // max(1, shape[longest]))
    step = max(1, CHUNK_ELEMENTS // rest)
    for start in range(0, shape[longest], step):
        window = [slice(None)] * len(shape)
        window[longest] = slice(start, min(start + step, shape[longest]))
        yield tuple(window)


def _clipped(window: tuple[slice, ...], scale: torch.Tensor) -> tuple[slice, ...]:
    """The window in a tensor whose scale dimensions have length 1."""
    return tuple(
        slice(None) if length == 1 else part
        for part, length in zip(window, scale.shape, strict=True)
    )


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64


def _relative_error(got: torch.Tensor, expected: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float64; infinite where exactly one of the two is NaN, or they are different infinities."""
    error = (got.to(_wide(got)) - expected.to(_wide(expected))).abs().div_(scale)
    # NaN here comes from a NaN on either side, or from inf - inf: right or wrong, not in between.
    error.nan_to_num_(nan=torch.inf, posinf=torch.inf)
    # The oracle's value rounded to the answer's dtype is right: 70000 is inf in float16.
    right = (got == expected.to(got.dtype)) | (got.isnan() & expected.isnan())
    return error.masked_fill_(right, 0.0)


def _exact_error(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """float64, 0 where the bits agree or both are NaN, else |got - expected|, and at least the
    smallest positive number (0.0 and -0.0 differ)."""
    if expected.dtype != got.dtype and not got.is_floating_point():
        same = got == expected  # an integer oracle of another width: compare the values
    else:
        expected = expected.to(got.dtype)
        if got.is_floating_point():
            integer = _SAME_SIZE_INTEGER[got.element_size()]
            same = got.contiguous().view(integer) == expected.contiguous().view(integer)
            same |= got.isnan() & expected.isnan()
        else:
            same = got == expected
    error = (got.to(_wide(got)) - expected.to(_wide(expected))).abs()
    error = error.nan_to_num_(nan=torch.inf, posinf=torch.inf).clamp_(
        min=torch.finfo(torch.float64).tiny
    )
    return error.masked_fill_(same, 0.0)

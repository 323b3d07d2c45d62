"""What kind of wrong an answer is: names for what the error mask and the values look like.

Tensors are looked at as a table: the last dimension are the columns, all others together the
rows; a tensor of one dimension is a single row. The names:

where     everything, one_row, first_row_only (the first row is right and no other is),
          last_rows, last_tile (the last columns of some rows), every_kth_row, every_kth_column,
          scattered (none of these)
what      all_zero, unwritten (poison still there), nan_everywhere, nan_rows, inf,
          constant_factor (one for the whole answer), row_factor (each row its own),
          rows_do_not_sum_to_one
whose     input_returned, transposed, shifted (along the columns), row_of_another, previous_call
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from checkers.grading.poison import poisoned

# Rows and columns looked at closely, where looking at all would take long: the first wrong rows.
SAMPLE_ROWS = 16
SAMPLE_COLUMNS = 1024
# Rows that may hold the answer meant for another row.
CANDIDATE_ROWS = 512
# Longest shift looked for.
LONGEST_SHIFT = 32
# Share of the elements that must be wrong to be called "everything": a wrong answer may be right
# here and there by chance.
EVERYTHING = 0.9


def find_patterns(
    got: torch.Tensor,
    expected: torch.Tensor,
    arguments: Sequence[Any],
    wrong_mask: torch.Tensor,
    previous: torch.Tensor | None = None,
) -> frozenset[str]:
    """Names of the patterns seen in a wrong answer; see the module's docstring.

    got, expected, wrong_mask: same shape.  arguments: the function's, to see whether one of them
    was returned.  previous: the answer that the function gave for other inputs of the same
    shape, if there is one.
    """
    if wrong_mask.numel() == 0 or not bool(wrong_mask.any()):
        return frozenset()
    table = [_as_table(tensor.detach()) for tensor in (got, expected, wrong_mask)]
    found = _what(got.detach(), *table) | _whose(got.detach(), *table, arguments, previous)
    return frozenset(found | _where(table[2]))


def _as_table(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim else tensor.reshape(1, 1)


# --- where -------------------------------------------------------------------------------------


def _where(wrong: torch.Tensor) -> set[str]:
    """Patterns of the places: wrong (rows, columns) bool."""
    rows, columns = wrong.shape
    by_row, by_column = wrong.any(dim=1).cpu(), wrong.any(dim=0).cpu()
    share = float(wrong.sum(dtype=torch.float64)) / wrong.numel()
    found = set()
    if share >= EVERYTHING:
        found.add("everything")
    if rows > 1:
        wrong_rows = int(by_row.count_nonzero())
        if wrong_rows == 1:
            found.add("one_row")
        if not by_row[0] and wrong_rows == rows - 1 and rows > 2:
            found.add("first_row_only")
        if _is_tail(by_row) and _dense(wrong[by_row.to(wrong.device)]):
            found.add("last_rows")
        if _is_periodic(by_row):
            found.add("every_kth_row")
    if columns > 1:
        inside_wrong_rows = wrong[by_row.to(wrong.device)]
        if _is_tail(by_column) and _dense(inside_wrong_rows[:, by_column.to(wrong.device)]):
            found.add("last_tile")
        if _is_periodic(by_column):
            found.add("every_kth_column")
    return found or {"scattered"}


def _is_tail(wrong: torch.Tensor) -> bool:
    """Exactly the last k are wrong, 0 < k < all."""
    count = int(wrong.count_nonzero())
    return 0 < count < len(wrong) and bool(wrong[-count:].all())


def _dense(wrong: torch.Tensor) -> bool:
    """Most of a region is wrong: a few places in it that happen to lie at the end don't count."""
    return float(wrong.float().mean()) > 0.5


def _is_periodic(wrong: torch.Tensor) -> bool:
    """The wrong ones come back every k, at least three times, and not all are wrong."""
    wrong = wrong[: 16 * SAMPLE_COLUMNS]
    length = len(wrong)
    if bool(wrong.all()) or int(wrong.count_nonzero()) < 3:
        return False
    return any(
        bool((wrong[period:] == wrong[:-period]).all())
        for period in range(2, min(length // 3, 256) + 1)
    )


# --- what --------------------------------------------------------------------------------------


def _what(
    whole: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor
) -> set[str]:
    found = set()
    if not bool(whole.count_nonzero()):
        found.add("all_zero")
    unwritten = poisoned(got)
    if bool((unwritten & wrong).any()):
        found.add("unwritten")
    if got.is_floating_point():
        found |= _not_numbers(got, expected, wrong, unwritten)
        found |= _factors(got, expected)
        found |= _row_sums(*_sample(wrong, got, expected))
    return found


def _not_numbers(
    got: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, unwritten: torch.Tensor
) -> set[str]:
    """NaN and infinity that were computed (poison apart) where they don't belong."""
    found = set()
    nan = got.isnan() & wrong & ~unwritten
    if bool(nan.all()):
        found.add("nan_everywhere")
    elif bool(nan.all(dim=1).any()):
        found.add("nan_rows")
    if bool((got.isinf() & wrong & expected.isfinite()).any()):
        found.add("inf")
    return found


def _factors(got: torch.Tensor, expected: torch.Tensor) -> set[str]:
    """got = factor * expected, over a sample of rows and columns spread over the answer."""
    steps = (max(1, len(got) // SAMPLE_ROWS), max(1, got.shape[1] // SAMPLE_COLUMNS))
    mine, theirs = (tensor[:: steps[0], :: steps[1]].double() for tensor in (got, expected))
    theirs = theirs.to(got.device)
    usable = mine.isfinite() & theirs.isfinite() & (theirs.abs() > 1e-3 * _size(theirs))
    usable &= usable.sum(dim=1, keepdim=True) >= min(3, mine.shape[1])  # one place proves nothing
    if int(usable.count_nonzero()) < 4:
        return set()
    ratio = torch.where(usable, mine / theirs, torch.nan)
    tolerance = max(8 * torch.finfo(got.dtype).eps, 1e-4)
    by_row = ratio.nanmedian(dim=1, keepdim=True).values
    overall = ratio[usable].median()
    if bool(overall == 0) or not bool(
        ((ratio - by_row).abs() <= tolerance * by_row.abs())[usable].all()
    ):
        return set()
    if bool(((ratio - overall).abs() <= tolerance * overall.abs())[usable].all()):
        return {"constant_factor"} if abs(float(overall) - 1) > tolerance else set()
    return {"row_factor"} if mine.shape[1] > 1 else set()


def _row_sums(got: torch.Tensor, expected: torch.Tensor) -> set[str]:
    """The oracle's rows are probabilities and the answer's aren't."""
    if got.shape[1] < 2:
        return set()
    theirs, mine = expected.double(), got.double()
    probabilities = bool((theirs >= 0).all()) and bool(((theirs.sum(dim=1) - 1).abs() < 1e-3).all())
    off = (mine.sum(dim=1) - 1).abs() > 1e-2  # False for NaN: another pattern's business
    return {"rows_do_not_sum_to_one"} if probabilities and bool(off.any()) else set()


# --- whose -------------------------------------------------------------------------------------


def _whose(
    whole: torch.Tensor,
    got: torch.Tensor,
    expected: torch.Tensor,
    wrong: torch.Tensor,
    arguments: Sequence[Any],
    previous: torch.Tensor | None,
) -> set[str]:
    """Values that are right, but for something else."""
    found = set()
    if any(_same_tensor(whole, argument) for argument in arguments):
        found.add("input_returned")
    if previous is not None and _same_tensor(whole, previous):
        found.add("previous_call")
    mine, theirs = (rows[:, :SAMPLE_COLUMNS] for rows in _sample(wrong, got, expected))
    if got.shape[0] > 1 and got.shape[1] > 1:
        if _is_transposed(got, expected):
            found.add("transposed")
        if _is_row_of_another(mine, theirs, expected[:CANDIDATE_ROWS]):
            found.add("row_of_another")
    if _is_shifted(mine, theirs):
        found.add("shifted")
    return found


def _sample(
    wrong: torch.Tensor, got: torch.Tensor, expected: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first wrong rows of both, the oracle's on got's device."""
    rows = wrong.any(dim=1).nonzero().flatten()[:SAMPLE_ROWS]
    return got[rows], expected[rows.to(expected.device)].to(got.device)


def _same_tensor(got: torch.Tensor, other: Any) -> bool:
    return (
        isinstance(other, torch.Tensor)
        and other.shape == got.shape
        and bool(torch.equal(got, other.detach().to(device=got.device, dtype=got.dtype)))
    )


def _size(tensor: torch.Tensor) -> torch.Tensor:
    """The largest finite magnitude, 0-d, at least a tiny number."""
    finite = torch.where(tensor.isfinite(), tensor, 0)
    return finite.abs().max().clamp(min=1e-30)


def _close(a: torch.Tensor, b: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """Whether a and b are near enough to be the same numbers in another place."""
    a, b = a.double(), b.double()
    near = ((a - b).abs() <= 1e-2 * _size(b)) | (a == b) | (a.isnan() & b.isnan())
    return near.all() if dim is None else near.all(dim=dim)


def _is_transposed(got: torch.Tensor, expected: torch.Tensor) -> bool:
    if got.numel() > 2**22:
        return False
    turned = expected.mT.reshape(got.shape).to(got.device)
    return bool(_close(got, turned)) and not bool(_close(expected.to(got.device), turned))


def _is_row_of_another(mine: torch.Tensor, theirs: torch.Tensor, candidates: torch.Tensor) -> bool:
    """Every wrong row looked at is the oracle's for some other row."""
    others = candidates[:, :SAMPLE_COLUMNS].to(mine.device, torch.float64)
    if bool(_close(others, others[:1])):
        return False
    return all(
        bool(_close(row, others, dim=1).any()) and not bool(_close(row, own))
        for row, own in zip(mine, theirs, strict=True)
    )


def _is_shifted(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Each wrong row is the oracle's moved by the same few columns, whatever stands in the gap."""
    columns = mine.shape[1]
    if columns < 4 or not bool((theirs != theirs[:, :1]).any()):
        return False
    for shift in range(1, min(LONGEST_SHIFT, columns // 2) + 1):
        ahead, behind = slice(shift, None), slice(None, columns - shift)
        for left, right in ((ahead, behind), (behind, ahead)):
            moved = _close(mine[:, left], theirs[:, right])
            if bool(moved) and not bool(_close(theirs[:, left], theirs[:, right])):
                return True
    return False

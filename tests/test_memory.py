"""Guard zones, poison, and the watch over PyTorch's operators."""

from __future__ import annotations

import pytest
import torch

from checkers.grading.memory import SHOWS, Watch, guarded, guarded_copy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_a_write_outside_is_seen_on_the_side_where_it_was(dtype):
    for offset, side in ((-1, "before"), (12, "after")):
        kept = guarded((3, 4), (4, 1), dtype, "cpu", SHOWS)
        assert kept.torn() is None
        start = kept.tensor.storage_offset()
        whole = torch.as_strided(kept.tensor, (12 + 2 * start,), (1,), 0)
        whole[start + offset] = 0
        assert kept.torn() == side


def test_a_copy_keeps_sizes_strides_and_alignment():
    x = torch.arange(40.0).view(5, 8)[:, :3]
    kept = guarded_copy(x, "cpu")
    assert torch.equal(kept.tensor, x)
    assert kept.tensor.stride() == (8, 1)
    assert kept.tensor.data_ptr() % 16 == 0


def test_an_empty_tensor_has_guards_too():
    assert guarded((0, 7), (7, 1), torch.float32, "cpu", SHOWS).torn() is None


def test_a_nan_stored_past_an_output_shows_and_a_load_before_an_input_spoils():
    with Watch() as watch:
        torch.empty(4)
    (fresh,) = watch.fresh
    fresh.after[0] = float("nan")
    assert fresh.torn() == "after"
    assert bool(guarded_copy(torch.ones(4), "cpu").before.isnan().all())


def test_fresh_tensors_are_full_of_nan():
    with Watch() as watch:
        out = torch.empty(3, 5)
        like = torch.empty_like(torch.ones(2, 2))
    assert bool(out.isnan().all()) and bool(like.isnan().all())
    assert len(watch.fresh) == 2


def test_operators_that_compute_are_noted_and_viewing_is_not():
    x = torch.ones(4, 4)
    with Watch() as watch:
        torch.zeros(3).view(3, 1)
        x.t().unsqueeze(0)
        assert watch.used == []
        x + 1
        torch.softmax(x, -1)
    assert watch.used == ["aten::add", "aten::_softmax"]


def test_allowed_operators_and_the_graders_own_are_not_noted():
    with Watch(allowed=frozenset({"aten::add"})) as watch:
        torch.ones(2) + 1
        with watch.pause():
            torch.ones(2).exp()
    assert "aten::add" not in watch.used
    assert "aten::exp" not in watch.used


def test_tensors_that_are_filled_when_made_have_guards_and_keep_their_values():
    with Watch() as watch:
        zeros = torch.zeros_like(torch.ones(3))
        full = torch.full((2,), 7.0)
    assert zeros.tolist() == [0.0] * 3 and full.tolist() == [7.0] * 2
    assert len(watch.fresh) == 2

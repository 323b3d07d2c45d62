"""Tensors that PyTorch put side by side are far apart for the kernel."""

from __future__ import annotations

import numpy as np
import torch

from checkers.simulator.launch.records import Launch, Tensor
from checkers.simulator.machine.kernel import load
from checkers.simulator.memory.apart import GUARD, moved_apart, number_words
from tests.simulator.harness import kinds, run_ptx

COPY = """
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd2, %a, %rd1; ld.global.u32 %r2, [%rd2+{past}];
    add.u64 %rd3, %b, %rd1; st.global.u32 [%rd3], %r2;
"""


def test_an_index_into_the_neighbouring_tensor_is_out_of_bounds() -> None:
    both = np.arange(64, dtype=np.uint32)
    a, b = both[:32], both[32:]
    result = run_ptx(COPY.format(past=64), a=a, b=b)
    (fault,) = result.faults
    assert fault.kind == "out_of_bounds" and fault.message.startswith("a[32]")
    assert fault.count == 16
    assert b[:16].tolist() == list(range(16, 32))
    assert kinds(run_ptx(COPY.format(past=0), a=a, b=b)) == []
    assert b.tolist() == a.tolist() == list(range(32))


def launch_with(parameters: list[bytes], *tensors: torch.Tensor) -> Launch:
    records = [
        Tensor(
            "abc"[i], t.data_ptr(), tuple(t.shape), t.stride(), "int32", 4, 4 * t.numel(), owner=t
        )
        for i, t in enumerate(tensors)
    ]
    one = (1, 1, 1)
    return Launch("", "k", one, one, one, 0, parameters, records, "sm_90a")


def test_pointers_move_with_their_tensors_and_keep_their_alignment() -> None:
    memory = torch.zeros(300, dtype=torch.int32)
    a, b = memory[:100], memory[103:200]
    size = 1000
    raw = [a.data_ptr() + 40, size, b.data_ptr()]
    struct = b"".join(value.to_bytes(8, "little") for value in raw) + b"\1\2\3"
    launch = moved_apart(launch_with([struct], a, b))
    words = [int.from_bytes(launch.parameters[0][at : at + 8], "little") for at in (0, 8, 16)]
    first, second = launch.tensors
    assert words == [first.address + 40, size, second.address]
    assert launch.parameters[0][24:] == b"\1\2\3"
    assert (first.real, second.real) == (a.data_ptr(), b.data_ptr())
    assert second.address - first.end >= GUARD
    assert all((t.address - t.real) % 65536 == 0 for t in launch.tensors)


def test_views_that_share_bytes_stay_together() -> None:
    memory = torch.zeros(100, dtype=torch.int32)
    a, b = memory[:60], memory[40:]
    pointers = [t.data_ptr().to_bytes(8, "little") for t in (a, b)]
    first, second = moved_apart(launch_with(pointers, a, b)).tensors
    assert second.address - first.address == 160


def test_a_tensor_that_only_a_table_names_stays_where_it_is() -> None:
    memory = torch.zeros(100, dtype=torch.int32)
    a, b = memory[:40], memory[50:]
    launch = launch_with([a.data_ptr().to_bytes(8, "little")], a, b)
    assert moved_apart(launch) is launch


STRUCT = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .align 8 .b8 x[40], .param .u64 y) {
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .b16 %h<2>;
    ld.param.b64 %rd1, [x];
    ld.param.b32 %r1, [x+8];
    ld.param.v2.b32 {%r2, %r3}, [x+16];
    ld.param.v2.b64 {%rd2, %rd3}, [x+24];
    ld.param.u8 %h1, [x+24];
    ret;
}
"""


def test_a_word_that_is_loaded_in_pieces_is_a_number() -> None:
    function = load(STRUCT, "k").function
    assert number_words(function) == [{8, 16}, set()]


def test_a_number_that_looks_like_an_address_stays() -> None:
    """A 32-bit length with padding that nobody wrote behind it."""
    a = torch.zeros(100, dtype=torch.int32)
    looks = (a.data_ptr() + 16).to_bytes(8, "little")
    struct = a.data_ptr().to_bytes(8, "little") + looks
    assert moved_apart(launch_with([struct], a), [{8}]).parameters[0][8:] == looks
    assert moved_apart(launch_with([struct], a)).parameters[0][8:] != looks

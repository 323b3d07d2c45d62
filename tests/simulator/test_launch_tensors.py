"""Which tensors a launch may touch, and what they are called; and launches kept in files."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

from checkers.simulator.launch import tensors
from checkers.simulator.launch.device import pretended
from checkers.simulator.launch.parameters import header, target
from checkers.simulator.launch.records import Launch
from checkers.simulator.launch.save import load, save
from checkers.simulator.launch.tensors import Seen, walk

Pair = namedtuple("Pair", "left right")


@dataclass
class Weights:
    matrix: torch.Tensor
    bias: torch.Tensor | None


def word(tensor: torch.Tensor, offset: int = 0) -> bytes:
    return struct.pack("<Q", tensor.data_ptr() + offset)


def seen(parameters: list[bytes], **arguments: object) -> dict[str, torch.Tensor]:
    calls = Seen()
    with calls.call(lambda: arguments.items()):
        return {tensor.name: tensor for tensor in calls.tensors(parameters)}


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (lambda t: t, "p"),
        (lambda t: [None, t], "p[1]"),
        (lambda t: {"w": (t,)}, "p['w'][0]"),
        (lambda t: Pair(1, t), "p.right"),
        (lambda t: Weights(t, None), "p.matrix"),
        (lambda t: [Weights(t, None)], "p[0].matrix"),
        (pretended, "p"),
    ],
)
def test_a_tensor_is_named_by_the_way_to_it(wrap, name):
    assert [t.name for t in walk("p", wrap(torch.ones(3)))] == [name]


def test_only_what_an_address_leads_to_is_of_the_launch():
    a, b, c = torch.ones(8), torch.ones(8), torch.ones(8)
    assert set(seen([word(a), word(b, 16)], a=a, b=b, c=c)) == {"a", "b"}


def test_a_table_of_pointers_leads_on():
    a, b = torch.ones(8), torch.ones(8)
    table = torch.tensor([a.data_ptr(), b.data_ptr()])
    assert set(seen([word(table)], table=table, parts=[a, b])) == {"table", "parts[0]", "parts[1]"}


def test_a_pointer_among_other_bytes_is_found():
    a = torch.ones(8)
    assert set(seen([struct.pack("<iiQ", 3, 4, a.data_ptr())], a=a)) == {"a"}


def test_of_two_names_of_one_memory_the_larger_or_first_stays():
    a = torch.ones(8)
    assert set(seen([word(a)], part=a[:4], whole=a, again=a)) == {"whole"}


def test_a_tensor_that_was_not_passed_is_found_by_its_variable():
    hidden = torch.ones(8)
    assert set(seen([word(hidden)])) == {"hidden"}


def test_two_sizes_side_by_side_are_not_searched_for(monkeypatch):
    a, sizes = torch.ones(8), struct.pack("<II", 4096, 512)
    monkeypatch.setattr(tensors, "_among_all", lambda words: pytest.fail("a slow search"))
    assert set(seen([word(a), sizes], a=a)) == {"a"}


def test_numbers_that_look_like_no_address_find_nothing():
    assert seen([struct.pack("<QQ", 4096, 2**63), struct.pack("<f", 1.0)]) == {}


PTX = """
.version 8.8
.target sm_90a
.visible .entry other() { ret; }
.visible .entry kernel(
    .param .u64 .ptr .global .align 16 p0,
    .param .align 64 .b8 p1[128],
    .param .f32 p2, .param .b16 p3
)
.reqntid 128, 1, 1
.explicitcluster
.reqnctapercluster 2, 1, 1
{ ret; }
"""


def test_a_kernels_header_gives_sizes_and_cluster():
    assert header(PTX, "kernel").sizes == (8, 128, 4, 2)
    assert header(PTX, "kernel").cluster == (2, 1, 1)
    assert header(PTX, "other").sizes == () and header(PTX, "other").cluster is None
    assert target(PTX) == "sm_90a"
    with pytest.raises(KeyError, match="no kernel 'kern'"):
        header(PTX, "kern")


def test_a_launch_comes_back_from_a_file_at_other_addresses(tmp_path):
    x = torch.arange(12.0).reshape(3, 4)[:, 1:3]
    calls = Seen()
    with calls.call(lambda: [("x", x)]):
        tensors = calls.tensors([word(x)])
    data = [word(x, 8) + b"\1\2\3\4", struct.pack("<i", 7)]
    launch = Launch(PTX, "kernel", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, data, tensors, "sm_90a")
    save(launch, tmp_path / "launch.pickle")
    again = load(tmp_path / "launch.pickle")
    (tensor,) = again.tensors
    assert tensor.address != x.data_ptr() and tensor.address % 512 == x.data_ptr() % 512
    assert tensor.owner.tolist() == x.tolist() and tensor.strides == (4, 1)
    assert again.parameters == [struct.pack("<Q", tensor.address + 8) + b"\1\2\3\4", data[1]]

"""Launches of Triton, caught: arguments in the order and the form of the PTX's parameters."""

from __future__ import annotations

import math
import struct

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from checkers.simulator.copies.tensormap import decode
from checkers.simulator.launch import catching
from tests.simulator import launched_triton as kernels


def test_a_launch_gives_grid_block_parameters_and_tensors():
    x, y, out = (torch.zeros(1000, device="cpu") for _ in range(3))
    with catching("h100") as launches:
        kernels.scale_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](
            x, y, out, 1000, 2.5, BLOCK=256, num_warps=8
        )
    (launch,) = launches
    assert (launch.grid, launch.block, launch.cluster) == ((4, 1, 1), (256, 1, 1), (1, 1, 1))
    pointers = [struct.pack("<Q", t.data_ptr()) for t in (x, y, out)]
    scratch = [bytes(8)] * 2
    numbers = [struct.pack("<i", 1000), struct.pack("<f", 2.5)]
    assert launch.parameters == pointers + numbers + scratch
    assert {t.name: t.address for t in launch.tensors} == {
        name: t.data_ptr()
        for name, t in zip(("x_ptr", "y_ptr", "out_ptr"), (x, y, out), strict=True)
    }
    assert launch.kernel == launch.title == "scale_add" and launch.arch == "sm_90a"


def test_an_argument_of_one_is_a_constant_and_no_parameter():
    x, y, out = (torch.zeros(16, device="cpu") for _ in range(3))
    with catching() as launches:
        kernels.scale_add[(1,)](x, y, out, 1, 2.5, BLOCK=16)
    assert len(launches[0].parameters) == 6


def test_num_ctas_makes_a_cluster_and_a_wider_grid():
    x, y, out = (torch.zeros(1000, device="cpu") for _ in range(3))
    with catching() as launches:
        kernels.scale_add[(3, 2)](x, y, out, 1000, 2.5, BLOCK=256, num_ctas=2)
    assert (launches[0].grid, launches[0].cluster) == ((6, 2, 1), (2, 1, 1))


def test_a_host_side_descriptor_is_encoded_and_a_tuple_is_flattened():
    source = torch.zeros(64, 48, dtype=torch.float16)
    out = torch.zeros(32, 32, dtype=torch.float16)
    with catching() as launches:
        described = TensorDescriptor.from_tensor(source, [32, 32])
        kernels.load_tile[(1,)](described, out, (3, 2.0), 32, 32)
    (launch,) = launches
    tensor_map = decode(launch.parameters[0])
    assert tensor_map.address == source.data_ptr() and tensor_map.sizes == (48, 64)
    assert tensor_map.strides == (96,) and tensor_map.box == (32, 32)
    shape_and_strides = struct.pack("<ii", 64, 48), struct.pack("<qq", 48, 1)
    assert b"".join(launch.parameters[1:3]) == shape_and_strides[0]
    assert b"".join(launch.parameters[3:5]) == shape_and_strides[1]
    assert launch.parameters[5] == struct.pack("<Q", out.data_ptr())
    assert launch.parameters[6:8] == [struct.pack("<i", 3), struct.pack("<f", 2.0)]
    assert {t.name for t in launch.tensors} == {"source.base", "out_ptr"}
    assert launch.dynamic_shared >= 32 * 32 * 2


def test_scratch_memory_comes_from_the_allocator_and_is_a_tensor_of_the_launch():
    source = torch.zeros(64, 64, dtype=torch.float16)
    out = torch.zeros(32, 32, dtype=torch.float16)
    with catching() as launches:
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
        kernels.load_tile_on_device[(2,)](source, out, 64, 64, 32, 32)
    (scratch,) = [t for t in launches[0].tensors if "scratch" in t.name]
    assert scratch.nbytes == 2 * 128
    assert struct.pack("<Q", scratch.address) in launches[0].parameters


def test_an_autotuner_takes_the_first_configuration_that_fits_and_launches_it_alone():
    x = torch.zeros(1000, device="cpu")
    with catching() as launches:
        kernels.ones[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, 1000)
    # The first wants 64 warps, twice what a block can have.
    assert [(launch.grid, launch.block) for launch in launches] == [((4, 1, 1), (64, 1, 1))]


def test_a_benchmark_calls_once_and_knows_no_time():
    x = torch.zeros(64, device="cpu")
    with catching() as launches:
        time = triton.testing.do_bench(lambda: kernels.ones[(1,)](x, 64))
    assert math.isnan(time) and len(launches) == 1


def test_an_empty_grid_launches_nothing():
    x, y, out = (torch.zeros(16, device="cpu") for _ in range(3))
    with catching() as launches:
        kernels.scale_add[(0,)](x, y, out, 16, 2.5, BLOCK=16)
    assert launches == []


@pytest.mark.parametrize(("gpu", "arch"), [("h100", "sm_90a"), ("b200", "sm_100a")])
def test_a_kernel_is_compiled_anew_for_another_gpu(gpu, arch):
    x, y, out = (torch.zeros(16, device="cpu") for _ in range(3))
    with catching(gpu) as launches:
        kernels.scale_add[(1,)](x, y, out, 16, 2.5, BLOCK=16)
    assert launches[0].arch == arch

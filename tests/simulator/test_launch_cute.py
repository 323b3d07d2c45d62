"""Launches of CuTe DSL, caught on a machine with no GPU: what the host code asked for is all there."""

from __future__ import annotations

import ctypes
import gc
import inspect
import re
import struct

import cutlass
import cutlass.cute as cute
import numpy as np
import pytest
import torch
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_ptr

from checkers.simulator.copies.tensormap import decode
from checkers.simulator.launch import KernelFault, catching, simulating
from checkers.simulator.launch.catcher import LaunchError
from tests.simulator import launched_cute as kernels


def pointer(launch, index: int) -> int:
    return struct.unpack("<Q", launch.parameters[index][:8])[0]


def vectors(size: int = 200) -> list[torch.Tensor]:
    return [torch.arange(float(size)), torch.ones(size), torch.zeros(size)]


def test_a_direct_call_gives_grid_block_parameters_and_the_names_of_the_tensors():
    a, b, c = vectors()
    with catching("h100") as launches:
        kernels.add(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    (launch,) = launches
    assert (launch.grid, launch.block, launch.cluster) == ((2, 1, 1), (128, 1, 1), (1, 1, 1))
    assert launch.dynamic_shared == 0 and launch.arch == "sm_90a"
    assert [pointer(launch, i) for i in range(3)] == [t.data_ptr() for t in (a, b, c)]
    assert launch.parameters[3] == struct.pack("<i", 200)
    assert {t.name: (t.address, t.shape, t.dtype, t.nbytes) for t in launch.tensors} == {
        name: (t.data_ptr(), (200,), "float32", 800)
        for name, t in zip("abc", (a, b, c), strict=True)
    }
    assert launch.title == "add_kernel"


def test_the_ptx_has_the_lines_of_the_source():
    a, b, c = vectors()
    with catching() as launches:
        kernels.add(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    lines, start = inspect.getsourcelines(kernels)
    addition = next(i for i, line in enumerate(lines, start or 1) if "a[i] + b[i]" in line)
    assert f'"{kernels.__file__}"' in launches[0].ptx
    assert re.search(rf"\.loc\s+1 {addition} ", launches[0].ptx)


@pytest.mark.parametrize("give", [from_dlpack, lambda t: t, lambda t: from_dlpack(t.numpy())])
def test_a_function_compiled_with_fake_tensors_takes_cpu_tensors(give):
    a, b, c = vectors()
    with catching() as launches:
        fake = make_fake_compact_tensor(cutlass.Float32, (200,), assumed_align=16)
        compiled = cute.compile(kernels.add, fake, fake, fake)
        compiled(give(a), give(b), c=give(c))
    assert [pointer(launches[0], i) for i in range(3)] == [t.data_ptr() for t in (a, b, c)]
    assert {t.name for t in launches[0].tensors} == {"a", "b", "c"}


def test_two_launches_of_one_function_come_in_order_and_with_what_they_reach():
    a, b, c = vectors()
    with catching() as launches:
        kernels.add_twice(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    first, second = ([pointer(launch, i) for i in range(3)] for launch in launches)
    assert first == [a.data_ptr(), b.data_ptr(), c.data_ptr()]
    assert second == [c.data_ptr(), a.data_ptr(), b.data_ptr()]


def test_what_a_launch_writes_is_there_for_the_next():
    a, b, c = vectors()
    seen = []

    def write(launch):
        seen.append(float(c[0]))
        c.add_(1)

    with catching("h100", write):
        kernels.add_twice(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    assert seen == [0.0, 1.0]


def test_tensors_in_containers_are_named_by_their_place():
    a, b, c = vectors()
    with catching() as launches:
        kernels.add_lists([from_dlpack(a), from_dlpack(b)], from_dlpack(c))
    assert {t.name for t in launches[0].tensors} == {"inputs[0]", "inputs[1]", "out"}


def test_a_cluster_launch_gives_its_dimensions_and_dynamic_shared_memory():
    with catching() as launches:
        kernels.ranks(from_dlpack(torch.zeros(256)))
    (launch,) = launches
    assert (launch.grid, launch.cluster, launch.dynamic_shared) == ((4, 1, 1), (2, 1, 1), 4096)


def test_a_tma_descriptor_is_what_the_host_code_built():
    source = torch.zeros(64, 128, dtype=torch.float16)
    out = torch.zeros(32, 64, dtype=torch.float16)
    with catching() as launches:
        kernels.tma_copy(from_dlpack(source), from_dlpack(out))
    (launch,) = launches
    tensor_map = decode(launch.parameters[0])
    assert tensor_map.address == source.data_ptr()
    assert tensor_map.sizes == (128, 64) and tensor_map.strides == (256,)
    assert tensor_map.box == (64, 32) and tensor_map.swizzle == "128B"
    assert {t.name: t.nbytes for t in launch.tensors} == {"source": 64 * 256, "out": 32 * 128}


@pytest.mark.parametrize(("gpu", "arch"), [("h200", "sm_90a"), ("b200", "sm_100a")])
def test_kernels_are_compiled_for_the_chosen_gpu(gpu, arch):
    a, b, c = vectors()
    with catching(gpu) as launches:
        kernels.add(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    assert launches[0].arch == arch


def test_a_function_compiled_for_another_gpu_is_refused():
    a, b, c = vectors()
    with catching("h100"):
        fake = make_fake_compact_tensor(cutlass.Float32, (200,), assumed_align=16)
        compiled = cute.compile(kernels.add, fake, fake, fake)
    with catching("b200"), pytest.raises(LaunchError, match="compiled for sm_90a"):
        compiled(a, b, c)


def test_code_that_names_another_architecture_is_refused_with_its_name():
    a, b, c = vectors()
    with catching("h100"), pytest.raises(LaunchError, match="compiled for sm_100a.*H100"):
        fake = make_fake_compact_tensor(cutlass.Float32, (200,), assumed_align=16)
        cute.compile(kernels.add, fake, fake, fake, options="--gpu-arch sm_100a")(a, b, c)


def test_a_compiled_function_is_caught_by_whoever_catches_at_the_time():
    a, b, c = vectors()
    with catching():
        fake = make_fake_compact_tensor(cutlass.Float32, (200,), assumed_align=16)
        compiled = cute.compile(kernels.add, fake, fake, fake)
    with catching() as first:
        compiled(a, b, c)
    with catching() as second:
        compiled(a, b, c)
        compiled(a, b, c)
    assert (len(first), len(second)) == (1, 2)


class Broken(Exception):
    pass


def test_what_is_raised_at_a_launch_comes_out_as_itself():
    a, b, c = vectors()

    def fail(launch):
        raise Broken("here")

    with catching("h100", fail), pytest.raises(Broken, match="here") as caught:
        kernels.add(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    assert caught.value.__suppress_context__


def test_an_error_of_the_caller_points_at_the_caller():
    a, b, _ = vectors()
    with catching(), pytest.raises(Exception, match="ARG_ANNOTATION_MISMATCH") as caught:
        kernels.add(from_dlpack(a), from_dlpack(b), 3)
    assert __file__ in str(caught.value)


@cute.jit
def add_at(address: cute.Pointer, b: cute.Tensor, c: cute.Tensor):
    a = cute.make_tensor(address, cute.make_layout(200))
    kernels.add_kernel(a, b, c, 200).launch(grid=(2, 1, 1), block=(128, 1, 1))


def test_a_raw_pointer_is_traced_to_the_tensor_that_python_holds():
    hidden, b, c = vectors()
    with catching() as launches:
        address = make_ptr(cutlass.Float32, hidden.data_ptr(), cute.AddressSpace.gmem)
        add_at(address, from_dlpack(b), from_dlpack(c))
    (found,) = [t for t in launches[0].tensors if t.name not in "bc"]
    assert (found.name, found.address, found.nbytes) == ("hidden", hidden.data_ptr(), 800)


def test_memory_that_only_the_launch_holds_stays_alive():
    b, c = torch.ones(200), torch.zeros(200)
    with catching() as launches:
        kernels.add(from_dlpack(torch.full((200,), 7.0)), from_dlpack(b), from_dlpack(c))
    gc.collect()
    (a,) = [t for t in launches[0].tensors if t.name == "a"]
    data = np.frombuffer((ctypes.c_char * a.nbytes).from_address(a.address), np.float32)
    assert (data == 7.0).all()


def test_views_keep_their_strides_and_their_extent():
    whole = torch.arange(400.0)
    _, b, c = vectors(100)
    with catching() as launches:
        kernels.add(from_dlpack(whole[3:300:2][:100]), from_dlpack(b), from_dlpack(c))
    (a,) = [t for t in launches[0].tensors if t.name == "a"]
    assert (a.shape, a.strides, a.nbytes) == ((100,), (2,), (99 * 2 + 1) * 4)
    assert a.address == whole.data_ptr() + 12


def test_hardware_info_is_that_of_the_chosen_gpu():
    with catching("b200"):
        info = cutlass.utils.HardwareInfo()
        assert info.get_device_multiprocessor_count() == 148
        assert info.get_max_active_clusters(1) == 148
        assert info.get_l2_cache_size_in_bytes() == 126 * 2**20


def test_a_fault_is_raised_where_that_is_asked_for():
    a, b, c = vectors()
    with simulating("h100", raises=True) as results, pytest.raises(KernelFault, match=r"a\[200\]"):
        kernels.add_one_too_many(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    assert len(results) == 1
    with simulating("h100") as results:
        kernels.add_one_too_many(from_dlpack(a), from_dlpack(b), from_dlpack(c))
    assert not results[0].ok and torch.equal(c, a + b)


def test_tma_clusters_and_shared_memory_run_end_to_end():
    source = torch.randn(64, 128).half()
    out, ranks = torch.zeros(32, 64, dtype=torch.float16), torch.zeros(256)
    with simulating("h100") as results:
        kernels.tma_copy(from_dlpack(source), from_dlpack(out))
        kernels.ranks(from_dlpack(ranks))
    assert [result.faults for result in results] == [[], []]
    assert torch.equal(out, source[:32, :64])
    assert ranks.reshape(4, 64).unique(dim=1).reshape(-1).tolist() == [0, 1, 0, 1]

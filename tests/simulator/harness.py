"""Runs hand-written PTX on the simulator: what the tests of every instruction family use.

out = np.zeros(32, np.uint32)
run_ptx("mov.u32 %r0, %tid.x; ...", out=out)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.simulator import Result, simulate
from checkers.simulator.launch.records import Launch, Tensor

_TORCH_NAMES = {"float16": "float16", "uint16": "int16", "bfloat16": "bfloat16"}

# Registers that a body may use without declaring them.
_REGISTERS = """
    .reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<128>; .reg .f32 %f<128>; .reg .b64 %rd<64>;
    .reg .f64 %fd<32>; .reg .b128 %q<8>;
"""


def ptx_text(body: str, parameters: list[str], *, target: str = "sm_90a", module: str = "") -> str:
    """A module with one kernel ``k``; each parameter is there as a register of its name, %name,
    for pointers (.u64), loaded first."""
    declared = ", ".join(f".param .{kind} k_{name}" for kind, name in _kinds(parameters))
    loads = "".join(
        f"    .reg .b{kind[1:]} %{name}; ld.param.{kind} %{name}, [k_{name}];\n"
        for kind, name in _kinds(parameters)
    )
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n{module}\n"
        f".visible .entry k({declared})\n{{{_REGISTERS}{loads}{body}\n    ret;\n}}\n"
    )


def _kinds(parameters: list[str]) -> list[tuple[str, str]]:
    """ "name" is a pointer; "u32 name" has the type that it says."""
    return [("u64", p) if " " not in p else tuple(p.split()) for p in parameters]  # type: ignore


def tensor_of(name: str, array: np.ndarray, writable: bool = True) -> Tensor:
    """A numpy array as a tensor of the launch."""
    return Tensor(
        name=name,
        address=array.ctypes.data,
        shape=array.shape,
        strides=tuple(s // array.itemsize for s in array.strides),
        dtype=str(array.dtype),
        itemsize=array.itemsize,
        nbytes=array.nbytes,
        owner=array,
        writable=writable,
    )


def launch_of(
    body: str,
    *,
    grid: Any = 1,
    block: Any = 32,
    cluster: Any = 1,
    dynamic_shared: int = 0,
    target: str = "sm_90a",
    module: str = "",
    raw_parameters: dict[str, bytes] | None = None,
    **arguments: Any,
) -> Launch:
    """A launch of ``body``. arguments: numpy arrays (pointers) and ints (.u32) by name."""
    names, values, tensors = [], [], []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            names.append(name)
            values.append(value.ctypes.data.to_bytes(8, "little"))
            tensors.append(tensor_of(name, value))
        else:
            names.append(f"u32 {name}")
            values.append((int(value) & 0xFFFFFFFF).to_bytes(4, "little"))
    text = ptx_text(body, names, target=target, module=module)
    if raw_parameters:
        # Byte arrays such as tensor maps: [k_NAME] is their address in parameter space.
        extra = "".join(
            f", .param .align 64 .b8 k_{name}[{len(data)}]" for name, data in raw_parameters.items()
        )
        head, rest = text.split(")\n{", 1)
        text = (head + (extra if names else extra[2:])) + ")\n{" + rest
        values += list(raw_parameters.values())
    return Launch(
        ptx=text,
        kernel="k",
        grid=_dim3(grid),
        block=_dim3(block),
        cluster=_dim3(cluster),
        dynamic_shared=dynamic_shared,
        parameters=values,
        tensors=tensors,
        arch=target,
    )


def _dim3(size: Any) -> tuple[int, int, int]:
    return (size, 1, 1) if isinstance(size, int) else (*size, 1, 1)[:3]


def run_ptx(body: str, *, schedule: str = "latest", log: bool = False, **launch: Any) -> Result:
    """Simulates ``body``: launch_of's arguments, with simulate()'s schedule and log."""
    target = launch.get("target", "sm_90a")
    return simulate(
        launch_of(body, **launch),
        schedule=schedule,
        gpu="b200" if target.startswith("sm_100") else "h100",
        log=log,
    )


def kinds(result: Result) -> list[str]:
    """The kinds of the faults that are errors, sorted, without repeats."""
    return sorted({str(fault.kind) for fault in result.faults if fault.is_error})

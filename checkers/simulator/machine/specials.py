"""The values of special registers, PTX ISA manual, chapter "Special Registers"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave

_AXES = {"x": 0, "y": 1, "z": 2, "w": 3}

# Those that count what is not simulated, or tell what only a driver knows.
_UNKNOWN = ("%pm", "%current_graph_exec", "%reserved_smem_offset_")
_DTYPES = {1: np.dtype(bool), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


def special_bits(name: str) -> int:
    """The width that a special register is kept in; 0 for one that is not simulated."""
    if name.startswith(_UNKNOWN) and not name.endswith(("_begin", "_end")):
        return 0
    if name == "%is_explicit_cluster":
        return 1
    return 64 if name.endswith("64") or name == "%gridid" else 32


def special_values(wave: Wave, name: str) -> np.ndarray:
    """(warps, 32) bool, uint32 or uint64, by special_bits, of the register called ``name``.

    Raises ValueError for one that is not known.
    """
    stem, _, axis = name.removeprefix("%").partition(".")
    dtype = _DTYPES[special_bits(name) or 32]
    block_of_warp = np.arange(wave.warps) // wave.warps_per_block
    thread = np.arange(wave.warps * 32).reshape(-1, 32) % (wave.warps_per_block * 32)
    lane = np.arange(32)

    def per_block(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(values)[block_of_warp][:, None], thread.shape)

    def vector(values: tuple[int, ...] | np.ndarray) -> np.ndarray:
        at = _AXES[axis]
        if at == 3:
            return np.zeros_like(thread) if "n" not in stem[:1] else np.ones_like(thread)
        values = np.asarray(values)
        if values.ndim == 1:
            return np.full_like(thread, values[at])
        return per_block(values[:, at])

    launch = wave.launch
    grid, block = np.asarray(launch.grid), np.asarray(launch.block)
    cluster = np.asarray(wave.run.cluster)
    within = wave.block_ids % cluster
    match stem:
        case "tid":
            x, y, _ = launch.block
            places = (thread % x, thread // x % y, thread // (x * y))
            out = places[_AXES[axis]] if axis != "w" else np.zeros_like(thread)
        case "ntid":
            out = vector(block)
        case "ctaid":
            out = vector(wave.block_ids)
        case "nctaid":
            out = vector(grid)
        case "clusterid":
            out = vector(wave.block_ids // cluster)
        case "nclusterid":
            out = vector(grid // cluster)
        case "cluster_ctaid":
            out = vector(within)
        case "cluster_nctaid":
            out = vector(cluster)
        case "cluster_ctarank":
            out = per_block(np.arange(wave.blocks) % wave.cluster_size)
        case "cluster_nctarank":
            out = np.full_like(thread, wave.cluster_size)
        case "is_explicit_cluster":
            out = np.full_like(thread, wave.run.explicit_cluster)
        case "laneid":
            out = np.broadcast_to(lane, thread.shape)
        case "warpid":
            out = thread // 32
        case "nwarpid":
            out = np.full_like(thread, 64)
        case "smid":
            out = per_block(wave.run.blocks_done + np.arange(wave.blocks)) % wave.gpu.sms
        case "nsmid":
            out = np.full_like(thread, wave.gpu.sms)
        case "gridid":
            out = np.ones_like(thread)
        case "lanemask_eq":
            out = np.broadcast_to(1 << lane, thread.shape)
        case "lanemask_lt":
            out = np.broadcast_to((1 << lane) - 1, thread.shape)
        case "lanemask_le":
            out = np.broadcast_to((2 << lane) - 1, thread.shape)
        case "lanemask_gt":
            out = np.broadcast_to(0xFFFFFFFF & ~((2 << lane) - 1), thread.shape)
        case "lanemask_ge":
            out = np.broadcast_to(0xFFFFFFFF & ~((1 << lane) - 1), thread.shape)
        case "dynamic_smem_size":
            out = np.full_like(thread, launch.dynamic_shared)
        case "total_smem_size":
            out = np.full_like(thread, wave.run.shared_bytes)
        case "aggr_smem_size":
            out = np.full_like(thread, wave.run.shared_bytes)
        case "reserved_smem_offset_begin":
            out = np.zeros_like(thread)
        case "reserved_smem_offset_end":
            out = np.full_like(thread, 1024)
        case _ if stem.startswith("envreg"):
            out = np.zeros_like(thread)
        case _:
            raise ValueError(f"the special register {name} is not known to the simulator")
    return np.ascontiguousarray(out.astype(dtype))

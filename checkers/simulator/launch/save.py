"""Keeps a launch with the contents of its tensors in a file, to be simulated again without the DSL.

``python -m checkers.simulator.launch.save SCRIPT.py [ARGS]`` writes launch0.pickle, launch1.pickle...
into the current folder. Addresses differ between processes: loading puts the tensors at new ones and
corrects them in parameters, TMA descriptors included.
"""

from __future__ import annotations

import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from checkers.simulator.launch import catching
from checkers.simulator.launch.records import Launch, Tensor
from checkers.simulator.launch.tensors import described

ALIGNMENT = 512  # of what torch allocates on a GPU, bytes


def save(launch: Launch, path: Path) -> None:
    """Writes the launch, with what its tensors hold now."""
    with torch._C.DisableTorchFunction():
        contents = [_bytes_of(tensor) for tensor in launch.tensors]
    fields: dict[str, Any] = vars(launch) | {
        "tensors": [vars(tensor) | {"owner": None} for tensor in launch.tensors]
    }
    path.write_bytes(pickle.dumps((fields, contents)))


def load(path: Path) -> Launch:
    """The launch in a file that ``save`` wrote, its tensors in new memory."""
    fields, contents = pickle.loads(path.read_bytes())
    moved: list[tuple[Tensor, int]] = []
    for was, data in zip(fields["tensors"], contents, strict=True):
        tensor = _placed(Tensor(**was), data)
        moved.append((tensor, tensor.address - was["address"]))
    fields["tensors"] = [tensor for tensor, _ in moved]
    fields["parameters"] = [_corrected(data, moved) for data in fields["parameters"]]
    return Launch(**fields)


def _bytes_of(tensor: Tensor) -> bytes:
    flat = (tensor.nbytes // tensor.itemsize,)
    owner = torch.Tensor.as_subclass(tensor.owner.detach(), torch.Tensor)
    return owner.as_strided(flat, (1,)).view(torch.uint8).numpy().tobytes() if flat[0] else b""


def _placed(tensor: Tensor, data: bytes) -> Tensor:
    """The tensor on memory of its own, as far from an alignment boundary as it was."""
    memory = torch.zeros(len(data) + 2 * ALIGNMENT, dtype=torch.uint8)
    start = -memory.data_ptr() % ALIGNMENT + tensor.address % ALIGNMENT
    memory[start : start + len(data)] = torch.from_numpy(np.frombuffer(data, np.uint8).copy())
    dtype = getattr(torch, tensor.dtype)
    flat = memory[start : start + len(data)].view(dtype)
    view = flat.as_strided(tensor.shape, tensor.strides)
    (placed,) = described(tensor.name, view)
    return placed


def _corrected(data: bytes, moved: list[tuple[Tensor, int]]) -> bytes:
    words = np.frombuffer(data, "<u8", count=len(data) // 8).copy()
    for index, word in enumerate(words.tolist()):
        for tensor, by in moved:
            if tensor.address - by <= word <= tensor.end - by and tensor.nbytes:
                words[index] = word + by
                break
    return words.tobytes() + data[8 * len(words) :]


def main() -> None:
    """Saves the launches of a script."""
    script, *sys.argv = sys.argv[1:2] + sys.argv[1:]
    count = 0

    def keep(launch: Launch) -> None:
        nonlocal count
        path = Path(f"launch{count}.pickle")
        save(launch, path)
        print(f"{path}: {launch.kernel}, grid {launch.grid}")
        count += 1

    with catching(caught=keep):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

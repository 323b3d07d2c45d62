"""A recording on disk: outputs.xz holds all output bytes one after the other, recording.json says
whose they are, what was run, and on which machine."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

INDEX, OUTPUTS = "recording.json", "outputs.xz"


@dataclass
class Recording:
    """machine: GPU, driver, CUDA, date.  cases: family to name to {"digest", "bytes" of each
    kept buffer}.  outputs: (family, name) to the kept buffers' bytes."""

    machine: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    outputs: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)

    def add(self, family: str, name: str, digest: str, outputs: list[bytes], compact: bool) -> None:
        entry: dict[str, Any] = {"digest": digest, "bytes": [len(out) for out in outputs]}
        if compact:
            entry["compact"] = True
        self.cases.setdefault(family, {})[name] = entry
        self.outputs[family, name] = outputs

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        packed = bytearray()
        for family, cases in self.cases.items():
            for name, entry in cases.items():
                for out in self.outputs[family, name]:
                    packed += differences(out) if entry.get("compact") else out
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
        (folder / OUTPUTS).write_bytes(lzma.compress(bytes(packed), filters=filters))
        lines = [f'"machine": {json.dumps(self.machine)}']
        for family, cases in self.cases.items():
            rows = ",\n".join(f"  {json.dumps(n)}: {json.dumps(e)}" for n, e in cases.items())
            lines.append(f"{json.dumps(family)}: {{\n{rows}\n }}")
        (folder / INDEX).write_text("{\n " + ",\n ".join(lines) + "\n}\n")

    @classmethod
    def load(cls, folder: Path) -> Recording:
        index = json.loads((folder / INDEX).read_text())
        packed = lzma.decompress((folder / OUTPUTS).read_bytes())
        recording = cls(machine=index.pop("machine"), cases=index)
        start = 0
        for family, cases in index.items():
            for name, entry in cases.items():
                outputs = []
                for size in entry["bytes"]:
                    raw = packed[start : start + size]
                    outputs.append(sums(raw) if entry.get("compact") else raw)
                    start += size
                recording.outputs[family, name] = outputs
        if start != len(packed):
            raise ValueError(f"{folder}: {OUTPUTS} has {len(packed)} bytes, {INDEX} names {start}")
        return recording


def differences(out: bytes) -> bytes:
    """32-bit words as second differences, the bytes of equal weight together: small for samples
    of a smooth function."""
    words = np.frombuffer(out, np.uint32)
    twice = np.diff(np.diff(words, prepend=np.uint32(0)), prepend=np.uint32(0))
    return twice.view(np.uint8).reshape(-1, 4).T.tobytes()


def sums(packed: bytes) -> bytes:
    """Undoes ``differences``."""
    planes = np.frombuffer(packed, np.uint8).reshape(4, -1)
    twice = np.ascontiguousarray(planes.T).view(np.uint32)[:, 0]
    return np.cumsum(np.cumsum(twice, dtype=np.uint32), dtype=np.uint32).tobytes()

"""Runs the course's reference kernels on this GPU and keeps what they gave, for the simulator's tests.

    python3 tests/gpu/record_course_outputs.py --out DIR

Writes outputs.npz (raw bytes, by the call's name) and recording.json (GPU, versions, date) to DIR.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from checkers.machine import describe_machine  # noqa: E402
from tests.simulator.course_outputs import calls  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    outputs = {}
    for call in calls():
        result = call.run(*[tensor.cuda() for tensor in call.make_inputs()]).cpu().contiguous()
        outputs[call.name] = np.frombuffer(result.view(-1).view(torch.uint8).numpy(), np.uint8)
        print(f"{call.name}: {tuple(result.shape)}", flush=True)
    np.savez_compressed(out / "outputs.npz", **outputs)
    (out / "recording.json").write_text(json.dumps(describe_machine(), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Random products and sums: the simulator fuses as many as ptxas does.

ptxas and cuobjdump come with Triton.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import triton

from checkers.simulator.machine.contraction import contracted
from checkers.simulator.ptx.parser import parse

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
INPUTS = [f"%i{k}" for k in range(8)]
SASS = {"mul": "FMUL", "add": "FADD", "sub": "FADD", "fma": "FFMA", "fms": "FFMA", "fnma": "FFMA"}


def random_ptx(seed: int) -> str:
    """A kernel with 3 to 12 multiplications, additions and subtractions of inputs and of one another,
    no two the same; what no other uses is stored."""
    draw = random.Random(seed)
    values, seen, unused, lines = list(INPUTS), set(), [], []
    for register in (f"%v{k}" for k in range(draw.randint(3, 12))):
        while True:
            opcode = draw.choice(["mul", "mul", "add", "add", "sub"])
            a, b = draw.sample(values, 2)
            key = (opcode == "mul", *sorted((a, b)))
            if key not in seen:
                break
        seen.add(key)
        lines.append(f"{opcode}.f32 {register}, {a}, {b};")
        unused = [each for each in unused if each not in (a, b)] + [register]
        values.append(register)
    loads = [f"ld.volatile.global.b32 {r}, [%p + {4 * k}];" for k, r in enumerate(INPUTS)]
    stores = [f"st.volatile.global.b32 [%p + {64 + 4 * k}], {r};" for k, r in enumerate(unused)]
    return (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        ".reg .b32 %i<9>, %v<13>; .reg .b64 %p; ld.param.u64 %p, [out];\n"
        + "\n".join(loads + lines + stores)
        + "\nret;\n}\n"
    )


def assembled(ptx: str, folder: Path) -> Counter[str]:
    """How many FMUL, FADD and FFMA ptxas makes of it."""
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    source.write_text(ptx)
    subprocess.run([TOOLS / "ptxas", "-arch=sm_90", source, "-o", cubin], check=True)
    shown = subprocess.run(
        [TOOLS / "cuobjdump", "-sass", cubin], check=True, capture_output=True, text=True
    )
    return Counter(re.findall(r"\b(FMUL|FADD|FFMA)\b", shown.stdout))


@pytest.mark.parametrize("seed", range(6))
def test_random_sums_are_fused_as_ptxas_does(seed: int, tmp_path: Path) -> None:
    ptx = random_ptx(seed)
    function = contracted(parse(ptx).entry("k"))
    ours = Counter(SASS[i.opcode] for i in function.instructions if i.opcode in SASS)
    assert ours == assembled(ptx, tmp_path)
    assert ours.total() > 0

"""The PTX that the course's kernels become, and which instructions it has.

    python -m tests.simulator.corpus FOLDER [ch02 ch04.vector_copy ...]

compiles the reference solutions for every target, without a GPU, writes one .ptx file for each
kernel to FOLDER and prints how often each instruction occurs, with its modifiers. Given a folder
that holds .ptx files and no chapters to compile ("-"), it only counts.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from checkers import answers
from checkers.course import Course
from checkers.exercise import Exercise, Rung
from checkers.grading import compile as compiling
from checkers.grading.artifacts import CompiledKernel
from checkers.grading.capture import TARGETS
from checkers.simulator.ptx.parser import parse

ROOT = Path(__file__).parent.parent.parent


def compiled(exercise: Exercise) -> list[CompiledKernel]:
    """The kernels of an exercise's reference solution, for every target."""
    answer = answers.from_solution(Course(ROOT), exercise.id)
    kernels: list[CompiledKernel] = []
    with tempfile.TemporaryDirectory() as scratch:
        job = {
            "root": str(ROOT),
            "exercise": exercise.id,
            "scratch": scratch,
            "setup": answer.setup,
            "source": answer.source,
            "seed": 0,
        }
        for tag, capturing in compiling.captures(exercise, job, kernels):
            with capturing:
                compiling.call_cases(exercise, job, tag)
    return kernels


def texts(names: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """(name, PTX text) of every distinct compilation of the exercises that ``names`` (chapters
    and exercise ids; all without any) stand for."""
    for exercise in Course(ROOT).select(names):
        if exercise.rung is Rung.TORCH or not exercise.cases:
            continue
        seen: set[str] = set()
        for kernel in compiled(exercise):
            if kernel.ptx not in seen:
                seen.add(kernel.ptx)
                yield f"{exercise.id}_{kernel.target}_{len(seen)}", kernel.ptx


def matrix_products() -> Iterator[tuple[str, str]]:
    """(name, PTX text) of the products of triton_kernels.py, for every target."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.simulator import triton_kernels

    signature = {name: "*fp16" for name in "abc"} | {name: "i32" for name in "MNK"}
    sizes = {"BM": 128, "BN": 128, "BK": 64}
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(6)}
    for kernel in (triton_kernels.matmul, triton_kernels.matmul_tma):
        for target in TARGETS:
            source = ASTSource(
                fn=kernel,
                signature=signature | dict.fromkeys(sizes, "constexpr"),
                constexprs=sizes,
                attrs=aligned,
            )
            gpu = GPUTarget("cuda", int(target[3:-1]), 32)
            done = triton.compile(source, target=gpu, options={"num_warps": 4, "num_stages": 3})
            yield f"{kernel.__name__}_{target}", done.asm["ptx"]


def instructions(text: str) -> Counter[str]:
    """How often each opcode with its modifiers stands in a PTX text."""
    functions = parse(text).functions.values()
    return Counter(each.name for function in functions for each in function.instructions)


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if names != ["-"]:
        for name, text in texts(names):
            (folder / f"{name}.ptx").write_text(text, encoding="utf-8")
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.ptx")):
        counts += instructions(path.read_text(encoding="utf-8"))
    for name, count in sorted(counts.items()):
        print(f"{count:7d} {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""What Triton and CuTe DSL write for both targets is read in full."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checkers.simulator.machine.kernel import load
from checkers.simulator.ptx.parser import parse
from tests.simulator import corpus


@cache
def real_texts() -> dict[str, str]:
    """PTX of Triton and CuTe DSL kernels of the course, and of two that multiply matrices."""
    return dict(corpus.texts(["ch02.row_softmax", "ch04.fused_elementwise"])) | dict(
        corpus.matrix_products()
    )


def written_instructions(text: str) -> int:
    """How many there are in a text of one kernel, counted without a parser."""
    lines = [line.partition("//")[0].strip() for line in text.partition(".section")[0].splitlines()]
    lines = [line for line in lines if not line.startswith((".loc", ".file"))]
    statements = " ".join(lines[lines.index("{") :]).replace("{ .reg", ".reg").split(";")
    labels = r"^[\s}{]*([\w$]+:\s*)*[\s}{]*"
    begun = (re.sub(labels, "", statement) for statement in statements)
    return sum(bool(statement) and not statement.startswith(".") for statement in begun)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_the_tool_chains_write_is_read_in_full(target: str) -> None:
    texts = {name: text for name, text in real_texts().items() if target in name}
    assert len(texts) == 4
    for name, text in texts.items():
        module = parse(text)
        assert module.target == target
        (kernel,) = (each for each in module.functions.values() if each.entry)
        assert len(kernel.instructions) == written_instructions(text), name
        assert all(each.places for each in kernel.instructions), name
        assert kernel.threads_exact


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_instruction_of_it_can_be_run(target: str) -> None:
    for name, text in real_texts().items():
        if target in name:
            (kernel,) = (each for each in parse(text).functions.values() if each.entry)
            loaded = load(text, kernel.name)
            assert len(loaded.steps) == len(kernel.instructions)


def test_the_matrix_products_use_the_tensor_cores() -> None:
    opcodes = {
        name: {each.name for f in parse(text).functions.values() for each in f.instructions}
        for name, text in real_texts().items()
    }
    hopper = {name for names in opcodes.values() for name in names if name.startswith("wgmma.mma")}
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16" in hopper
    blackwell = {
        name for names in opcodes.values() for name in names if name.startswith("tcgen05.mma")
    }
    assert any("kind::f16" in name for name in blackwell)

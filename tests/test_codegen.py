"""The compile and codegen stages on kernels that ptxas really assembled; no GPU is needed."""

from __future__ import annotations

import ast
import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from checkers.exercise import Case, Diagnosis, Exercise, GraphRule, Rule, Rung, Verdict
from checkers.grading import resources, sass
from checkers.grading.artifacts import CompiledKernel
from checkers.grading.codegen import check_compiled, check_rules, function_of

SOURCE = "import torch\n\ndef copy_kernel(x, y):\n    value = x[0]\n    y[0] = value\n"

HEAD = """\
.version 8.7
.target {target}
.address_size 64
.visible .entry {name}(.param .u64 a, .param .u64 b)
.reqntid {threads}, 1, 1
.maxnreg {most}
{{
	.reg .b64 %rd<3>;
	.reg .b32 %r<600>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	.loc 1 4 12
"""
TAIL = '\tret;\n}}\n\t.file 1 "/tmp/answer.py"\n'
WIDE = (
    "\tld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd1];\n\t.loc 1 5 5\n"
    "\tst.global.v4.b32 [%rd2], {{%r1, %r2, %r3, %r4}};\n"
)
NARROW = "\tld.global.b32 %r1, [%rd1];\n\t.loc 1 5 5\n\tst.global.b32 [%rd2], %r1;\n"


@cache
def assembled(ptx: str, target: str) -> bytes:
    """The cubin of a PTX text, by the ptxas that comes with Triton."""
    name = "ptxas-blackwell" if target == "sm_100a" else "ptxas"
    done = subprocess.run(
        [sass.find_tool(name), f"-arch={target}", "-o", "/dev/stdout", "/dev/stdin"],
        input=ptx.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def kernel(
    body: str = WIDE,
    target: str = "sm_90a",
    name: str = "copy_kernel",
    threads: int = 128,
    most: int = 255,
    **launch: object,
) -> CompiledKernel:
    text = (HEAD + body + TAIL).format(target=target, name=name, threads=threads, most=most)
    cubin = assembled(text, target)
    return CompiledKernel(name=name, target=target, ptx=text, cubin=cubin, **launch)  # type: ignore[arg-type]


def exercise(*rules: Rule | GraphRule, **fields: object) -> Exercise:
    standard: dict = {
        "id": "ch04.copy",
        "title": "Copy",
        "points": 1,
        "minutes": 1,
        "rung": Rung.CUTE,
        "function": "copy",
        "section": "Copies",
        "cases": (Case("one"),),
        "inputs": lambda case, generator: (),
        "oracle": lambda: None,
        "hints": ("a", "b", "c"),
        "mistakes": (),
        "rules": rules,
    }
    return Exercise(**(standard | fields))


# --- compile -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_kernel_within_the_limits_passes_and_is_measured(target: str) -> None:
    stage = check_compiled(exercise(), [kernel(target=target, shared_bytes=4096)])
    assert (stage.name, stage.verdict) == ("compile", Verdict.PASS)
    assert 4 < stage.measures[f"registers_{target}"] < 32
    assert stage.measures[f"spills_{target}"] == 0
    assert stage.measures[f"shared_bytes_{target}"] == 4096


def test_too_many_threads_are_named() -> None:
    stage = check_compiled(exercise(), [kernel(threads=2048)])
    assert stage.verdict is Verdict.FAIL
    assert stage.reason.startswith(
        "kernel copy_kernel: 2048 threads a block; a block can have 1024 (sm_90a, Hopper"
    )


def test_the_launch_counts_before_the_ptx() -> None:
    stage = check_compiled(exercise(), [kernel(threads=1024, grid=(6, 1, 1), cluster=(4, 1, 1))])
    assert "6 blocks in x, which clusters of 4 don't divide" in stage.reason


def test_too_much_shared_memory_is_named() -> None:
    too_much, just_right = 512 * 1024, 227 * 1024
    stage = check_compiled(exercise(), [kernel(shared_bytes=too_much)])
    assert "512.0 KiB of shared memory a block; a block can have 227 KiB" in stage.reason
    assert check_compiled(exercise(), [kernel(shared_bytes=just_right)]).verdict is Verdict.PASS


def spilling() -> str:
    """200 values loaded before any is stored, for a kernel that may use 32 registers."""
    loads = [f"\tld.volatile.global.b32 %r{i}, [%rd1+{4 * i}];\n" for i in range(1, 201)]
    stores = [f"\tst.volatile.global.b32 [%rd2+{4 * i}], %r{i};\n" for i in range(1, 201)]
    return "".join(loads + stores)


def test_spills_are_counted_and_refused() -> None:
    stage = check_compiled(exercise(), [kernel(spilling(), most=32)])
    assert stage.verdict is Verdict.FAIL
    assert "values spill from registers to local memory: " in stage.reason
    assert stage.measures["spills_sm_90a"] > 100


def test_an_exercise_may_ask_for_fewer_registers() -> None:
    hungry = kernel(spilling())
    assert check_compiled(exercise(), [hungry]).verdict is Verdict.PASS
    stage = check_compiled(exercise(max_registers=64), [hungry])
    assert "at most 64 are allowed here" in stage.reason


def test_registers_of_all_threads_must_fit() -> None:
    usage = resources.Usage(200, 0, 0, 0, 0, threads=512, cluster=1)
    problems = resources.check_resources(kernel(), usage)
    assert [problem.kind for problem in problems] == ["registers"]
    assert "200 registers a thread times 512 threads" in problems[0].says


def test_clusters_have_a_largest_size() -> None:
    usage = resources.Usage(20, 0, 0, 0, 0, threads=128, cluster=32)
    assert [p.kind for p in resources.check_resources(kernel(), usage)] == ["cluster"]


def test_a_broken_limit_is_diagnosed_by_its_kind() -> None:
    diagnosis = Diagnosis("Half the stages do.", "Stages", error="check:shared_memory")
    wrong = exercise(diagnoses=(diagnosis,))
    finding = check_compiled(wrong, [kernel(shared_bytes=300_000)]).finding
    assert finding is not None
    assert (finding.probable, finding.reread) == ("Half the stages do.", "Stages")


def test_a_cubin_that_no_tool_reads_is_a_skip_with_its_reason() -> None:
    broken = CompiledKernel("k", "sm_90a", kernel(name="k").ptx, b"junk")
    stage = check_compiled(exercise(), [broken])
    assert stage.verdict is Verdict.SKIP
    assert "cuobjdump can't read this cubin" in stage.reason


def test_ptx_that_can_not_be_read_is_a_skip_with_its_reason() -> None:
    broken = CompiledKernel("k", "sm_90a", kernel(name="k").ptx.replace("ret;", "ret 1 2;"))
    for stage in (check_compiled(exercise(), [broken]), check_rules(exercise(ANY_WIDE), [broken])):
        assert stage.verdict is Verdict.SKIP
        assert "found '2', wanted ';'" in stage.reason


def test_the_table_of_resources_is_read_by_kernel() -> None:
    text = (
        "Resource usage:\n Common:\n  GLOBAL:0\n Function a:\n  REG:18 STACK:8 SHARED:1024 LOCAL:0 "
        "CONSTANT[0]:560 TEXTURE:0\n Function b:\n  REG:255 STACK:0 SHARED:0 LOCAL:16\n"
    )
    table = resources.parse_resource_usage(text)
    assert (table["a"]["REG"], table["a"]["STACK"], table["b"]["LOCAL"]) == (18, 8, 16)


# --- codegen -----------------------------------------------------------------------------------

WIDE_LOADS = Rule(
    "wide_loads", "ld.global", "every load should bring 128 bits", min_bits=128, every=True
)
ANY_WIDE = Rule("wide", "ld.global", "wide loads are wanted", min_bits=128, at_least=1)
NO_ATOMICS = Rule("atomics", "atom", "no atomics", at_most=0)


def both(body: str) -> list[CompiledKernel]:
    return [kernel(body, target=target) for target in ("sm_90a", "sm_100a")]


def test_code_that_shows_the_technique_passes_with_counts() -> None:
    stage = check_rules(exercise(WIDE_LOADS, ANY_WIDE, NO_ATOMICS), both(WIDE))
    assert (stage.name, stage.verdict) == ("codegen", Verdict.PASS)
    assert stage.measures["wide_sm_90a"] == stage.measures["wide_sm_100a"] == 1
    assert stage.measures["atomics_sm_90a"] == 0


def test_a_missing_technique_shows_the_instruction_and_the_line() -> None:
    tree = ast.parse(SOURCE)
    stage = check_rules(exercise(ANY_WIDE), both(NARROW), tree=tree, source=SOURCE, first_line=3)
    assert stage.reason == "wide loads are wanted (sm_90a: 0 found, at least 1 wanted)"
    assert stage.finding is not None
    assert stage.finding.picture.splitlines() == [
        "   2 |     value = x[0]",
        "became",
        "ld.global.b32 %r1, [%rd1]    (32 bits a thread)",
    ]
    assert stage.finding.reread == "Copies"


def test_every_means_all_of_them() -> None:
    stage = check_rules(exercise(WIDE_LOADS), both(WIDE + NARROW))
    assert stage.reason == "every load should bring 128 bits (sm_90a: 1 of 2 are otherwise)"


def test_what_is_forbidden_is_found() -> None:
    atomic = "\tatom.global.add.u32 %r1, [%rd1], 1;\n" * 2
    stage = check_rules(exercise(NO_ATOMICS), both(WIDE + atomic))
    assert stage.reason == "no atomics (sm_90a: 2 found, at most 0 wanted)"
    assert stage.finding is not None
    assert stage.finding.picture.endswith("in all: 2 x atom.global.add.u32")


def test_modifiers_are_parts_of_the_opcode() -> None:
    rule = Rule("v4", "ld.global", "v4 wanted", modifiers=("v4",), at_least=1)
    assert check_rules(exercise(rule), both(WIDE)).verdict is Verdict.PASS
    assert check_rules(exercise(rule), both(NARROW)).verdict is Verdict.FAIL


def test_sass_can_be_asked_as_well() -> None:
    rule = Rule("wide", "LDG", "wide", min_bits=128, at_least=1, language="sass")
    assert check_rules(exercise(rule), both(WIDE)).verdict is Verdict.PASS
    stage = check_rules(exercise(rule), both(NARROW))
    assert stage.finding is not None and "LDG.E" in stage.finding.picture


def test_a_target_that_a_rule_leaves_out_is_not_asked() -> None:
    rule = Rule("wide", "ld.global", "wide", min_bits=128, at_least=1, targets=("sm_100a",))
    kernels = [kernel(NARROW, "sm_90a"), kernel(WIDE, "sm_100a")]
    assert check_rules(exercise(rule), kernels).verdict is Verdict.PASS


def test_one_variant_of_a_kernel_must_show_it_and_none_what_is_forbidden() -> None:
    """A ragged row can't be loaded 128 bits at a time: that it is compiled too is no mistake."""
    variants = [kernel(NARROW), kernel(WIDE)]
    assert check_rules(exercise(ANY_WIDE, WIDE_LOADS), variants).verdict is Verdict.PASS
    atomic = kernel(WIDE + "\tatom.global.add.u32 %r1, [%rd1], 1;\n")
    assert check_rules(exercise(NO_ATOMICS), [kernel(WIDE), atomic]).verdict is Verdict.FAIL


def test_a_rule_for_one_kernel_leaves_the_others_alone() -> None:
    kernels = [kernel(WIDE), kernel(NARROW, name="combine_kernel")]
    of_one = Rule("w", "ld.global", "wide", min_bits=128, every=True, kernel="copy")
    assert check_rules(exercise(of_one), kernels).verdict is Verdict.PASS
    assert check_rules(exercise(WIDE_LOADS), kernels).verdict is Verdict.FAIL
    missing = Rule("w", "ld.global", "wide", at_least=1, kernel="softmax")
    assert "no kernel called softmax" in check_rules(exercise(missing), kernels).reason


def test_a_broken_rule_is_diagnosed_by_its_name() -> None:
    diagnosis = Diagnosis("Use a 128-bit copy atom.", "Atoms", error="rule:wide_loads")
    stage = check_rules(exercise(WIDE_LOADS, diagnoses=(diagnosis,)), both(NARROW))
    assert stage.finding is not None
    assert stage.finding.probable == "Use a 128-bit copy atom."


def test_graph_rules_bound_a_measure() -> None:
    rule = GraphRule("fused", "kernels", "one kernel is enough", at_most=1)
    assert check_rules(exercise(rule), measures={"kernels": 1}).verdict is Verdict.PASS
    stage = check_rules(exercise(rule), measures={"kernels": 3})
    assert stage.reason == "one kernel is enough (kernels: 3, wanted at most 1)"
    assert stage.measures == {"kernels": 3}
    assert "nothing was compiled" in check_rules(exercise(rule), measures={}).reason


def test_the_function_behind_a_mangled_name() -> None:
    tree = ast.parse("def copy(): ...\ndef copy_tail(): ...\n")
    assert function_of("kernel_cutlass_copy_tail_tensorptrf32_0", tree) == "copy_tail"
    assert function_of("other", tree) == function_of("other", None) == "other"


def test_a_kernel_survives_the_pipe_between_processes() -> None:
    sent = kernel(shared_bytes=64, cluster=(2, 1, 1), grid=(8, 1, 1), metadata={"num_warps": 4})
    assert CompiledKernel.from_json(json.loads(json.dumps(sent.to_json()))) == sent


# --- as the tool chains really compile ---------------------------------------------------------


def test_triton_kernels_are_measured_and_read(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    import importlib.util

    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    path = tmp_path / "answer.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\n"
        "def double(x_ptr, y_ptr):\n    i = tl.arange(0, 1024)\n"
        "    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))\n"
    )
    spec = importlib.util.spec_from_file_location("answer_of_codegen", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32"}
    source = ASTSource(fn=module.double, signature=signature, constexprs={}, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    caught = CompiledKernel("double", "sm_90a", compiled.asm["ptx"], compiled.asm["cubin"], 128)
    assert check_compiled(exercise(), [caught]).verdict is Verdict.PASS
    stage = check_rules(exercise(WIDE_LOADS, ANY_WIDE), [caught], source=path.read_text())
    assert (stage.verdict, stage.measures["wide_sm_90a"]) == (Verdict.PASS, 2)
    none = Rule("none", "ld.global", "no loads", at_most=0)
    finding = check_rules(exercise(none), [caught], source=path.read_text()).finding
    assert finding is not None
    assert finding.picture.startswith(
        "   7 |     tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))\nbecame\n"
    )


def test_a_rule_about_order_names_what_comes_too_late() -> None:
    rule = Rule("loads_first", "ld.global", "all loads first", before="st.global")
    load, store = WIDE.splitlines(keepends=True)[0], WIDE.splitlines(keepends=True)[2]
    assert check_rules(exercise(rule), both(load + load + store + store)).verdict is Verdict.PASS
    late = check_rules(exercise(rule), both(load + store + load + store))
    assert late.verdict is Verdict.FAIL
    assert "1 after the first st.global" in late.reason

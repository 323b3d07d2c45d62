"""The compile and the codegen stage: limits, and what the PTX and SASS must show."""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers.exercise import (
    Evidence,
    Exercise,
    Finding,
    GraphRule,
    Rule,
    Stage,
    Verdict,
)
from checkers.grading import resources, sass
from checkers.grading.artifacts import CompiledKernel
from checkers.grading.assembly import Instruction, ptx_kernel
from checkers.grading.diagnose import diagnose
from checkers.grading.source import line_picture
from checkers.simulator.ptx.parser import PtxSyntaxError

Measures = dict[str, int | float]


# --- the compile stage -------------------------------------------------------------------------


def check_compiled(
    exercise: Exercise, kernels: Sequence[CompiledKernel], tree: ast.Module | None = None
) -> Stage:
    """The compile stage, once everything has compiled: registers, spills, shared memory, threads
    and cluster within the limits of each target (the compiler checks none of these).

    Measures, the largest of each over the kernels: registers_sm_90a, spills_sm_90a,
    shared_bytes_sm_90a, and the same for every other target. Evidence.error of a broken limit is
    "check:registers", "check:spills" and so on, see resources.Problem.
    """
    start = time.perf_counter()
    measures: Measures = {}
    problems: list[tuple[CompiledKernel, resources.Problem]] = []
    try:
        for kernel in kernels:
            usage = resources.measure(kernel)
            for name, value in (
                ("registers", usage.registers),
                ("spills", usage.spill_loads + usage.spill_stores),
                ("shared_bytes", usage.shared_bytes),
            ):
                key = f"{name}_{kernel.target}"
                measures[key] = max(measures.get(key, 0), value)
            found = resources.check_resources(kernel, usage, exercise.max_registers)
            problems += [(kernel, problem) for problem in found]
    except (sass.ToolError, PtxSyntaxError) as error:
        return _stage("compile", Verdict.SKIP, start, measures, reason=str(error))

    if problems:
        kernel, first = problems[0]
        others = [problem.says for _, problem in problems[1:] if problem.kind != first.kind]
        finding = Finding(
            f"kernel {function_of(kernel.name, tree)}: {first.says}", picture="\n".join(others)
        )
        return _failed("compile", exercise, f"check:{first.kind}", finding, tree, start, measures)
    return _stage("compile", Verdict.PASS, start, measures)


# --- the codegen stage -------------------------------------------------------------------------


def check_rules(
    exercise: Exercise,
    kernels: Sequence[CompiledKernel] = (),
    measures: Mapping[str, int | float] | None = None,
    tree: ast.Module | None = None,
    source: str = "",
    first_line: int = 1,
) -> Stage:
    """The codegen stage: every Rule against every kernel and target, every GraphRule against
    ``measures``. The first broken rule gives the Finding, diagnosed with error "rule:NAME".

    A kernel may be there several times, compiled for different arguments. What a rule asks for
    must be in at least one variant of it (a row of 129 elements can't be loaded 128 bits at a
    time); what it forbids altogether (at_most 0) must be in none.

    source: the learner's text, to show the line an instruction came from, with ``first_line``
    as in source.check_source. Measures: for each rule and target the number of matching
    instructions ("vector_loads_sm_90a"), and the graph's.
    """
    start = time.perf_counter()
    shown: Measures = dict(measures or {})
    broken: tuple[str, Finding] | None = None
    try:
        for rule in exercise.rules:
            if isinstance(rule, GraphRule):
                finding = _check_graph_rule(rule, shown)
            else:
                variants = [_Variant.read(kernel, rule.language, tree) for kernel in kernels]
                finding = _check_rule(rule, variants, shown, source, first_line)
            if finding and broken is None:
                broken = (f"rule:{rule.name}", finding)
    except (sass.ToolError, PtxSyntaxError) as error:
        return _stage("codegen", Verdict.SKIP, start, shown, reason=str(error))
    if broken is None:
        return _stage("codegen", Verdict.PASS, start, shown)
    return _failed("codegen", exercise, *broken, tree, start, shown)


def _check_graph_rule(rule: GraphRule, measures: Measures) -> Finding | None:
    value = measures.get(rule.measure)
    if value is None:
        return Finding(f"{rule.says} (nothing was compiled by torch.compile: no {rule.measure})")
    too_few = rule.at_least is not None and value < rule.at_least
    too_many = rule.at_most is not None and value > rule.at_most
    if not too_few and not too_many:
        return None
    bound = f"at least {rule.at_least}" if too_few else f"at most {rule.at_most}"
    return Finding(f"{rule.says.rstrip('.')} ({rule.measure}: {value}, wanted {bound})")


@dataclass(frozen=True)
class _Variant:
    """One compilation of a kernel, in the language of a rule."""

    kernel: CompiledKernel
    function: str
    instructions: tuple[Instruction, ...]

    @classmethod
    def read(cls, kernel: CompiledKernel, language: str, tree: ast.Module | None) -> _Variant:
        parsed = ptx_kernel(kernel.ptx, kernel.name)
        instructions = parsed.instructions
        if language == "sass":
            instructions = sass.disassemble(kernel.cubin)[parsed.name]
        return cls(kernel, function_of(parsed.name, tree), instructions)

    def matching(self, rule: Rule) -> list[Instruction]:
        return [each for each in self.instructions if matches(rule, each)]

    def strays(self, rule: Rule) -> list[Instruction]:
        """Those of the rule's opcode that lack its modifiers or its width."""
        named = [each for each in self.instructions if each.is_a(rule.opcode)]
        return [each for each in named if not matches(rule, each)]

    def late(self, rule: Rule) -> list[Instruction]:
        """Those that stand after the first instruction that they must all precede."""
        opcodes = enumerate(self.instructions)
        first = next((at for at, each in opcodes if each.is_a(rule.before)), None)
        later = () if first is None else self.instructions[first:]
        return [each for each in later if matches(rule, each)]


def matches(rule: Rule, instruction: Instruction) -> bool:
    """Whether an instruction has the rule's opcode and modifiers and moves enough bits."""
    return (
        instruction.is_a(rule.opcode)
        and set(rule.modifiers) <= set(instruction.parts)
        and instruction.bits >= rule.min_bits
    )


def function_of(kernel_name: str, tree: ast.Module | None) -> str:
    """The learner's function behind a kernel: CuTe DSL adds the types of the arguments to the
    name. The name itself without a source to look in."""
    nodes = ast.walk(tree) if tree is not None else ()
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return max((name for name in functions if name in kernel_name), key=len, default=kernel_name)


def _check_rule(
    rule: Rule, variants: Sequence[_Variant], measures: Measures, source: str, first_line: int
) -> Finding | None:
    named = [each for each in variants if rule.kernel in each.kernel.name]
    if not named:
        return Finding(f"{rule.says} (no kernel called {rule.kernel or 'anything'} was compiled)")
    broken = None
    for target in rule.targets:
        functions: dict[str, list[_Variant]] = {}
        for each in named:
            if each.kernel.target == target:
                functions.setdefault(each.function, []).append(each)
        groups = list(functions.values())
        measures[f"{rule.name}_{target}"] = _count(rule, groups, max)
        detail, culprits = _breach(rule, groups)
        if detail and groups and broken is None:
            picture = _instruction_picture(culprits, source, first_line)
            broken = Finding(f"{rule.says.rstrip('.')} ({target}: {detail})", picture=picture)
    return broken


def _count(
    rule: Rule, groups: Sequence[Sequence[_Variant]], choose: Callable[[Iterable[int]], int]
) -> int:
    """Matching instructions in all functions, each in the variant that ``choose`` picks."""
    return sum(choose(len(each.matching(rule)) for each in group) for group in groups)


def _breach(rule: Rule, groups: Sequence[Sequence[_Variant]]) -> tuple[str, list[Instruction]]:
    """What breaks a rule, in a few words, and the instructions to blame; ("", []) if it holds.

    groups: for each function of the answer, its variants.
    """
    most = _count(rule, groups, max)
    strays = [s for group in groups for s in min((v.strays(rule) for v in group), key=len)]
    if rule.at_most is not None:
        count = most if rule.at_most == 0 else _count(rule, groups, min)
        if count > rule.at_most:
            guilty = [i for group in groups for variant in group for i in variant.matching(rule)]
            return f"{count} found, at most {rule.at_most} wanted", guilty
    if rule.at_least is not None and most < rule.at_least:
        return f"{most} found, at least {rule.at_least} wanted", strays
    if rule.every and strays:
        return f"{len(strays)} of {len(strays) + most} are otherwise", strays
    if rule.before:
        late = [s for group in groups for s in min((v.late(rule) for v in group), key=len)]
        if late:
            return f"{len(late)} after the first {rule.before}", late
    return "", []


def _instruction_picture(culprits: Sequence[Instruction], source: str, first_line: int) -> str:
    """The first instruction to blame, the source line that it came from, and how many there are
    of each kind."""
    if not culprits:
        return ""
    first = culprits[0]
    width = f"    ({first.bits} bits a thread)" if first.bits else ""
    lines = [f"{first}{width}"]
    if source and first.places:
        # The last place is the kernel itself, where library functions were inlined.
        line = line_picture(source, first.places[-1].line, first_line=first_line)
        lines = [line, "became", *lines] if line else lines
    kinds = Counter(each.opcode for each in culprits)
    if len(culprits) > 1:
        lines.append("in all: " + ", ".join(f"{n} x {opcode}" for opcode, n in kinds.items()))
    return "\n".join(lines)


# --- stages ------------------------------------------------------------------------------------


def _stage(
    name: str, verdict: Verdict, start: float, measures: Measures, reason: str = ""
) -> Stage:
    return Stage(name, verdict, reason, time.perf_counter() - start, measures)


def _failed(
    name: str,
    exercise: Exercise,
    error: str,
    finding: Finding,
    tree: ast.Module | None,
    start: float,
    measures: Measures,
) -> Stage:
    evidence = Evidence(stage=name, error=error, tree=tree)
    finding = diagnose(exercise, evidence, finding)
    seconds = time.perf_counter() - start
    return Stage(name, Verdict.FAIL, finding.summary, seconds, measures, finding)

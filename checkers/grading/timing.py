"""Times candidates against a ruler, interleaved, so that the ratio is what is measured.

A GPU's clock, temperature and neighbours change from second to second; the ratio of two kernels
timed in turn hardly does. ``measure`` follows docs/benchmarking.md:

1. every candidate is called, and its answer verified, before a clock runs: compiling isn't timed;
2. the inputs rotate over more than twice the L2, and so do the outputs, so that the memory is timed;
3. warm-up goes on until two rounds agree, or a cap;
4. ruler and candidates take turns, a batch of a few milliseconds each. Kernels under 100 us go in
   CUDA graphs, and every batch is enqueued while the GPU is kept busy: the host is never timed;
5. every stream of the device is waited for, and a secret part of the timed outputs is verified;
6. the clock's functions must still be those that were there before a learner's code was loaded.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from checkers.grading.cuda_device import CudaDevice, Device, NotCapturable
from checkers.grading.rulers import RULERS
from checkers.grading.verify import tensors_of

Verify = Callable[[Any, tuple], str | None]

# Work that outlasts its caller's stream by more than this isn't on that stream.
TAIL_SECONDS = 50e-6
TAIL_SHARE = 0.1
# The longest that the GPU is kept busy while the host enqueues a batch.
MAX_QUEUE_SECONDS = 0.05


class ClockPatched(Exception):
    """A function that the clock needs was replaced; the text names it."""


class NotEnoughMemory(Exception):
    """One working set of all candidates doesn't fit the GPU; the text says how much it needs."""


@dataclass(frozen=True)
class Options:
    """How long and how carefully to measure. Seconds are of GPU time unless noted.

    batch_seconds: length of one batch, at least one call.  rounds: batches of each candidate.
    budget_seconds: host time after which the rounds stop, at ``min_rounds`` at the earliest.
    agreement: relative difference at which two warm-up rounds agree.
    warmup_seconds: host time after which warming up stops in any case.
    graph_below: calls shorter than this go in a CUDA graph.
    l2_multiple: size of all rotating inputs together, in sizes of the L2.
    max_sets: never more working sets than this, however small they are.
    checked_outputs: how many outputs are verified after the clock.
    """

    batch_seconds: float = 2e-3
    rounds: int = 60
    min_rounds: int = 10
    budget_seconds: float = 2.0
    agreement: float = 0.01
    warmup_seconds: float = 1.0
    graph_below: float = 100e-6
    l2_multiple: float = 2.0
    max_sets: int = 1024
    max_calls: int = 4096
    checked_outputs: int = 2


@dataclass(frozen=True)
class Timing:
    """How long one candidate took.

    seconds: of one call, one entry a round; empty when it was refused.  work: bytes or floating-point
    operations of one call.  mode: "graph" or "queue"; why_not_graph: CUDA's reason, if it was tried.
    sets: rotating working sets.  cold: all of them together exceed ``l2_multiple`` L2s.
    calls: in one batch.  warmup_rounds: rounds before the clock counted; settled: whether two agreed.
    clock_before, clock_after: SM clock in MHz.
    refused: why no time is given: wrong, or not measurable.
    """

    name: str
    work: int
    seconds: tuple[float, ...] = ()
    mode: str = ""
    why_not_graph: str = ""
    sets: int = 0
    cold: bool = True
    calls: int = 0
    warmup_rounds: int = 0
    settled: bool = False
    clock_before: int | None = None
    clock_after: int | None = None
    refused: str = ""

    @property
    def samples(self) -> int:
        return len(self.seconds)

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return float(np.median(self.seconds))

    def rate(self, percent: float = 50.0) -> float:
        """Work per second; ``percent`` of the rounds were slower than that, or as slow."""
        return self.work / float(np.percentile(self.seconds, 100.0 - percent))


@dataclass
class Lane:
    """A candidate on its way through a measurement: one launch for each working set."""

    name: str
    launches: Sequence[Callable[[], Any]]
    outputs: list[Any]
    protected: frozenset[int] = frozenset()  # addresses of inputs: an output there isn't poisoned
    batch: Callable[[], None] | None = None
    is_ruler: bool = False
    mode: str = ""
    why_not_graph: str = ""
    calls: int = 1
    queue_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    recent: set[int] = field(default_factory=set)  # working sets called since it was cleared
    refused: str = ""

    def call(self, index: int) -> None:
        """Runs the candidate on one working set. Its last output there is given up first, so that
        the allocator hands the same memory out again and the outputs rotate as the inputs do."""
        self.outputs[index] = None
        self.outputs[index] = self.launches[index]()
        self.recent.add(index)

    def call_each(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.call(index)

    def call_next(self, indices: Iterator[int], calls: int) -> None:
        for _ in range(calls):
            self.call(next(indices))

    def timing(self, shared: Mapping[str, Any]) -> Timing:
        """What was measured, with what all candidates of the measurement share."""
        return Timing(
            name=self.name,
            seconds=() if self.refused else tuple(self.seconds),
            mode=self.mode,
            why_not_graph=self.why_not_graph,
            calls=self.calls,
            refused=self.refused,
            **shared,
        )

    def poison(self) -> None:
        """Overwrites all outputs, so that one that is not computed again can't look right."""
        for tensor in tensors_of(self.outputs):
            if tensor.untyped_storage().data_ptr() in self.protected:
                continue
            tensor.detach().fill_(math.nan if tensor.is_floating_point() else 0)


def measure(
    candidates: Mapping[str, Callable[..., Any]],
    make_inputs: Callable[[int], tuple],
    ruler: str,
    work: int,
    options: Options | None = None,
    verify: Verify | None = None,
    device: Device | None = None,
) -> dict[str, Timing]:
    """Times every candidate and the ruler on the same inputs, taking turns.

    candidates: functions of the arguments that ``make_inputs`` returns, by name.
    make_inputs(i): the i-th working set: fresh random tensors on the device.
    ruler: a name in rulers.RULERS; its timing stands under that name in the result.
    work: bytes, or floating-point operations, of one call.
    verify(output, inputs): what is wrong with an answer, or None.

    Raises ClockPatched, NotEnoughMemory, and whatever a candidate raises when it is called.
    """
    options = options or Options()
    device = device or CudaDevice()
    _refuse_patched(device)
    first = make_inputs(0)
    sets = count_sets(bytes_of(first), device, options, len(candidates))
    inputs = [first, *(make_inputs(index) for index in range(1, sets))]
    lanes = [Lane(ruler, RULERS[ruler].prepare(work, sets), [None] * sets, is_ruler=True)]
    protected = frozenset(t.untyped_storage().data_ptr() for t in tensors_of(inputs))
    for name, function in candidates.items():
        launches = [partial(function, *arguments) for arguments in inputs]
        lanes.append(Lane(name, launches, [None] * sets, protected))
    for lane in lanes:
        prepare(lane, inputs, device, options, verify)
    running = [lane for lane in lanes if not lane.refused]
    warmup_rounds, settled = warm_up(running, device, options)
    clock_before = device.sm_clock()
    run_rounds(running, device, options)
    shared = {
        "work": work,
        "sets": sets,
        "cold": sets * bytes_of(first) > options.l2_multiple * device.l2_bytes,
        "warmup_rounds": warmup_rounds,
        "settled": settled,
        "clock_before": clock_before,
        "clock_after": device.sm_clock(),
    }
    _refuse_patched(device)
    for lane in running:
        check_timed_outputs(lane, inputs, device, options, verify)
    _refuse_patched(device)
    return {lane.name: lane.timing(shared) for lane in lanes}


def count_sets(set_bytes: int, device: Device, options: Options, candidates: int) -> int:
    """Working sets to rotate over: more than ``l2_multiple`` L2s of inputs, in half the free memory.

    One is enough when it is larger than that by itself. Raises NotEnoughMemory when not even one
    fits, with an output as large for every candidate and the ruler's two buffers.
    """
    each = max(1, set_bytes) * (candidates + 3)
    affordable = device.free_bytes() // (2 * each)
    if affordable < 1 and each > device.free_bytes():
        raise NotEnoughMemory(
            f"needs {each / 2**30:.1f} GiB of free GPU memory, {device.free_bytes() / 2**30:.1f} "
            "GiB are free: end what else runs on this GPU."
        )
    wanted = math.floor(options.l2_multiple * device.l2_bytes / max(1, set_bytes)) + 1
    return max(1, min(wanted, affordable, options.max_sets))


def prepare(
    lane: Lane,
    inputs: Sequence[tuple],
    device: Device,
    options: Options,
    verify: Verify | None,
) -> None:
    """Compiles a candidate by calling it, verifies its answer, and builds its batch."""
    every = range(len(lane.launches))
    lane.call(0)
    lane.poison()  # so that the memory it gets again holds no right answer
    lane.call(0)
    device.synchronize()
    if verify is not None and not lane.is_ruler:
        wrong = verify(lane.outputs[0], inputs[0])
        if wrong:
            lane.refused = f"wrong, so it is not timed: {wrong}"
            return
    some = [index % len(every) for index in range(max(4, min(16, len(every))))]
    lane.call_each(some)
    probes = [device.run(partial(lane.call_each, some), 0.0) for _ in range(2)]
    tail = min(probe.tail for probe in probes)
    if tail > TAIL_SECONDS and tail > TAIL_SHARE * min(probe.stream for probe in probes):
        lane.refused = (
            f"its work went on for {tail * 1e6:.0f} us after the caller's stream was done: it runs "
            "on another stream. Launch on torch.cuda.current_stream(), or make that stream wait."
        )
        return
    host = min(probe.host for probe in probes)
    queued = device.run(partial(lane.call_each, some), min(2 * host, MAX_QUEUE_SECONDS))
    estimate = max(queued.stream / len(some), 1e-7)
    lane.calls = batch_calls(estimate, len(every), options)
    if estimate < options.graph_below:
        try:
            batch = partial(lane.call_each, [index % len(every) for index in range(lane.calls)])
            lane.batch = device.capture(batch)
            lane.mode = "graph"
        except NotCapturable as error:
            lane.why_not_graph = str(error)
            lane.outputs[:] = [None] * len(every)  # some belong to the graph that failed
    if lane.batch is None:
        lane.mode = "queue"
        lane.calls = min(lane.calls, 256)  # a stream's queue holds about a thousand launches
        lane.batch = partial(lane.call_next, cycle(every), lane.calls)
    host = device.run(lane.batch, 0.0).host
    lane.queue_seconds = min(1.5 * host + 20e-6, MAX_QUEUE_SECONDS)


def batch_calls(estimate: float, sets: int, options: Options) -> int:
    """Calls in a batch: whole passes over the working sets, about ``batch_seconds`` long."""
    passes = max(1, round(options.batch_seconds / (estimate * sets)))
    if passes == 1 and estimate * sets > 2 * options.batch_seconds and estimate > 1e-4:
        return max(1, round(options.batch_seconds / estimate))  # queued: goes on where it stopped
    return sets * min(passes, max(1, options.max_calls // sets))


def sample(lane: Lane, device: Device) -> float:
    """Seconds of one call, from one batch."""
    assert lane.batch is not None
    if lane.mode == "queue":
        lane.poison()
    elapsed = device.run(lane.batch, lane.queue_seconds)
    late = elapsed.tail if elapsed.tail > TAIL_SECONDS + TAIL_SHARE * elapsed.stream else 0.0
    # An empty graph takes no time that events can tell: far too fast, but not infinitely.
    return max(elapsed.stream + late, 1e-9) / lane.calls


def warm_up(lanes: Sequence[Lane], device: Device, options: Options) -> tuple[int, bool]:
    """Rounds until two in a row agree for every candidate, or the cap: (rounds, agreed)."""
    began = device.now()
    last: list[float] = []
    rounds = 0
    while True:
        times = [sample(lane, device) for lane in lanes]
        rounds += 1
        if last and all(
            abs(now - before) <= options.agreement * before
            for now, before in zip(times, last, strict=True)
        ):
            return rounds, True
        if device.now() - began > options.warmup_seconds:
            return rounds, False
        last = times


def run_rounds(lanes: Sequence[Lane], device: Device, options: Options) -> None:
    """The measurement: in every round each candidate runs one batch, each round starting with
    another one, so that none always follows the same neighbour."""
    began = device.now()
    for number in range(options.rounds):
        start = number % len(lanes)
        for lane in (*lanes[start:], *lanes[:start]):
            lane.seconds.append(sample(lane, device))
        if number + 1 >= options.min_rounds and device.now() - began > options.budget_seconds:
            return


def check_timed_outputs(
    lane: Lane,
    inputs: Sequence[tuple],
    device: Device,
    options: Options,
    verify: Verify | None,
) -> None:
    """Runs the timed batch once more over poisoned outputs and verifies a random few of them."""
    if verify is None or lane.is_ruler:
        return
    assert lane.batch is not None
    lane.poison()
    lane.recent.clear()
    device.run(lane.batch, lane.queue_seconds)
    # A graph covers every working set, without calling the function; a queue may be half through.
    written = sorted(lane.recent) if lane.mode == "queue" else list(range(len(inputs)))
    count = min(options.checked_outputs, len(written))
    for index in secrets.SystemRandom().sample(written, count):
        wrong = verify(lane.outputs[index], inputs[index])
        if wrong:
            lane.refused = (
                f"right when called once, wrong when timed ({wrong}): it skips work, keeps results "
                "between calls, or computes on another stream"
            )
            return


def _refuse_patched(device: Device) -> None:
    name = device.patched()
    if name:
        raise ClockPatched(f"{name} was replaced, so no time measured here can be believed")


def bytes_of(arguments: Any) -> int:
    """Bytes of all tensors in the arguments."""
    return sum(tensor.nbytes for tensor in tensors_of(arguments))

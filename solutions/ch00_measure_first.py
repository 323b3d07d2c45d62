"""Measure first: how many bytes an operation moves, how long that must take, and a timer to trust.

Read ``bytes_moved`` first, then ``roofline_time``; both are arithmetic. ``time_kernel`` is what
every later chapter's speed rests on. It is written against a simulated GPU, so that a wrong timer
is wrong on every machine, by the same amount, every time.
"""

# %% setup
import statistics
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Array(NamedTuple):
    """A tensor in memory: how many elements, and bytes in each."""

    elements: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        return self.elements * self.itemsize


class Step(NamedTuple):
    """One tensor operation: the names of what it reads, and of what it writes."""

    reads: tuple[str, ...]
    writes: str


class Machine(NamedTuple):
    """What a machine can do at best. seconds_per_launch: the time from one launch to the next."""

    bytes_per_second: float
    flops_per_second: float
    seconds_per_launch: float


# Datasheet figures of the H200 SXM: 4.8 TB/s, 989 TFLOP/s in bfloat16 without sparsity. The time
# of a launch is on no datasheet: 4 us is a round figure, the host's as much as the GPU's.
H200 = Machine(4.8e12, 989e12, 4e-6)


class Buffer(NamedTuple):
    """A piece of the simulated GPU's memory."""

    address: int
    nbytes: int


class Event:
    """A mark in the simulated GPU's queue; it has a time once the GPU has come by."""

    def __init__(self, gpu: "SimulatedGpu", at: float) -> None:
        self._gpu, self._at = gpu, at

    def elapsed_us(self, later: "Event") -> float:
        """Microseconds from this mark to a later one. RuntimeError if the GPU isn't there yet."""
        if self._gpu.clock_us() < later._at:
            raise RuntimeError("event not reached yet: the GPU is still working through its queue")
        return later._at - self._at


class SimulatedGpu:
    """A GPU with a queue. All times are simulated microseconds, and every run is the same.

    The host puts work into the queue and goes on at once; the GPU does it later, in order.
    """

    l2_bytes = 50_000_000
    launch_us = 4.0  # the host needs this long to put one launch into the queue

    def __init__(
        self,
        kernel_us: float,
        compile_us: float = 0.0,
        slow_launches: int = 0,
        cache_speedup: float = 1.0,
        strays: bool = False,
    ) -> None:
        """kernel_us: what a launch takes in the long run, on data from memory.
        compile_us: the first launch compiles. slow_launches: so many until the clocks are up.
        cache_speedup: for a buffer still in L2. strays: now and then a launch is slow, or fast.
        """
        self._kernel_us, self._compile_us = kernel_us, compile_us
        self._slow_launches, self._cache_speedup, self._strays = (
            slow_launches,
            cache_speedup,
            strays,
        )
        self._host, self._queue_end, self._launches = 0.0, 0.0, 0
        self._cached: OrderedDict[int, int] = OrderedDict()

    def clock_us(self) -> float:
        """The host's clock."""
        return self._host

    def launch(self, buffer: Buffer) -> None:
        """Queue the kernel on a buffer, and return at once."""
        self._host += self.launch_us + (self._compile_us if self._launches == 0 else 0.0)
        self._queue_end = max(self._host, self._queue_end) + self._duration(buffer)
        self._launches += 1

    def pause(self, microseconds: float) -> None:
        """Queue an idle time: the GPU waits that long before it goes on. The host does not."""
        self._host += self.launch_us
        self._queue_end = max(self._host, self._queue_end) + microseconds

    def record(self) -> Event:
        """Queue a mark."""
        self._host += 1.0
        self._queue_end = max(self._host, self._queue_end)
        return Event(self, self._queue_end)

    def synchronize(self) -> None:
        """The host waits until the queue is empty."""
        self._host = max(self._host, self._queue_end)

    def _duration(self, buffer: Buffer) -> float:
        number, microseconds = self._launches, self._kernel_us
        if self._is_cached(buffer):
            microseconds /= self._cache_speedup
        if number < self._slow_launches:
            microseconds *= 1.5
        if self._strays and number % 7 == 3:
            microseconds *= 6.0  # another process, a refresh, an interrupt
        elif self._strays and number % 11 == 5:
            microseconds *= 0.7  # a moment of higher clocks
        return microseconds

    def _is_cached(self, buffer: Buffer) -> bool:
        """Whether the buffer is in L2, where it is from now on; the oldest make room."""
        hit = self._cached.pop(buffer.address, None) is not None
        self._cached[buffer.address] = buffer.nbytes
        while sum(self._cached.values()) > self.l2_bytes:
            self._cached.popitem(last=False)
        return hit


def make_buffers(count: int, nbytes: int) -> list[Buffer]:
    """Buffers one behind the other in the simulated memory."""
    return [Buffer(index * nbytes, nbytes) for index in range(count)]


# %% exercise ch00.bytes_moved
def bytes_moved(
    steps: Sequence[Step], arrays: Mapping[str, Array], results: Sequence[str], fused: bool
) -> int:
    """Bytes that a chain of operations reads from and writes to memory.

    steps: in order; each reads some arrays and writes one.
    arrays: every name's size.  results: the names that must be in memory at the end.
    fused: False: one kernel a step, each reads its inputs from memory and writes its output.
        True: one kernel for all; it reads what no step wrote, each once, and writes the results.
    """
    if not fused:
        ### BEGIN SOLUTION every step reads all its inputs and writes its output (4 lines)
        total = 0
        for step in steps:
            total += sum(arrays[name].nbytes for name in step.reads)
            total += arrays[step.writes].nbytes
        return total
        ### END SOLUTION
    ### BEGIN SOLUTION inputs that no step wrote, each once; then the results (4 lines)
    written = {step.writes for step in steps}
    inputs = {name for step in steps for name in step.reads} - written
    return sum(arrays[name].nbytes for name in [*inputs, *results])
    ### END SOLUTION


# %% exercise ch00.roofline_time
def roofline_time(nbytes: int, flops: int, kernels: int, machine: Machine) -> tuple[float, str]:
    """The least time in which a machine can do a piece of work, and what limits it.

    nbytes: moved to and from memory.  flops: floating-point operations.  kernels: launches.
    Returns seconds and one of "memory", "compute", "launch".

    Bytes move while arithmetic goes on while the host launches: the slowest of the three is the
    time, the other two hide behind it.
    """
    ### BEGIN SOLUTION a time for each of the three; the largest, and its name (6 lines)
    times = {
        "memory": nbytes / machine.bytes_per_second,
        "compute": flops / machine.flops_per_second,
        "launch": kernels * machine.seconds_per_launch,
    }
    limiter = max(times, key=times.__getitem__)
    return times[limiter], limiter
    ### END SOLUTION


# %% exercise ch00.fix_the_timer
def time_kernel(gpu: SimulatedGpu, buffers: Sequence[Buffer], samples: int = 50) -> float:
    """Microseconds that one launch takes on the GPU: in the long run, on data from memory.

    gpu: ``gpu.launch(buffer)`` is what is timed.
    buffers: equal in size, together more than twice ``gpu.l2_bytes``.
    """
    ### BEGIN SOLUTION warm up: 20 launches that nobody times, then wait for them (3 lines)
    for index in range(20):
        gpu.launch(buffers[index % len(buffers)])
    gpu.synchronize()
    ### END SOLUTION

    marks = []
    # Launches that pile up behind a pause run with no gap between them.
    ### BEGIN SOLUTION pause 10 us a sample; then mark, launch on the next buffer, mark, each time (5 lines)
    gpu.pause(10.0 * samples)
    for index in range(samples):
        start = gpu.record()
        gpu.launch(buffers[index % len(buffers)])
        marks.append((start, gpu.record()))
    ### END SOLUTION

    ### BEGIN SOLUTION wait; then the one number that a stray sample can't move (3 lines)
    gpu.synchronize()
    times = [start.elapsed_us(end) for start, end in marks]
    return statistics.median(times)
    ### END SOLUTION

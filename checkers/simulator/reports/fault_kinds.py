"""What can be wrong with a kernel, in the words of the lessons: the kinds of fault and their lore.

A kind says three things: a title, what it means, and what usually causes it. The fault itself
(faults.py) says who did it, where, and with which other access.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: the kernel is wrong. NOTE: strictly against the manual, or wasteful, but works; it
    leaves the exit status alone."""

    ERROR = "error"
    NOTE = "note"


class Kind(StrEnum):
    """The kinds of fault; the value is the name in JSON."""

    OUT_OF_BOUNDS = "out_of_bounds"
    READ_ONLY = "read_only"
    MISALIGNED = "misaligned"
    UNINITIALISED = "uninitialised"
    UNDEFINED = "undefined"
    RACE = "race"
    SCOPE = "scope"
    READ_BEFORE_WAIT = "read_before_wait"
    OVERWRITTEN_IN_FLIGHT = "overwritten_in_flight"
    PROXY_FENCE = "proxy_fence"
    COMMIT = "commit"
    EXIT_IN_FLIGHT = "exit_in_flight"
    MBARRIER = "mbarrier"
    PHASE = "phase"
    EXPECT_TX = "expect_tx"
    DEADLOCK = "deadlock"
    BARRIER = "barrier"
    CLUSTER = "cluster"
    WGMMA_FENCE = "wgmma_fence"
    ACCUMULATOR = "accumulator"
    TENSOR_MEMORY = "tensor_memory"
    TENSOR_MAP = "tensor_map"
    DESCRIPTOR = "descriptor"
    COLLECTIVE = "collective"
    REGISTERS = "registers"
    TRAP = "trap"

    @property
    def lore(self) -> Lore:
        """Title, meaning and usual causes."""
        return LORE[self]

    @property
    def title(self) -> str:
        return LORE[self].title


@dataclass(frozen=True)
class Lore:
    """What the lessons say about a kind of fault.

    title: a heading of under 60 characters.  meaning: one or two sentences.  causes: what usually
    brings it about, likeliest first, each with what to do.  reread: identifiers of chapters.
    """

    title: str
    meaning: str
    causes: tuple[str, ...]
    reread: tuple[str, ...] = ()


LORE: dict[Kind, Lore] = {
    Kind.OUT_OF_BOUNDS: Lore(
        "An index beyond a tensor",
        "A thread addressed memory that belongs to no tensor of the launch, or to the block's "
        "neighbour. On a GPU this may crash, or read and destroy what lies next door without a "
        "word.",
        (
            "The last tile hangs over the edge and the load or store has no mask or predicate.",
            "The mask compares with the wrong extent: rows where columns are meant, or elements "
            "where vectors are.",
            "A stride, or the size of the grid, was worked out for another shape.",
        ),
        reread=("ch02", "ch04"),
    ),
    Kind.READ_ONLY: Lore(
        "A store into memory that is for reading",
        "The kernel wrote where only reading is allowed: an input of the launch, its parameters, "
        "or constant memory.",
        ("The arguments of the launch are in the wrong order.",),
    ),
    Kind.MISALIGNED: Lore(
        "An address that the access is too wide for",
        "An access of 16 bytes needs an address that is a multiple of 16, one of 8 a multiple of "
        "8, and so on. A GPU stops the whole program with 'misaligned address'.",
        (
            "A vector load on a tensor whose rows are no multiple of the vector, or that starts "
            "at an odd offset: check strides and storage offset before promising an alignment.",
            "An alignment was asserted (assumed_align, tl.multiple_of) that does not hold.",
            "A shared-memory buffer was placed behind another one without rounding up.",
        ),
        reread=("ch04",),
    ),
    Kind.UNINITIALISED: Lore(
        "Memory was read that nobody has written",
        "The value is whatever an earlier kernel left there. It can be right a hundred times "
        "and wrong the next.",
        (
            "A predicated copy skipped these elements, and they were not filled with zeros.",
            "The accumulator was not cleared before the first addition.",
            "The loop over tiles starts one stage too late, or reads another stage than was "
            "filled.",
        ),
    ),
    Kind.UNDEFINED: Lore(
        "A value that is not defined",
        "The instruction's result, or what it was given, is undefined by the manual: it works "
        "only by luck.",
        (
            "cp.async is told to read more bytes than it copies: its source size is in bytes, at "
            "most the size of the copy.",
        ),
    ),
    Kind.RACE: Lore(
        "Two threads touch the same memory with no order between",
        "At least one of them writes, and nothing makes one wait for the other. Which comes "
        "first changes from run to run.",
        (
            "A barrier is missing between the write and the read (sync_threads, or an mbarrier).",
            "A barrier is missing at the end of a loop: the next round's write overtakes this "
            "round's read.",
            "Two threads own the same element: the partition overlaps, or the grid starts more "
            "blocks than there are tiles, or an index runs past its row into the next.",
            "Many threads add to one element: that takes an atomic, or a reduction.",
            "A copy goes where an earlier copy still writes: the stage index does not advance, or "
            "the stage is refilled before it was waited for.",
            "Lanes of one warp are not in step either: they need a sync_warp.",
        ),
    ),
    Kind.SCOPE: Lore(
        "Synchronised in too small a circle",
        "The fence, barrier or atomic orders memory only for its own block, but the other thread "
        "is in another block.",
        ("The scope is .cta where .cluster or .gpu is needed.",),
    ),
    Kind.READ_BEFORE_WAIT: Lore(
        "The copy had not landed yet",
        "Asynchronous work was started, and its result used before a wait said that it is "
        "complete. On a GPU this often works, until the memory is busy.",
        (
            "The wait is missing, or comes after the use.",
            "The wait leaves too many groups in flight: with S stages at most S - 2 may be "
            "pending when the oldest is read (after the next copy was committed: S - 1).",
            "The wait is for another barrier, or another stage's barrier, than the copy signals.",
            "cp.async's wait covers the waiting thread's own copies: others need a barrier "
            "after it.",
        ),
    ),
    Kind.OVERWRITTEN_IN_FLIGHT: Lore(
        "A buffer was overwritten while it was still being read",
        "An asynchronous copy or a tensor-core instruction still reads this buffer: it may see "
        "old or new values.",
        (
            "The producer refills a stage without waiting until it is empty.",
            "One stage too few: the copy for the next round goes where this round still computes.",
            "After a TMA store, wait until its source has been read (wait_group.read) before "
            "writing there again.",
            "wgmma reads shared memory until its wait: wait before the stage is given back.",
        ),
    ),
    Kind.PROXY_FENCE: Lore(
        "The async proxy may not see this write",
        "Ordinary stores and the engines that copy and multiply asynchronously look at memory "
        "through different doors. What was stored through one is seen through the other only "
        "after fence.proxy.async.",
        (
            "After writing shared memory with ordinary stores, each writing thread needs "
            "fence_view_async_shared (fence.proxy.async.shared::cta), then the barrier, then "
            "the TMA store or wgmma.",
            "The fence stands before the stores, or in a thread that neither wrote nor starts the "
            "copy.",
        ),
    ),
    Kind.COMMIT: Lore(
        "A group was committed in the wrong place",
        "Copies belong to a group only once they are committed, by the thread that started them.",
        (
            "The commit is missing, so that the wait has nothing to wait for.",
            "The commit is executed by another thread than the copies.",
        ),
    ),
    Kind.EXIT_IN_FLIGHT: Lore(
        "The block ended with work in flight",
        "When a block exits its shared memory goes to the next one, while a copy still reads or "
        "writes it.",
        (
            "The last wait is missing after the loop (wait_group 0, or the store's wait).",
            "The producer started copies for tiles that nobody consumes: let it wait for them "
            "(producer_tail).",
        ),
    ),
    Kind.MBARRIER: Lore(
        "An mbarrier was misused",
        "An mbarrier must be initialised once with the number of arrivals of a phase, made "
        "visible to all who use it, and get just so many arrivals in each phase.",
        (
            "The count of init is not the number of threads (or warps) that arrive.",
            "Every lane arrives where one was meant to (elect_one), or the reverse.",
            "The producer uses a stage again without waiting until its consumers have released it.",
            "The barrier is used before init is visible: fence_barrier_init and a barrier of "
            "the block (or cluster) must stand between.",
            "Its 8 bytes are also used for data.",
        ),
    ),
    Kind.PHASE: Lore(
        "Waiting for the wrong phase",
        "A wait names the parity of the phase that must be complete. With the wrong one it "
        "returns at once, for a phase that was over long ago, or never.",
        (
            "The phase bit is not flipped when the stage index wraps round to 0.",
            "The producer's first wait for an empty stage must use the opposite parity of the "
            "consumer's: nothing has been consumed yet.",
        ),
    ),
    Kind.EXPECT_TX: Lore(
        "The bytes promised are not the bytes that came",
        "expect_tx tells the mbarrier how many bytes the copies of this phase bring. With "
        "another number the phase completes too early, or never.",
        (
            "The bytes of only one operand were counted where two tiles arrive on the barrier.",
            "Counted in elements instead of bytes, or with the wrong dtype.",
            "The expect is missing, or every thread does it.",
        ),
    ),
    Kind.DEADLOCK: Lore(
        "Everybody waits",
        "Each thread left waits for something that only another waiting thread could do. A GPU "
        "hangs here.",
        (
            "An arrive is missing on some path, or the barrier's count is too high.",
            "Fewer bytes arrive than expect_tx announced.",
            "Producer and consumer start with the same parity.",
            "A barrier of the whole block stands inside a branch that not all threads take.",
        ),
    ),
    Kind.BARRIER: Lore(
        "A barrier that its threads don't agree on",
        "All participants of a barrier must name the same barrier and the same number of "
        "threads, a multiple of 32.",
        (
            "The barrier stands in a branch that only some threads of a warp take.",
            "A named barrier's count does not match the warps that use it.",
            "One barrier number serves two groups at a time: 0 is sync_threads' own.",
        ),
    ),
    Kind.CLUSTER: Lore(
        "The neighbour block is not there, or not ready",
        "The shared memory of another block of the cluster may be touched only between its start "
        "and its end: the blocks have to meet first, and again before they leave.",
        (
            "There is no cluster barrier before the first access to another block.",
            "There is none before exit, while a neighbour may still read or signal here.",
            "arrive.relaxed orders no memory: the default, or .release, does.",
        ),
    ),
    Kind.WGMMA_FENCE: Lore(
        "wgmma without its fence",
        "Registers that ordinary instructions have written are seen by wgmma only after "
        "wgmma.fence.",
        (
            "warpgroup.fence() is missing before the first wgmma of the loop, or after the "
            "accumulator was changed.",
        ),
    ),
    Kind.ACCUMULATOR: Lore(
        "The accumulator was touched too early",
        "The tensor cores still write these registers: they may be read or changed only after "
        "the group was committed and waited for.",
        (
            "warpgroup.wait_group(0) is missing before the accumulator is used.",
            "The wait leaves a group in flight that writes this accumulator.",
            "commit_group is missing: the wait does not cover what was not committed.",
        ),
    ),
    Kind.TENSOR_MEMORY: Lore(
        "Tensor memory was misused",
        "Tensor memory is allocated in columns by a whole warp, each warp sees its own 32 lanes, "
        "and all of it has to be freed before the block ends.",
        (
            "dealloc is missing, or executed by another warp than alloc.",
            "The columns lie beyond the allocation: count them in 32-bit cells.",
            "A warp reads lanes of another warp's window.",
            "The result is read before the commit's mbarrier was waited for, or without "
            "tcgen05.fence::after_thread_sync.",
        ),
    ),
    Kind.TENSOR_MAP: Lore(
        "The tensor map does not fit",
        "The descriptor of a TMA copy must describe the tensor, and be visible to the TMA unit.",
        (
            "The inner box is wider than the swizzle allows, or no multiple of 16 bytes.",
            "A map that was changed on the device needs a fence of the tensormap proxy.",
        ),
        reread=("ch03",),
    ),
    Kind.DESCRIPTOR: Lore(
        "A descriptor that does not describe the tile",
        "wgmma and tcgen05 find their operands by a descriptor: start, strides and swizzle have "
        "to be those by which the tile was written.",
        (
            "The tile was written with one swizzle and is read with another.",
            "The tile does not start at the alignment of its swizzle (1024 bytes for 128B).",
            "K-major and MN-major were confused.",
        ),
        reread=("ch03",),
    ),
    Kind.COLLECTIVE: Lore(
        "Not all who must take part do",
        "The instruction belongs to a whole warp or warpgroup: all its lanes have to execute it "
        "together with the same operands.",
        (
            "It stands in a branch on the thread index.",
            "The mask names lanes that are not there.",
            "A shuffle asks a lane that does not take part, or that has left the kernel.",
            "It was executed by one elected thread, or one that needs electing by all.",
        ),
    ),
    Kind.REGISTERS: Lore(
        "Registers were moved wrongly between warpgroups",
        "setmaxnreg gives registers back to the block's pool or takes them: all four warps of a "
        "warpgroup together, and never more than there are.",
        (
            "The sums do not fit: consumers times their registers plus the producer's must stay "
            "within 64 Ki for the block.",
        ),
    ),
    Kind.TRAP: Lore(
        "The kernel stopped itself",
        "A trap or a failed assertion on the device was reached.",
        ("An assertion of the kernel did not hold.",),
    ),
}

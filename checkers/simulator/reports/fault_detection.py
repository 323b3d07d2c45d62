"""How each kind of fault is found, in a sentence: the table of docs/simulator.md."""

from __future__ import annotations

from checkers.simulator.reports.fault_kinds import Kind

FOUND: dict[Kind, str] = {
    Kind.OUT_OF_BOUNDS: "Every address is looked up among the launch's tensors, the block's "
    "shared memory or the thread's local memory. Bytes between the elements of a strided view "
    "belong to no tensor. A tensor copy that hangs over the edge is none: the hardware clips it.",
    Kind.READ_ONLY: "A store is held against what may be written: not parameters, not constants, "
    "not a tensor that the Launch marks as one to read (CuTe DSL and Triton tell of none).",
    Kind.MISALIGNED: "The address modulo the width of the access; 16 for bulk copies and "
    "ldmatrix, 128 for the shared side of a tensor copy.",
    Kind.UNINITIALISED: "The shadow of shared, local and tensor memory has no writer. For shared "
    "memory it is an error once the thread, or one that it passed a value to, stores to global "
    "memory, else a note. Not asked of global memory and of registers.",
    Kind.UNDEFINED: "Operands that the manual leaves undefined: cp.async with a source size "
    "larger than its copy.",
    Kind.RACE: "Each access is held against the last write of its place, each write also against "
    "the reads since; what the thread's clock does not know is a race, whatever the order was in "
    "this run.",
    Kind.SCOPE: "The same, where both accesses are strong (atomic, volatile, relaxed, acquire, "
    "release) but the narrower scope leaves the other thread out.",
    Kind.READ_BEFORE_WAIT: "The last write is an engine's, and the thread's clock does not know "
    "that engine up to this operation.",
    Kind.OVERWRITTEN_IN_FLIGHT: "The last read is an engine's that the writer has not waited for.",
    Kind.PROXY_FENCE: "An engine reads or overwrites what an ordinary store wrote, and the "
    "issuer knows of the store, but no fence.proxy.async stood on the way from one to the other.",
    Kind.COMMIT: "At a wait: copies of this thread that belong to no group.",
    Kind.EXIT_IN_FLIGHT: "When the last thread of a block exits: operations of the block that "
    "nobody has waited for.",
    Kind.MBARRIER: "The object's own bookkeeping: arrivals against the count of init, init and "
    "inval, its 8 bytes touched as data, its init not yet known to the thread that uses it.",
    Kind.PHASE: "Phases are numbered here, and every thread's last wait is remembered: a wait "
    "that the parity of an older phase satisfies is seen.",
    Kind.EXPECT_TX: "Announced and arrived bytes are kept for each phase: a phase that completes "
    "with a copy still in flight, or that hangs with bytes missing.",
    Kind.DEADLOCK: "No group can run, no engine has work, and waits that may time out changed "
    "nothing. The report lists who waits for what, and tcgen05 or cp.async work that was tied to no "
    "mbarrier where that may be what is waited for.",
    Kind.BARRIER: "The sixteen barriers of a block compare what each warp asks of them: number, "
    "count of threads, form.",
    Kind.CLUSTER: "A block's shared memory is open to others from the first meeting of the "
    "cluster to the exit of its last thread; each access is held against that.",
    Kind.WGMMA_FENCE: "The registers of every wgmma are watched: an ordinary write makes a new "
    "wgmma.fence necessary.",
    Kind.ACCUMULATOR: "The same registers are watched while a wgmma is in flight.",
    Kind.TENSOR_MEMORY: "Each cell knows its last operation, each column whose it is: "
    "allocation, a warp's window of lanes, and the waits and fences between two operations.",
    Kind.TENSOR_MAP: "The 128 bytes are decoded and held against the driver's rules; a map "
    "changed on the device needs its fence.",
    Kind.DESCRIPTOR: "Matrix and instruction descriptors are decoded: start, strides, swizzle and "
    "shape have to agree. A tile read with another swizzle than it was written with is not seen "
    "here, but in the result.",
    Kind.COLLECTIVE: "Lanes that come to a .sync or .aligned instruction wait for the others; "
    "those that never come, or that bring other operands, are named.",
    Kind.REGISTERS: "Each block's pool of registers is counted.",
    Kind.TRAP: "The instruction was reached.",
}

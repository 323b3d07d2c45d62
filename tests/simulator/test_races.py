"""Every race has a kernel that has it and a twin, one edge richer, that must pass in silence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx

# %r8: the address of the thread's own word of s; %rd0: 4 times its number in the grid.
OWN = """
    .shared .align 16 .b32 s[256];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
    mul.wide.u32 %rd0, %r3, 4; mov.u32 %r9, s; shl.b32 %r8, %r0, 2; add.u32 %r8, %r8, %r9;
"""
FENCE = "fence.acq_rel.gpu;"


def faults_of(body, **launch):
    """Kinds of its errors, and messages."""
    result = run_ptx(body, **launch)
    return kinds(result), [fault.message for fault in result.faults]


def check(body, edge, kind, words, **launch):
    """``body`` with {edge} left out has one fault, of ``kind``, whose message has ``words``; with
    ``edge`` in its place none."""
    found, messages = faults_of(body.replace("{edge}", ""), **launch)
    assert found == [kind], messages
    for word in words:
        assert word in messages[0], messages
    found, messages = faults_of(body.replace("{edge}", edge), **launch)
    assert found == [], messages


# --- shared memory, one block --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edge", "partner", "words"),
    [
        ("bar.sync 0;", 512, "no barrier lies between the two"),
        ("barrier.sync 0;", 512, "no barrier lies between the two"),
        ("bar.sync 1, 256;", 512, "no barrier lies between the two"),
        ("bar.warp.sync -1;", 4, "not even bar.warp.sync"),
    ],
)
def test_a_read_of_what_another_thread_wrote(edge, partner, words):
    body = (
        OWN
        + f"st.shared.u32 [%r8], %r0; {{edge}} xor.b32 %r7, %r8, {partner}; ld.shared.u32 %r6, [%r7];"
    )
    names = [words, f"thread 0 reads s[{partner // 4}], which thread {partner // 4} wrote"]
    check(body, edge, "race", names, block=256)


def test_a_warp_s_own_barrier_does_not_order_two_warps():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; bar.warp.sync -1; {edge}
        xor.b32 %r7, %r8, 128; ld.shared.u32 %r6, [%r7];"""
    )
    check(body, "bar.sync 0;", "race", ["thread 0 reads s[32], which thread 32 wrote"], block=256)


def test_a_shuffle_is_no_barrier():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; shfl.sync.bfly.b32 %r5, %r0, 1, 31, -1; {edge}
        xor.b32 %r7, %r8, 4; ld.shared.u32 %r6, [%r7];"""
    )
    check(body, "bar.warp.sync -1;", "race", ["s[1]"], block=32)


def test_a_named_barrier_orders_those_who_were_there():
    body = (
        OWN
        + """
        setp.lt.u32 %p1, %r0, 128; st.shared.u32 [%r8], %r0;
        @%p1 bar.sync 1, 128; @!%p1 bar.sync 2, 128; {edge}
        xor.b32 %r7, %r8, 512; ld.shared.u32 %r6, [%r7];
    """
    )
    check(body, "bar.sync 0;", "race", ["which thread 128 wrote"], block=256)
    found, messages = faults_of(body.replace("{edge}", "").replace("512", "128"), block=256)
    assert found == [], messages


def test_arrive_then_sync_orders_one_way():
    """Warp 0 produces and arrives, warp 1 waits; warp 0 does not see what warp 1 then writes."""
    body = (
        OWN
        + """
        setp.lt.u32 %p1, %r0, 32; @%p1 bra PRODUCER;
        bar.sync 1, 64; ld.shared.u32 %r6, [%r8+-128]; st.shared.u32 [%r8], %r6; bra END;
        PRODUCER: st.shared.u32 [%r8], %r0; bar.arrive 1, 64; {edge}
        END: {back} 
    """
    )
    plain = body.replace("{edge}", "")
    assert faults_of(plain.replace("{back}", ""), block=64) == ([], [])
    back = "@!%p1 bra DONE; ld.shared.u32 %r5, [%r8+128]; DONE:"
    found, messages = faults_of(plain.replace("{back}", back), block=64)
    assert found == ["race"], messages
    found, messages = faults_of(plain.replace("{back}", "bar.sync 0;" + back), block=64)
    assert found == [], messages


def test_a_write_over_what_another_thread_still_reads():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; bar.sync 0; xor.b32 %r7, %r8, 512; ld.shared.u32 %r6, [%r7];
        {edge} st.shared.u32 [%r8], 5;"""
    )
    check(body, "bar.sync 0;", "race", ["thread 0 writes s[0], which thread 128 read"], block=256)


def test_a_loop_whose_round_overtakes_the_last():
    body = (
        OWN
        + """
        mov.u32 %r10, 0; LOOP: st.shared.u32 [%r8], %r10; bar.sync 0;
        xor.b32 %r7, %r8, 512; ld.shared.u32 %r6, [%r7]; {edge}
        add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 4; @%p1 bra LOOP;
    """
    )
    check(body, "bar.sync 0;", "race", ["writes s[0], which thread 128 read"], block=256)


def test_the_read_that_a_second_reader_hides_is_still_found():
    """Thread 1 reads s[0], then thread 0 does itself, and writes it."""
    body = (
        OWN
        + """
        st.shared.u32 [%r8], %r0; bar.sync 0; setp.eq.u32 %p1, %r0, 1; setp.eq.u32 %p2, %r0, 0;
        @%p1 ld.shared.u32 %r6, [%r9]; @%p2 ld.shared.u32 %r6, [%r9]; {edge} @%p2 st.shared.u32 [%r9], 9;
    """
    )
    check(
        body, "bar.warp.sync -1;", "race", ["thread 0 writes s[0], which thread 1 read"], block=32
    )


@pytest.mark.parametrize("writer", [0, 13, 31, 32, 63])
def test_a_write_by_any_one_of_many_readers(writer):
    body = (
        OWN
        + f"""
        st.shared.u32 [%r8], %r0; bar.sync 0; ld.shared.u32 %r6, [%r9]; {{edge}}
        setp.eq.u32 %p1, %r0, {writer}; @%p1 st.shared.u32 [%r9], 9;
    """
    )
    check(body, "bar.sync 0;", "race", [f"thread {writer} writes s[0], which thread"], block=64)


def test_two_writes_of_different_values():
    body = (
        OWN + """st.shared.u32 [%r8], 1; {edge} xor.b32 %r7, %r8, 512; st.shared.u32 [%r7], %r0;"""
    )
    check(
        body, "bar.sync 0;", "race", ["thread 0 writes s[128], which thread 128 wrote"], block=256
    )


def test_lanes_that_store_one_value_to_one_place_agree():
    assert faults_of(OWN + "st.shared.u32 [%r9], 7;", block=256) == ([], [])


def test_lanes_that_store_their_own_to_one_place_race():
    found, messages = faults_of(OWN + "st.shared.u32 [%r9], %r0;", block=32)
    assert found == ["race"] and "store different values to s[0]" in messages[0]
    once = "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r9], %r0;"
    assert faults_of(OWN + once, block=32) == ([], [])


def test_a_part_of_a_word_that_another_thread_writes():
    """Bytes have grains of their own as soon as the kernel has a byte access."""
    body = (
        OWN
        + """add.u32 %r7, %r9, %r0; cvt.u16.u32 %h1, %r0; st.shared.u8 [%r7], %h1; {edge}
        setp.lt.u32 %p1, %r0, 8; @%p1 ld.shared.u32 %r6, [%r8];"""
    )
    check(body, "bar.sync 0;", "race", ["thread 0 reads s[0], which thread 1 wrote"], block=32)


def test_vectors_that_overlap_with_words():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; {edge} setp.lt.u32 %p1, %r0, 16; shl.b32 %r7, %r0, 4;
        add.u32 %r7, %r7, %r9; @%p1 ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r7];"""
    )
    check(body, "bar.sync 0;", "race", ["thread 0 reads s[0], which thread 1 wrote"], block=64)


def test_a_thread_may_do_what_it_likes_with_its_own():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; ld.shared.u32 %r6, [%r8]; st.shared.u32 [%r8], 3;
        ld.shared.u32 %r6, [%r8]; add.u64 %rd1, %y, %rd0; st.global.u32 [%rd1], %r6;
        ld.global.u32 %r5, [%rd1]; st.global.u32 [%rd1], %r5;"""
    )
    assert faults_of(body, block=256, grid=3, y=np.zeros(768, np.uint32)) == ([], [])


def test_threads_that_left_early_are_not_waited_for():
    """The second warp has gone: the first may meet alone, and knows nothing of it."""
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; {edge} setp.ge.u32 %p1, %r0, 32; @%p1 exit;
        bar.sync 0; ld.shared.u32 %r6, [%r8+128];"""
    )
    check(body, "bar.sync 1, 64;", "race", ["which thread 32 wrote"], block=64)


def test_a_block_of_no_whole_warps_meets_all_the_same():
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; {edge} mov.u32 %r5, 39; sub.u32 %r5, %r5, %r0;
        shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r9; ld.shared.u32 %r6, [%r5];"""
    )
    check(body, "bar.sync 0;", "race", ["thread 0 reads s[39], which thread 39 wrote"], block=40)


@pytest.mark.parametrize("schedule", ["random:1", "random:2", "random:3"])
def test_the_order_of_warps_does_not_hide_a_race(schedule):
    body = (
        OWN
        + """st.shared.u32 [%r8], %r0; {edge} xor.b32 %r7, %r8, 512; ld.shared.u32 %r6, [%r7];
        bar.sync 0; st.shared.u32 [%r8], 3;"""
    )
    check(body, "bar.sync 0;", "race", ["s["], block=256, schedule=schedule)


# --- global memory -------------------------------------------------------------------------------


def zeros(*names, size=256):
    return {name: np.zeros(size, np.uint32) for name in names}


def test_two_blocks_that_store_to_one_place():
    body = OWN + "mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %y, %rd1; st.global.u32 [%rd1], %r1;"
    found, messages = faults_of(body, block=32, grid=2, **zeros("y"))
    assert found == ["race"]
    assert "thread 0 and thread 0 of block 1 both store to y[0]" in messages[0]
    apart = body.replace(
        "mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %y, %rd1", "add.u64 %rd1, %y, %rd0"
    )
    assert faults_of(apart, block=32, grid=2, **zeros("y")) == ([], [])


def test_a_halo_that_a_neighbouring_block_overwrites():
    """x[i] = x[i + 1] in place: the last thread of a block reads what the next block writes."""
    body = (
        OWN
        + """add.u64 %rd1, %x, %rd0; ld.global.u32 %r5, [%rd1+4]; bar.sync 0;
        add.u64 %rd2, {to}, %rd0; st.global.u32 [%rd2], %r5;"""
    )
    inputs = zeros("x", "y", size=65)
    found, messages = faults_of(body.replace("{to}", "%x"), block=32, grid=2, **inputs)
    assert found == ["race"]
    assert "thread 0 of block 1" in messages[0] or "thread 31 of block 0" in messages[0]
    assert "no release and acquire orders the two blocks" in messages[0]
    assert faults_of(body.replace("{to}", "%y"), block=32, grid=2, **inputs) == ([], [])


def test_a_barrier_orders_global_memory_within_a_block():
    body = (
        OWN
        + """add.u64 %rd1, %y, %rd0; st.global.u32 [%rd1], %r0; {edge} xor.b64 %rd2, %rd0, 128;
        add.u64 %rd2, %y, %rd2; ld.global.u32 %r5, [%rd2];"""
    )
    check(
        body,
        "bar.sync 0;",
        "race",
        ["thread 0 reads y[32], which thread 32 wrote"],
        block=64,
        **zeros("y"),
    )


def message(first="", then="", read="ld.acquire.gpu.global.u32", write="st.release.gpu.global.u32"):
    """Block 0 writes x[0] and raises a flag; block 1 polls the flag and reads x[0]."""
    return (
        OWN
        + f"""
        setp.ne.u32 %p1, %r0, 0; @%p1 exit; setp.ne.u32 %p2, %r1, 0; @%p2 bra CONSUMER;
        st.global.u32 [%x], 42; {first} {write} [%flag], 1; exit;
        CONSUMER: POLL: {read} %r5, [%flag]; setp.eq.u32 %p3, %r5, 0; @%p3 bra POLL; {then}
        ld.global.u32 %r6, [%x]; st.global.u32 [%y], %r6;
    """
    )


MESSAGES = [
    (message(), []),
    (message(read="ld.relaxed.gpu.global.u32"), ["race"]),
    (message(write="st.relaxed.gpu.global.u32"), ["race"]),
    (message(FENCE, FENCE, "ld.relaxed.gpu.global.u32", "st.relaxed.gpu.global.u32"), []),
    (message(FENCE, "", "ld.relaxed.gpu.global.u32", "st.relaxed.gpu.global.u32"), ["race"]),
    (message("", FENCE, "ld.relaxed.gpu.global.u32", "st.relaxed.gpu.global.u32"), ["race"]),
    (message("membar.gl;", "membar.gl;", "ld.volatile.global.u32", "st.volatile.global.u32"), []),
    (message("", "", "ld.volatile.global.u32", "st.volatile.global.u32"), ["race"]),
    (message(write="red.release.gpu.global.add.u32"), []),
    (message(write="red.release.cluster.global.add.u32"), ["race", "scope"]),
    (message(read="ld.acquire.cta.global.u32"), ["race", "scope"]),
    (message(FENCE, "", write="red.relaxed.gpu.global.add.u32"), []),
    (
        message("membar.cta;", "membar.gl;", "ld.volatile.global.u32", "st.volatile.global.u32"),
        ["race"],
    ),
    (
        message(
            FENCE, "fence.acq_rel.cta;", "ld.relaxed.gpu.global.u32", "st.relaxed.gpu.global.u32"
        ),
        ["race"],
    ),
]


@pytest.mark.parametrize(("body", "wanted"), MESSAGES)
def test_a_message_through_a_flag(body, wanted):
    inputs = zeros("x", "y", "flag", size=1)
    found, messages = faults_of(body, block=32, grid=2, **inputs)
    assert found == wanted, messages
    assert inputs["y"][0] == 42


def test_a_flag_that_is_polled_with_plain_loads_races():
    body = message(read="ld.global.u32", write="st.global.u32")
    body = body.replace(
        "POLL: ld.global.u32 %r5, [%flag]; setp.eq.u32 %p3, %r5, 0; @%p3 bra POLL;",
        "ld.global.u32 %r5, [%flag];",
    )
    found, _ = faults_of(body, block=32, grid=2, **zeros("x", "y", "flag", size=1))
    assert found == ["race"]


@pytest.mark.parametrize("threads", [32, 128])
def test_many_lanes_hand_over_each_its_own(threads):
    """More lanes than are told apart release at once; each consumer waits for its own flag."""
    body = (
        OWN
        + """mul.wide.u32 %rd1, %r0, 4; add.u64 %rd2, %x, %rd1; add.u64 %rd3, %flag, %rd1;
        setp.ne.u32 %p2, %r1, 0; @%p2 bra CONSUMER;
        st.global.u32 [%rd2], %r0; {edge} red.relaxed.gpu.global.add.u32 [%rd3], 1; exit;
        CONSUMER: POLL: ld.acquire.gpu.global.u32 %r5, [%rd3]; setp.eq.u32 %p3, %r5, 0; @%p3 bra POLL;
        ld.global.u32 %r6, [%rd2]; add.u64 %rd4, %y, %rd1; st.global.u32 [%rd4], %r6;
    """
    )
    inputs = zeros("x", "y")
    check(
        body,
        FENCE,
        "race",
        ["reads x[0], which thread 0 of block 0 wrote"],
        block=threads,
        grid=2,
        **inputs,
        **zeros("flag"),
    )
    assert inputs["y"][:threads].tolist() == list(range(threads))


def last_block(barrier, order="acq_rel"):
    """Each block writes part[block] with all its threads, counts itself done, and the last one adds
    everything up: the barrier before the count is what is in question."""
    return (
        OWN
        + f"""
        add.u64 %rd1, %part, %rd0; st.global.u32 [%rd1], %r0; {barrier}
        .shared .b32 last; setp.ne.u32 %p1, %r0, 0; @%p1 bra MEET;
        atom.{order}.gpu.global.add.u32 %r4, [%count], 1; st.shared.u32 [last], %r4;
        MEET: bar.sync 0; ld.shared.u32 %r4, [last]; setp.ne.u32 %p2, %r4, 3; @%p2 exit;
        mul.wide.u32 %rd2, %r0, 4; add.u64 %rd3, %part, %rd2; mov.u32 %r7, 0; mov.u32 %r10, 0;
        SUM: ld.global.u32 %r6, [%rd3]; add.u32 %r7, %r7, %r6; add.u64 %rd3, %rd3, 256;
        add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 4; @%p3 bra SUM;
        add.u64 %rd4, %y, %rd2; st.global.u32 [%rd4], %r7;
    """
    )


def test_the_last_block_sees_what_the_others_counted_in():
    inputs = zeros("part", "y") | zeros("count", size=1)
    assert faults_of(last_block("bar.sync 0;"), block=64, grid=4, **inputs) == ([], [])
    assert inputs["y"][:64].tolist() == [4 * i for i in range(64)]


def test_a_count_before_the_block_has_met_covers_one_thread_only():
    inputs = zeros("part", "y") | zeros("count", size=1)
    found, messages = faults_of(last_block(""), block=64, grid=4, **inputs)
    assert found == ["race"]
    assert "reads part[" in messages[0] and "no release and acquire orders" in messages[0]


def test_a_count_without_order_covers_nothing():
    inputs = zeros("part", "y") | zeros("count", size=1)
    found, _ = faults_of(last_block("bar.sync 0;", "relaxed"), block=64, grid=4, **inputs)
    assert found == ["race"]


def test_blocks_of_different_waves_race_too():
    """More threads than run together: the second wave must still see the first's accesses."""
    body = (
        OWN
        + """setp.ne.u32 %p1, %r0, 0; @%p1 exit; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %y, %rd1;
        st.global.u32 [%rd1], %r1; setp.ne.u32 %p2, %r1, 39; @%p2 exit; {last}"""
    )
    inputs = zeros("y", size=40)
    late = body.replace("{last}", "ld.global.u32 %r5, [%y];")
    found, messages = faults_of(late, block=1024, grid=40, **inputs)
    assert found == ["race"] and "which a thread of an earlier block wrote" in messages[0]
    own = body.replace("{last}", "ld.global.u32 %r5, [%y+156];")
    assert faults_of(own, block=1024, grid=40, **inputs) == ([], [])


def test_data_that_the_kernel_wrote_is_not_for_the_read_only_cache():
    body = OWN + "add.u64 %rd1, %y, %rd0; {write} ld.global.nc.u32 %r5, [%rd1];"
    found, messages = faults_of(
        body.replace("{write}", "st.global.u32 [%rd1], 1;"), block=32, **zeros("y")
    )
    assert found == ["race"] and "ld.global.nc" in messages[0]
    assert faults_of(body.replace("{write}", ""), block=32, **zeros("y")) == ([], [])


# --- clusters ------------------------------------------------------------------------------------

NEIGHBOUR = (
    OWN
    + """
    mov.u32 %r10, %cluster_ctarank; xor.b32 %r11, %r10, 1; mapa.shared::cluster.u32 %r12, %r8, %r11;
"""
)
MEET = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
RELAXED = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"


def test_another_block_s_memory_is_read_after_the_cluster_has_met():
    body = (
        NEIGHBOUR
        + f"""st.shared.u32 [%r8], %r0; {RELAXED} {{edge}} ld.shared::cluster.u32 %r5, [%r12];
        {MEET}"""
    )
    words = ["no barrier of the cluster lies between the two", "of block"]
    check(body, MEET, "race", words, block=32, grid=2, cluster=2)


def test_another_block_s_memory_is_written_after_it_was_read():
    body = (
        NEIGHBOUR
        + f"""st.shared.u32 [%r8], %r0; {MEET} ld.shared::cluster.u32 %r5, [%r12]; {{edge}}
        st.shared.u32 [%r8], 4; {MEET}"""
    )
    check(
        body,
        MEET,
        "race",
        ["writes s[0], which thread 0 of block 1 read"],
        block=32,
        grid=2,
        cluster=2,
    )


def test_a_block_s_own_addresses_are_not_another_block_s():
    body = NEIGHBOUR + f"st.shared.u32 [%r8], %r0; {MEET} ld.shared{{way}}.u32 %r5, [%r12]; {MEET}"
    launch = {"block": 32, "grid": 2, "cluster": 2}
    found, messages = faults_of(body.replace("{way}", "::cta"), **launch)
    assert found == ["out_of_bounds"] and ".shared::cluster is meant" in messages[0]
    assert faults_of(body.replace("{way}", "::cluster"), **launch) == ([], [])


# --- asynchronous copies -------------------------------------------------------------------------

COPY = (
    OWN
    + """shl.b32 %r7, %r0, 4; add.u32 %r7, %r7, %r9; mul.wide.u32 %rd1, %r0, 16; add.u64 %rd1, %x, %rd1;
    cp.async.ca.shared.global [%r7], [%rd1], 16; cp.async.commit_group;"""
)


def words(count=256):
    room = np.zeros(count + 4, np.uint32)
    x = room[(-room.ctypes.data // 4) % 4 :][:count]
    x[:] = np.arange(count)
    return x


def test_a_copy_that_nobody_waited_for_is_read():
    body = COPY + "{edge} ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r7]; cp.async.wait_all;"
    names = ["reads s[0], which a cp.async copy writes", "no cp.async.wait_group"]
    check(body, "cp.async.wait_group 0;", "read_before_wait", names, block=64, x=words())


def test_each_thread_waits_for_its_own_copies_only():
    body = (
        COPY
        + """cp.async.wait_group 0; {edge} xor.b32 %r7, %r7, 16; ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r7];"""
    )
    check(body, "bar.sync 0;", "read_before_wait", ["thread 0 reads s[4]"], block=64, x=words())


def test_a_wait_that_leaves_the_group_open():
    body = (
        COPY
        + """add.u32 %r6, %r7, 512; cp.async.ca.shared.global [%r6], [%rd1], 16; cp.async.commit_group;
        {edge} ld.shared.u32 %r5, [%r6]; cp.async.wait_all;"""
    )
    wrong = body.replace("{edge}", "cp.async.wait_group 1;")
    found, messages = faults_of(wrong, block=32, x=words())
    assert found == ["read_before_wait"], messages
    assert faults_of(body.replace("{edge}", "cp.async.wait_group 0;"), block=32, x=words()) == (
        [],
        [],
    )


def test_a_copy_into_memory_that_is_still_being_read():
    body = (
        OWN
        + """shl.b32 %r7, %r0, 4; add.u32 %r7, %r7, %r9; mul.wide.u32 %rd1, %r0, 16; add.u64 %rd1, %x, %rd1;
        st.shared.v4.u32 [%r7], {%r0, %r0, %r0, %r0}; bar.sync 0; xor.b32 %r6, %r7, 512; ld.shared.u32 %r5, [%r6];
        {edge} cp.async.ca.shared.global [%r7], [%rd1], 16; cp.async.wait_all;"""
    )
    names = ["A cp.async copy overwrites s[0], which thread 32 read"]
    check(body, "bar.sync 0;", "race", names, block=64, x=words())


def test_a_store_over_a_copy_in_flight():
    body = COPY + "{edge} st.shared.u32 [%r7], 1; cp.async.wait_all;"
    names = ["thread 0 writes s[0], which a cp.async copy writes"]
    check(body, "cp.async.wait_all;", "race", names, block=64, x=words())


def test_a_source_that_is_overwritten_while_it_is_copied():
    body = COPY + "{edge} st.global.u32 [%rd1], 1; cp.async.wait_all;"
    names = ["thread 0 writes x[0], which a cp.async copy reads"]
    check(body, "cp.async.wait_all;", "overwritten_in_flight", names, block=64, x=words())


def test_two_copies_into_one_place_are_unordered():
    body = (
        COPY
        + """{edge} cp.async.ca.shared.global [%r7], [%rd1], 16; cp.async.commit_group; cp.async.wait_all;"""
    )
    check(
        body, "cp.async.wait_all;", "race", ["A cp.async copy overwrites s[0]"], block=32, x=words()
    )


# --- mbarrier objects ----------------------------------------------------------------------------


def test_an_mbarrier_is_not_ordinary_memory():
    body = (
        OWN
        + """setp.ne.u32 %p1, %r0, 0; @%p1 exit; mbarrier.init.shared.b64 [%r9], 1; {edge}
        ld.shared.u64 %rd5, [%r9+{at}];"""
    )
    plain = body.replace("{edge}", "")
    found, messages = faults_of(plain.replace("{at}", "0"), block=32)
    assert found == ["mbarrier"] and "as ordinary memory" in messages[0]
    over = "mbarrier.inval.shared.b64 [%r9]; st.shared.u64 [%r9], %rd0;"
    assert faults_of(body.replace("{edge}", over).replace("{at}", "0"), block=32) == ([], [])

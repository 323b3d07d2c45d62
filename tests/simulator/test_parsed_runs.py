"""What the parser gives runs as it was written: scopes, variables with data, calls, tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import run_ptx


def run(body: str, module: str = "", words: int = 4) -> list[int]:
    """The first words of ``out`` after one warp ran ``body``, whose thread 0 should store."""
    out = np.zeros(words, np.uint32)
    body = f"mov.u32 %r100, %tid.x;\nsetp.ne.u32 %p31, %r100, 0;\n@%p31 bra END;\n{body}\nEND:"
    result = run_ptx(body, module=module, out=out)
    assert result.faults == []
    return out.tolist()


def test_blocks_of_inline_assembly_do_not_touch_one_another() -> None:
    block = """
    {{ .reg .pred p; .reg .b32 %r<2>; mov.b32 %r1, {0}; setp.eq.u32 p, %r1, 2;
       @p bra DONE; st.global.b32 [%out+{1}], %r1; DONE: }}
    """
    body = "mov.b32 %r1, 9;" + block.format(1, 0) + block.format(2, 4) + block.format(3, 8)
    assert run(body + "st.global.b32 [%out+12], %r1;") == [1, 0, 3, 9]


def test_initial_data_and_the_addresses_in_it() -> None:
    module = """
    .const .u32 squares[] = {0, 1, 4, 9};
    .global .align 8 .u32 matrix[2][2] = { {5}, {6, 7} };
    .global .u64 pointers[2] = { generic(matrix)+8, matrix };
    .const .u64 to_const = generic(squares);
    """
    body = """
    ld.const.u32 %r1, [squares+12];     st.global.u32 [%out], %r1;
    ld.global.u64 %rd1, [pointers];     ld.global.u32 %r1, [%rd1+4]; st.global.u32 [%out+4], %r1;
    mov.u64 %rd2, pointers;             ld.global.u64 %rd1, [%rd2+8];
    ld.global.v2.u32 {%r1, %r2}, [%rd1]; st.global.u32 [%out+8], %r1;
    ld.const.u64 %rd3, [to_const];      ld.u32 %r3, [%rd3+8]; st.global.u32 [%out+12], %r3;
    """
    assert run(body, module) == [9, 7, 5, 4]


def test_vector_registers_and_constant_expressions() -> None:
    body = """
    .reg .v4 .b32 four;
    mov.b32 four.x, 3 * (2 + 5) - 1;  mov.b32 four.y, 1 << 4 | 2;
    mov.b32 four.b, WARP_SZ / 5 > 6 ? 017 : 0b11;  mov.b32 four.w, ~0;
    st.global.v4.b32 [%out], four;
    """
    assert run(body) == [20, 18, 3, 0xFFFFFFFF]


def test_addresses_of_variables_with_offsets() -> None:
    module = ".shared .align 16 .b32 table[8];"
    body = """
    mov.b32 %r1, table+8;  mov.b32 %r2, table[2];  mov.b32 %r3, table;
    sub.u32 %r4, %r1, %r3; sub.u32 %r5, %r2, %r3;
    st.global.v2.b32 [%out], {%r4, %r5};
    mov.b32 %r6, 77; st.shared.b32 [table+8], %r6; ld.shared.b32 %r7, [%r2+-0];
    st.global.b32 [%out+8], %r7;
    """
    assert run(body, module) == [8, 8, 77, 0]


def test_special_registers_as_numbers_and_predicates() -> None:
    body = """
    mov.u32 %r1, %ntid.x; mov.u32 %r2, %ntid.y; mov.pred %p1, %is_explicit_cluster;
    selp.u32 %r3, 5, 6, %p1; mov.u64 %rd1, %gridid; cvt.u32.u64 %r4, %rd1;
    st.global.v4.b32 [%out], {%r1, %r2, %r3, %r4};
    """
    assert run(body) == [32, 1, 6, 1]


def test_a_special_register_that_is_not_simulated_is_named() -> None:
    with pytest.raises(Exception, match="%pm3 is not simulated"):
        run("mov.u32 %r1, %pm3;")


def test_a_table_of_branches() -> None:
    body = """
    mov.b32 %r1, 2;
    ts: .branchtargets A, B, C;
    brx.idx %r1, ts;
    A: mov.b32 %r2, 10; bra STORE;
    B: mov.b32 %r2, 20; bra STORE;
    C: mov.b32 %r2, 30;
    STORE: st.global.b32 [%out], %r2;
    """
    assert run(body, words=1) == [30]


def test_functions_take_parameters_in_memory_and_in_registers() -> None:
    module = """
    .func (.reg .u32 rv) twice (.reg .u32 a) { add.u32 rv, a, a; ret; }
    .func (.param .b32 rv) plus (.param .b32 a, .param .b32 b)
    { .reg .b32 %r<4>; ld.param.b32 %r1, [a]; ld.param.b32 %r2, [b]; add.s32 %r3, %r1, %r2;
      st.param.b32 [rv], %r3; ret; }
    """
    body = """
    mov.b32 %r1, 21;
    call.uni (%r2), twice, (%r1);
    st.global.b32 [%out], %r2;
    { .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 param1; st.param.b32 [param1], 4;
      .param .b32 retval0; call.uni (retval0), plus, (param0, param1);
      ld.param.b32 %r3, [retval0]; }
    st.global.b32 [%out+4], %r3;
    """
    assert run(body, module, words=2) == [42, 25]


def test_a_call_within_a_call_under_a_guard_with_branches_and_tables() -> None:
    module = """
    .func (.reg .b32 r) pick (.reg .b32 i)
    { .reg .pred p; ts: .branchtargets A, B; setp.gt.u32 p, i, 1; @p bra OTHER; brx.idx i, ts;
      A: mov.b32 r, 5; ret; B: mov.b32 r, 6; ret; OTHER: mov.b32 r, 7; ret; }
    .func (.reg .b32 r) both (.reg .b32 i, .reg .pred q)
    { .reg .b32 a; mov.b32 r, 100; @!q ret; call (r), pick, (i); add.u32 i, i, 1;
      call (a), pick, (i); mad.lo.u32 r, r, 10, a; ret; }
    """
    body = """
    setp.eq.u32 %p1, %r100, 0; mov.b32 %r1, 0; mov.b32 %r2, 1; mov.b32 %r3, 9; mov.b32 %r4, 9;
    call (%r1), both, (%r1, %p1);     // 5, then 6
    call (%r2), both, (%r2, %p1);     // 6, then 7
    @!%p1 call (%r3), pick, (0);      // not called
    not.pred %p2, %p1;
    call (%r4), both, (%r4, %p2);     // returns at once
    st.global.v4.b32 [%out], {%r1, %r2, %r3, %r4};
    """
    assert run(body, module) == [56, 67, 9, 100]


def test_shared_memory_of_a_function_is_the_same_in_every_call() -> None:
    module = """
    .func (.reg .b32 old) exchange (.reg .b32 new)
    { .shared .b32 kept; ld.shared.b32 old, [kept]; st.shared.b32 [kept], new; ret; }
    .func put (.reg .b32 new) { .reg .b32 t; call (t), exchange, (new); ret; }
    """
    body = """
    .reg .b32 a;
    call put, (11); call (a), exchange, (22); st.global.b32 [%out], a;
    call (a), exchange, (33); st.global.b32 [%out+4], a;
    """
    out = np.zeros(2, np.uint32)
    result = run_ptx(f"mov.u32 %r1, %tid.x;\n{body}", module=module, out=out, block=1)
    assert out.tolist() == [11, 22]
    assert [str(each.kind) for each in result.faults] == ["uninitialised"]  # the first exchange


def test_recursion_is_refused_by_name() -> None:
    module = ".func f { call f; ret; }"
    with pytest.raises(Exception, match="the function 'f' can't be called here"):
        run("call f;", module)

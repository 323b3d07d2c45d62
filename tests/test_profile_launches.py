"""tests/gpu/profile_launches.py: what it makes of Nsight Compute's table, and what it launches."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

PATH = Path(__file__).parent / "gpu" / "profile_launches.py"
SPEC = importlib.util.spec_from_file_location("profile_launches", PATH)
tool = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = tool  # dataclasses look their module up
SPEC.loader.exec_module(tool)

PUSHED = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
STARTED = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
BULK = "kernel_cutlass_bulk_silu_kernel_tensorptrf32gmemalign16o204820481_tensorptrf32gmema_0"
EAGER = "void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, c10::BFloat16>(T4 *, const T2 *)"
BASE = {  # metric: unit, value
    "gpu__time_duration.sum": ("ns", "523,360"),
    "dram__bytes_read.sum": ("byte", "1,073,752,064"),
    "dram__bytes_write.sum": ("byte", "1,051,000,000"),
    "dram__bytes_read.sum.pct_of_peak_sustained_elapsed": ("%", "42.504"),
    "dram__bytes_write.sum.pct_of_peak_sustained_elapsed": ("%", "41.6"),
    "lts__t_sector_hit_rate.pct": ("%", "33.337"),
    "sm__cycles_active.min": ("cycle", "1,008,478"),
    "sm__cycles_active.avg": ("cycle", "1,015,253.96"),
    "sm__cycles_active.max": ("cycle", "1,021,556"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "71.25"),
    "launch__registers_per_thread": ("register/thread", "40"),
    "launch__shared_mem_per_block_static": ("byte/block", "16"),
    "launch__shared_mem_per_block_dynamic": ("byte/block", "8,320"),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": ("sector", "1,000"),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": ("sector", "24"),
    "launch__grid_size": ("", "1,584"),
    "launch__block_size": ("", "128"),
    "launch__cluster_size": ("", "0"),
}


def kernel(call: int, name: str = BULK, **values: str) -> dict[str, str]:
    """A line of the table. values: metrics' other than BASE's, by the field of their first."""
    of_field = {field.name: field.metrics[0] for field in tool.FIELDS}
    pushed = f'4711  "<default domain>:ladder-call-{call}:none:none:none:none:none:none" '
    row = {"Process ID": "4711", "Kernel Name": name, PUSHED: pushed, STARTED: ""}
    row |= {metric: value for metric, (_, value) in BASE.items()}
    return row | {of_field[field]: value for field, value in values.items()}


def table(*kernels: dict[str, str], units: dict[str, str] | None = None) -> str:
    """The raw page with ncu's lines around it. units: of metrics that are not in BASE's."""
    names = ["ID", "Process ID", PUSHED, STARTED, "Kernel Name", *BASE]
    of_metric = {metric: unit for metric, (unit, _) in BASE.items()} | (units or {})
    written = io.StringIO()
    lines = csv.DictWriter(written, names, restval="", quoting=csv.QUOTE_ALL, lineterminator="\n")
    lines.writeheader()
    lines.writerow(of_metric)
    for index, row in enumerate(kernels):
        lines.writerow({"ID": str(index), **row})
    return f"==PROF== Connected to process 4711\n{written.getvalue()}==PROF== Disconnected\n"


def rows(text: str, *labels: dict[str, object]) -> list[dict[str, object]]:
    return tool.rows_of(list(labels), tool.read_raw_page(text))


def test_a_kernel_becomes_a_row_in_the_units_of_the_file() -> None:
    (row,) = rows(table(kernel(0)), {"name": "bulk_silu persistent", "dtype": "float32"})
    assert row == {
        "name": "bulk_silu persistent",
        "dtype": "float32",
        "kernel": "bulk_silu_kernel",
        "kernels": 1,
        "time_us": 523.36,
        "dram_gb_read": 1.0738,
        "dram_gb_written": 1.051,
        "dram_percent": 84.1,
        "l2_hit_percent": 33.34,
        "sm_cycles_active_min": 1008478,
        "sm_cycles_active_avg": 1015254,
        "sm_cycles_active_max": 1021556,
        "occupancy_percent": 71.25,
        "registers": 40,
        "shared_bytes": 8336,
        "local_bytes": 32 * 1024,
        "blocks": 1584,
        "threads": 128,
        "cluster": 1,
    }
    assert json.loads(json.dumps(row)) == row


def test_several_kernels_of_a_call_are_added_up() -> None:
    short = kernel(0, time_us="100,000", dram_gb_read="5e8", dram_percent="10", blocks="7")
    long = kernel(0, EAGER, time_us="300,000", dram_gb_read="1e9", dram_percent="50", blocks="9")
    other = kernel(1, cluster="16")
    first, second = rows(table(short, long, other), {"name": "eager"}, {"name": "solution"})
    assert (first["kernels"], first["time_us"], first["dram_gb_read"]) == (2, 400.0, 1.5)
    assert first["local_bytes"] == 2 * 32 * 1024
    assert first["dram_percent"] == 81.6  # (100 * 51.6 + 300 * 91.6) / 400: by time
    assert (first["kernel"], first["blocks"]) == ("cunn_SoftMaxForward", 9)  # the longest
    assert (second["kernels"], second["time_us"], second["cluster"]) == (1, 523.36, 16)


def test_scaled_units_are_scaled_back() -> None:
    units = {
        "gpu__time_duration.sum": "ms",
        "dram__bytes_read.sum": "Gbyte",
        "dram__bytes_write.sum": "Mbyte",
        "launch__shared_mem_per_block_dynamic": "Kbyte/block",
    }
    scaled = kernel(0, time_us="0.52", dram_gb_read="1.07", dram_gb_written="1,050.5")
    scaled["launch__shared_mem_per_block_dynamic"] = "8.32"
    (row,) = rows(table(scaled, units=units), {"name": "bulk_silu"})
    assert (row["time_us"], row["dram_gb_read"], row["dram_gb_written"]) == (520.0, 1.07, 1.0505)
    assert row["shared_bytes"] == 8336


def test_what_ncu_could_not_count_is_null() -> None:
    (row,) = rows(table(kernel(0, l2_hit_percent="n/a", registers="nan")), {"name": "bulk_silu"})
    assert (row["l2_hit_percent"], row["registers"], row["blocks"]) == (None, None, 1584)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (BULK, "bulk_silu_kernel"),
        (
            "kernel_cutlass_ring_silu_kernel_CopyAtom_ThrID10_TVLayoutSrc1204801_0",
            "ring_silu_kernel",
        ),
        ("kernel_cutlass_kernel_quacksoftmaxSoftmax_object_at__0", "kernel_quacksoftmaxSoftmax"),
        (EAGER, "cunn_SoftMaxForward"),
        ("void (anonymous namespace)::softmax_warp_forward<A, B, 10>(A *)", "softmax_warp_forward"),
        ("triton_red_fused__softmax_0", "triton_red_fused__softmax_0"),
        ("tuned_long_kernel", "tuned_long_kernel"),
    ],
)
def test_a_kernels_name_is_shortened_to_its_function(name: str, short: str) -> None:
    assert tool.short_name(name) == short


def test_a_call_without_a_kernel_is_an_error_that_names_it() -> None:
    with pytest.raises(tool.ProfileError, match="no kernel in the call {'name': 'second'}"):
        rows(table(kernel(0)), {"name": "first"}, {"name": "second"})


def test_a_kernel_outside_of_all_ranges_is_an_error() -> None:
    with pytest.raises(tool.ProfileError, match="no NVTX range for kernel_cutlass_bulk"):
        tool.read_raw_page(table(kernel(0) | {PUSHED: ""}))


def test_a_missing_column_is_an_error_that_names_it() -> None:
    text = table(kernel(0)).replace("launch__cluster_size", "launch__other")
    with pytest.raises(tool.ProfileError, match="lacks launch__cluster_size$"):
        tool.read_raw_page(text)


def test_no_table_is_an_error_with_ncus_words() -> None:
    text = (
        "==PROF== Connected to process 1\n==ERROR== Failed to find metric regex:^dram__bytes_read\n"
    )
    with pytest.raises(tool.ProfileError, match="It said: ==ERROR== Failed to find metric"):
        tool.read_raw_page(text)


def run_main(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("OUT", str(folder))
    monkeypatch.setattr(sys, "argv", ["profile_launches.py", "ch05"])
    tool.main()


def fake_ncu(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """An ncu that is a shell script: ${@: -1} are the labels, what follows --log-file the table."""
    (folder / "ncu").write_text(f'#!/bin/bash\n{script}\necho "$@" > {folder}/arguments\n')
    (folder / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_ncu_the_tool_ends_with_what_it_wanted(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="ncu is not on the PATH: install Nsight Compute"):
        run_main(monkeypatch, tmp_path)


def test_a_failing_ncu_is_quoted_and_nothing_is_written(monkeypatch, tmp_path) -> None:
    words = "==ERROR== ERR_NVGPUCTRPERM - no permission"
    script = f'echo "{words}" > {tmp_path}/profile_ch05_ncu.csv; exit 9'
    fake_ncu(monkeypatch, tmp_path, script)
    with pytest.raises(SystemExit, match="launches of ch05 ended with status 9.*ERR_NVGPUCTRPERM"):
        run_main(monkeypatch, tmp_path)
    assert not (tmp_path / "profile_ch05_h200.json").exists()


def test_what_ncu_counted_is_written_with_the_machine(monkeypatch, tmp_path) -> None:
    (tmp_path / "given.csv").write_text(table(kernel(0)))
    script = f"""cp {tmp_path}/given.csv {tmp_path}/profile_ch05_ncu.csv
        echo '[{{"name": "bulk_silu", "dtype": "float32"}}]' > "${{@: -1}}" """
    fake_ncu(monkeypatch, tmp_path, script)
    run_main(monkeypatch, tmp_path)
    written = json.loads((tmp_path / "profile_ch05_h200.json").read_text())
    assert written["schema"] == 1 and written["machine"]["torch"] == torch.__version__
    assert [(row["name"], row["registers"]) for row in written["rows"]] == [("bulk_silu", 40)]
    arguments = (tmp_path / "arguments").read_text()
    assert f"--log-file {tmp_path}/profile_ch05_ncu.csv {sys.executable}" in arguments
    assert "--csv --page raw --print-units base --clock-control none --nvtx" in arguments
    assert ",".join(BASE) in arguments


def test_a_call_is_warmed_and_then_made_once_for_ncu(monkeypatch) -> None:
    done = []
    for module, name in (
        (torch.cuda, "synchronize"),
        (torch.cuda.profiler, "start"),
        (torch.cuda.profiler, "stop"),
        (torch.cuda.nvtx, "range_push"),
        (torch.cuda.nvtx, "range_pop"),
    ):
        monkeypatch.setattr(module, name, lambda *a, name=name: done.append(" ".join([name, *a])))

    def refused() -> None:
        raise RuntimeError("not made for this length")

    calls = [
        tool.Call({"name": "quack"}, refused, optional=True),
        tool.Call({"name": "a"}, lambda: done.append("a")),
        tool.Call({"name": "b"}, lambda: done.append("b")),
    ]
    assert tool.launch(calls) == [{"name": "a"}, {"name": "b"}]
    expected = []
    for index, name in enumerate("ab"):
        expected += [name, "synchronize", "start", f"range_push ladder-call-{index}"]
        expected += [name, "synchronize", "range_pop", "stop"]
    assert done == expected
    with pytest.raises(RuntimeError, match="not made"):
        tool.launch([tool.Call({"name": "solution"}, refused)])


def test_silu_runs_with_few_with_some_and_with_all_blocks() -> None:
    constants = {"THREADS": 128, "VECTORS": 2, "STAGES": 4, "BULK_BYTES": 8192, "RING_ROWS": 16}
    constants |= {"RING_ROW_BYTES": 512, "RING_STAGES": 3, "TILES_PER_BLOCK": 6}
    asked = []

    def most_blocks(*tile: object) -> int:
        asked.append(tile)
        return 12

    found = list(tool.silu_blocks(SimpleNamespace(**constants), most_blocks, 132))
    assert asked == [("pipelined", 4096, 4), ("bulk", 8192, 1), ("ring", 8192, 3)]
    assert [(name, blocks) for name, blocks, _ in found[:4]] == [
        ("direct_silu", None),
        ("pipelined_silu", 1584),
        ("pipelined_silu", None),
        ("pipelined_silu", 2**30 // 4096),
    ]
    assert [labels["name"] for _, _, labels in found[7:]] == [
        "ring_silu persistent",
        "ring_silu 6 tiles a block",
        "ring_silu a block a tile",
    ]
    assert found[8][2] == {
        "name": "ring_silu 6 tiles a block",
        "dtype": "float32",
        "tiles_per_block": 6,
    }

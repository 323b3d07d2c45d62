"""The doctor names what is broken, and the command that repairs it, from made-up installations."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checkers import installation
from checkers.doctor import Check, abilities, as_text, examine
from checkers.installation import GIB, Gpu, Installation

H100 = Gpu("NVIDIA H100 80GB HBM3", "580.159", (9, 0), 80 * GIB, 79 * GIB)
VERSIONS = {
    "torch": "2.13.0+cpu",
    "triton": "3.9.0",
    "nvidia-cutlass-dsl": "4.8.1",
    "nvidia-cutlass-dsl-libs-base": "4.8.1",
    "nvidia-cutlass-dsl-libs-core": "4.8.1",
    "nvidia-cutlass-dsl-libs-cu12": "4.8.1",
    "cuda-bindings": "13.5.0",
    "jupyterlab": "4.6.6",
    "ipykernel": "7.4.0",
}
IMPORTED = {
    "torch": {"cuda": None, "usable": False},
    "triton": {"file": "/x/triton/__init__.py"},
    "cutlass": {"file": "/x/nvidia_cutlass_dsl/dsl_packages/cutlass/__init__.py", "pth": True},
    "kernel": {"python": "python"},
    "tools": {"nvdisasm": True, "cuobjdump": True},
}


@pytest.fixture
def healthy(tmp_path: Path) -> Installation:
    """A laptop without a GPU on which everything that needs none works."""
    (tmp_path / "checkers" / "chapters").mkdir(parents=True)
    return Installation(
        root=tmp_path,
        python=(3, 12),
        system="Linux",
        architecture="x86_64",
        environment={},
        versions=VERSIONS,
        which=lambda name: f"/usr/bin/{name}" if name in ("g++", "gcc") else None,
        gpus=(),
        imported=IMPORTED,
        free_memory=8 * GIB,
    )


def line(machine: Installation, name: str) -> Check:
    found = [check for check in examine(machine) if check.name == name]
    assert found, f"no line called {name}"
    return found[0]


def with_version(machine: Installation, **versions: str | None) -> Installation:
    changed = dict(machine.versions)
    for name, version in versions.items():
        name = name.replace("_", "-")
        if version is None:
            del changed[name]
        else:
            changed[name] = version
    return replace(machine, versions=changed)


def with_import(machine: Installation, name: str, **facts: object) -> Installation:
    return replace(machine, imported={**machine.imported, name: facts})


def test_a_healthy_laptop_without_a_gpu_has_nothing_to_repair(healthy):
    checks = examine(healthy)
    assert {check.state for check in checks} == {"ok"}
    grades = dict(abilities(healthy, checks))
    for kind in ("Triton", "CuTe DSL"):
        assert grades[kind] == "all stages, on the simulator; speed is counted, not timed"


def test_a_healthy_gpu_machine_grades_everything(healthy):
    machine = replace(with_import(healthy, "torch", cuda="13.0", usable=True), gpus=(H100,))
    checks = examine(machine)
    assert {check.state for check in checks} == {"ok"}
    assert dict(abilities(machine, checks))["CuTe DSL"] == "all stages"


@pytest.mark.parametrize("python", [(3, 10), (3, 13)])
def test_a_python_the_course_does_not_support_is_named(healthy, python):
    check = line(replace(healthy, python=python), "Python")
    assert check.state == "fail"
    assert "python3.12 -m venv" in check.advice


@pytest.mark.parametrize(
    ("system", "architecture", "state", "advice"),
    [
        ("Darwin", "arm64", "fail", "no wheels"),
        ("Windows", "AMD64", "fail", "WSL 2"),
        ("Linux", "aarch64", "warn", "libcuda.so.1"),
    ],
)
def test_a_platform_that_is_not_linux_on_x86_says_what_works(
    healthy, system, architecture, state, advice
):
    check = line(replace(healthy, system=system, architecture=architecture), "Platform")
    assert check.state == state
    assert advice in check.advice


@pytest.mark.parametrize(
    ("name", "label", "old"), [("torch", "PyTorch", "2.9.1"), ("triton", "Triton", "3.5.1")]
)
def test_a_missing_old_or_broken_package_is_named_with_its_repair(healthy, name, label, old):
    missing = line(with_version(healthy, **{name: None}), label)
    assert (missing.state, missing.found) == ("fail", "not installed")
    assert missing.advice == "pip install -c .ci/constraints.txt -e ."
    outdated = line(with_version(healthy, **{name: old}), label)
    assert outdated.state == "warn"
    assert f"pip install '{name}>=" in outdated.advice
    broken = line(with_import(healthy, name, error="OSError: libfoo.so"), label)
    assert broken.state == "fail"
    assert "libfoo.so" in broken.found


def test_cute_wheels_of_different_versions_are_found(healthy):
    check = line(with_version(healthy, nvidia_cutlass_dsl_libs_cu12="4.8.0"), "CuTe DSL")
    assert check.state == "fail"
    assert "libs-cu12 4.8.0: they must match" in check.found
    assert "pip uninstall" in check.advice


def test_a_lost_pth_file_is_recognised(healthy):
    machine = with_import(healthy, "cutlass", error="No module named 'cutlass'", pth=False)
    assert "nvidia_cutlass_dsl_packages.pth is gone" in line(machine, "CuTe DSL").found


def test_another_package_called_cutlass_is_not_taken_for_cute(healthy):
    machine = with_import(healthy, "cutlass", file="/x/cutlass/__init__.py", pth=True)
    check = line(machine, "CuTe DSL")
    assert (check.state, "another package" in check.found) == ("fail", True)
    missing = with_version(healthy, nvidia_cutlass_dsl=None, nvidia_cutlass="4.2.0.0")
    assert "pip uninstall -y nvidia-cutlass;" in line(missing, "CuTe DSL").advice


def test_another_version_of_cute_asks_for_a_new_environment(healthy):
    versions = {
        name.replace("-", "_"): "4.7.0" for name in VERSIONS if name.startswith("nvidia-cutlass")
    }
    check = line(with_version(healthy, **versions), "CuTe DSL")
    assert check.state == "warn"
    assert "new environment" in check.advice


def test_a_cpu_build_of_pytorch_beside_a_gpu_is_named(healthy):
    check = line(replace(healthy, gpus=(H100,)), "PyTorch")
    assert check.state == "warn"
    assert "CPU build beside a GPU" in check.found


def test_a_driver_too_old_for_pytorchs_cuda_is_named(healthy):
    old = replace(H100, driver="550.54")
    machine = replace(with_import(healthy, "torch", cuda="13.0", usable=False), gpus=(old,))
    assert "580 or newer" in line(machine, "PyTorch").advice
    assert "cuda-bindings<13" in line(machine, "Driver").advice


def test_a_gpu_that_triton_does_not_support_is_named(healthy):
    machine = replace(healthy, gpus=(replace(H100, name="Tesla T4", capability=(7, 5)),))
    check = line(machine, "GPU")
    assert check.state == "fail"
    assert "8.0" in check.advice


def test_little_free_gpu_memory_is_named(healthy):
    machine = replace(healthy, gpus=(replace(H100, free=2 * GIB),))
    assert line(machine, "GPU memory").found == "2.0 GiB free"


def test_no_compiler_means_torch_compile_is_not_graded(healthy):
    machine = replace(healthy, which=lambda name: None)
    check = line(machine, "C++ compiler")
    assert check.state == "fail"
    assert "apt install g++" in check.advice
    assert "needs g++" in dict(abilities(machine, examine(machine)))["torch.compile"]


def test_a_kernel_that_runs_another_python_is_named(healthy):
    machine = with_import(healthy, "kernel", python="/opt/other/bin/python")
    assert "/opt/other/bin/python" in line(machine, "Jupyter").found


def test_environment_variables_that_change_what_is_compiled_are_named(healthy):
    machine = replace(healthy, environment={"CUTE_DSL_DRYRUN": "1", "TRITON_INTERPRET": "0"})
    (check,) = [check for check in examine(machine) if check.name == "Environment"]
    assert check.advice == "unset CUTE_DSL_DRYRUN"


def test_a_folder_without_a_course_is_named(healthy, tmp_path):
    check = line(replace(healthy, root=tmp_path / "elsewhere"), "Course folder")
    assert "LADDER_COURSE" in check.advice


def test_the_report_fits_80_columns_and_ends_with_what_to_fix(healthy):
    machine = with_version(healthy, torch=None)
    text = as_text(machine, examine(machine))
    shown = text.replace(str(machine.root), "/course")  # a path does not wrap
    assert max(map(len, shown.splitlines())) <= 80
    assert "   → pip install -c .ci/constraints.txt -e ." in text
    assert text.endswith("To be fixed first: PyTorch.\n")


def test_nvidia_smi_is_read(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho 'NVIDIA H200, 580.159.04, 9.0, 143771, 143000'\necho 'No devices found'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (gpu,) = installation.read_gpus()
    assert (gpu.name, gpu.driver, gpu.capability) == ("NVIDIA H200", "580.159.04", (9, 0))
    assert gpu.memory == 143771 * 2**20


def test_the_doctor_starts_where_no_dependency_is_installed():
    blocked = ("torch", "triton", "cutlass", "typer", "rich", "numpy", "jupytext")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "import checkers.doctor as doctor\n"
        "assert not [n for n in sys.modules if n.startswith('numpy.')]\n"
        "sys.stdout.write(doctor.__name__)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "checkers.doctor", process.stderr


def test_this_machine_is_examined_without_an_exception(ladder, in_course):
    in_course(Path(__file__).resolve().parent.parent)
    outcome = ladder("doctor")
    assert "What this machine grades:" in outcome.out
    assert "PyTorch" in outcome.out

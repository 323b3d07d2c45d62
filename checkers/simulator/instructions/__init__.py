"""The instruction families: a module for each, with the PTX ISA manual's sections in its docstring."""

# Imported in this order; each registers its translators.
MODULES = (
    "control",
    "integer",
    "bits",
    "floating",
    "half",
    "special",
    "convert",
    "select",
    "move",
    "cache",
    "loads",
    "atomics",
    "warp",
    "barriers",
    "mbarrier",
    "fences",
    "cp_async",
    "setmaxnreg",
    "tensormap",
    "remote",
    "matrix",
    "matrix_moves",
    "wgmma",
    "tcgen05",
)

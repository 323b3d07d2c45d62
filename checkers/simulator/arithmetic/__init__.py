"""The arithmetic of the GPU on NumPy arrays, bit for bit, with no machine around it.

A function takes and gives arrays of any shape (or NumPy scalars), elementwise. Rounding modes are
PTX's: "rn" nearest, ties to even; "rna" nearest, ties away from zero; "rz" to zero; "rm" down;
"rp" up. None sets a mode of the host's floating-point unit.

NaNs. The manual names one result only, the "canonical NaN", and gives no pattern for it: an H200
writes 0x7fffffff for f32 and 0x7fff for f16 and bf16, whatever NaN went in, and so do these
functions. An f64 NaN is passed on, quiet (double.py).

What the manual leaves open is as an H200 has it: tests/simulator/test_golden.py holds every
instruction against recorded results.
"""

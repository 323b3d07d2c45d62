"""Golden vectors: small PTX kernels that a real GPU ran once and the simulator runs in tests."""

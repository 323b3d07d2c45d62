"""Tensor cores: descriptors, layouts, wgmma's accumulators, Blackwell's tensor memory."""

"""Asynchronous work: the engine, cp.async, bulk and tensor copies, tensor maps."""

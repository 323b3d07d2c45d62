"""Waves of warps, groups that part and meet, registers, and how instructions become steps."""

"""Barriers: named ones, mbarriers, those of clusters and warps, and fences."""

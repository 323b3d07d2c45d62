"""Tests that need a GPU: all in this folder, skipped by name and with the reason where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent
REASON = "needs an NVIDIA GPU: PyTorch sees none here"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture(autouse=True)
def memory_given_back():
    """Each test starts with the whole GPU's memory."""
    yield
    torch.cuda.empty_cache()

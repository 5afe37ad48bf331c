"""One composer for all tests of the configuration: it remembers what it has read and composed."""

from __future__ import annotations

import pytest

from grpo.config.compose import Composer


@pytest.fixture(scope="session")
def composer() -> Composer:
    """conf/ of the repository."""
    return Composer()

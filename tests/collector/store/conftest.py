"""Every test of a store is one of both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databases import options
from taskveil.collector.store import Store, open_store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url, **options(store_url))
    yield store
    store.close()

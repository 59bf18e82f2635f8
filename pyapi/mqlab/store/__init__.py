"""The store: every raw sample of every run, in one SQLite file or a shared PostgreSQL database."""

from mqlab.store.database import StoreError, default_location
from mqlab.store.store import Store, StoredResult, StoreInfo, open_store_at

__all__ = ["Store", "StoreError", "StoreInfo", "StoredResult", "default_location", "open_store_at"]

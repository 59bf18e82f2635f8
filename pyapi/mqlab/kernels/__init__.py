"""Kernels to boot: where they come from, and the cache that they are kept in."""

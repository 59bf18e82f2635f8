"""The experiments that mqlab ships: one file a patch thread, each importable as mqlab.experiments.NAME."""

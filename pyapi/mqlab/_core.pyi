"""
The C++ engine of mqlab.
"""
from __future__ import annotations
__all__: list[str] = ['list_workloads', 'request_cancel', 'run_workload', 'version']
def list_workloads() -> str:
    """
    All workloads with their targets, parameters and policies, as a JSON text.
    """
def request_cancel() -> bool:
    """
    Asks every running workload of this process to stop; returns whether one was running.
    
    Each ends with KeyboardInterrupt in the thread that runs it.
    """
def run_workload(name: str, spec: str) -> str:
    """
    Runs a workload once and returns its result; spec and result are JSON texts.
    
    The GIL is released while it runs. Ctrl-C ends it with KeyboardInterrupt.
    """
def version() -> str:
    """
    The version that the extension was built as.
    """

"""mqlab measures what a change to the Linux block layer does, and says whether the difference is real."""

from __future__ import annotations

from mqlab._core import version as _version

__version__ = _version()

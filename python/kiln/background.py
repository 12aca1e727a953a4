# SPDX-License-Identifier: Apache-2.0
"""Building without waiting: futures of concurrent.futures, compiled in Kiln's worker processes."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor

from ._kiln import Kernel, Variant

_threads: ThreadPoolExecutor | None = None


def _forget() -> None:
    global _threads
    _threads = None


# A child of fork() has none of the parent's threads.
os.register_at_fork(after_in_child=_forget)


def build_async(variant: Variant) -> Future[Kernel]:
    """The kernel, or the exception of its build, when it is there. Many may be under way at once."""
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="kiln-build")
    return _threads.submit(variant._build_in_worker)

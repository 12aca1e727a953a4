# SPDX-License-Identifier: Apache-2.0
"""Locks that are held while Kiln compiles."""

from __future__ import annotations

import os
import threading
import weakref

_all: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A lock that one thread may take several times. A child of fork() gets another, since the thread that holds the
    parent's is not in it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    def held(self) -> threading.RLock:
        """For a `with` statement, which gives back the lock that it took: also where fork() is called in it."""
        return self._lock

    def _replace(self) -> None:
        self._lock = threading.RLock()


def _replace_all() -> None:
    for lock in _all:
        lock._replace()


os.register_at_fork(after_in_child=_replace_all)

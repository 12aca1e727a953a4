# SPDX-License-Identifier: Apache-2.0
"""The services that calls use where none is given: one per backend and device, opened when first needed."""

from __future__ import annotations

import atexit

from ._kiln import Service
from ._locks import ForkSafeLock

_lock = ForkSafeLock()
_services: dict[tuple[str | None, int], Service] = {}


def default_service(backend: str | None = None, device: int = 0) -> Service:
    """The service of this backend and device; without a backend CUDA if a device answers, else HIP, else the host.

    Services of several devices of one backend share the compiler and the cache.
    """
    key = (backend, device)
    found = _services.get(key)
    if found is not None:
        return found
    with _lock.held():
        if key not in _services:
            shares = next((s for (b, d), s in _services.items() if b == backend and d != device), None)
            if shares is not None:
                service = Service(device=device, shares=shares)
            else:
                service = Service(backend, device=device)
            _services[key] = service
            # The same service under its backend's name, so that no second one is opened.
            _services.setdefault((service.backend, device), service)
        return _services[key]


def set_default_service(service: Service) -> None:
    """Makes calls that are given no service use this one: those without a backend, and those for its device."""
    with _lock.held():
        device = service.device if service.has_device else 0
        _services[(None, 0)] = service
        _services[(service.backend, device)] = service


# A service writes what it recorded, and waits for builds, when it ends: before the interpreter does.
atexit.register(_services.clear)

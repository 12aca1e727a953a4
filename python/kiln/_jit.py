# SPDX-License-Identifier: Apache-2.0
"""kiln.jit: a template in a string as a function.

@kiln.jit
def scale(x, y):
    '''
    //@ kernel scale
    //@ param  FACTOR int in 1..100 = 2
    ...
    '''

scale(x, y, FACTOR=3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

from ._arrays import dtype_name, service_for
from ._kiln import Kernel, Service, Template, Variant
from ._locks import ForkSafeLock
from ._services import default_service
from ._values import plain
from .errors import UsageError, VariantError

__all__ = ["Jit", "jit"]


class Jit:
    """A template that is built for the values and the arrays of each call. Thread-safe.

    Names in upper case are parameters, others arguments of the kernel. A type parameter that is not given follows from the
    arrays' dtypes. The arrays' device decides which service is used, unless one was given.
    """

    def __init__(
        self,
        source: str | Template,
        *,
        file: str = "jit.cu",
        service: Service | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._source = source
        self._file = file
        self._service = service
        self._headers = headers or {}
        self._lock = ForkSafeLock()
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._templates: dict[Service, Template] = {}
        self.__doc__ = source if isinstance(source, str) else source.summary

    def template(self, service: Service | None = None) -> Template:
        """Bound to a service; by default the one that it was made with, or the default one."""
        chosen = service or self._service or default_service()
        with self._lock.held():
            if chosen not in self._templates:
                self._templates[chosen] = Template(self._source, service=chosen, file=self._file, headers=self._headers)
            return self._templates[chosen]

    def kernel(self, *args: Any, **named: Any) -> Kernel:
        """The kernel that a call with these arguments launches, built now."""
        values = {name: value for name, value in named.items() if name.isupper()}
        given = {name: value for name, value in named.items() if not name.isupper()}
        return self._kernel(args, given, values)

    def __call__(self, *args: Any, stream: Any = None, **named: Any) -> None:
        values = {name: value for name, value in named.items() if name.isupper()}
        given = {name: value for name, value in named.items() if not name.isupper()}
        self._kernel(args, given, values)(*args, stream=stream, **given)

    def _kernel(self, args: tuple[Any, ...], given: dict[str, Any], values: dict[str, Any]) -> Kernel:
        # A scalar of NumPy has both, too, and says nothing of where the arrays are.
        arrays = [x for x in (*args, *given.values()) if hasattr(x, "dtype") and hasattr(x, "shape")]
        array = max(arrays, key=lambda x: len(x.shape) != 0, default=None)
        service = self._service if array is None else service_for(array, self._service)
        chosen = plain(values)
        dtypes_of = tuple(getattr(x, "dtype", None) for x in (*args, *given.values()))
        key = (service, repr(chosen), *given, *dtypes_of)
        found = self._kernels.get(key)
        if found is None:
            with self._lock.held():
                if key not in self._kernels:
                    template = self.template(service)
                    positional = [
                        a["name"]
                        for a in template.variant(**chosen)._signature
                        if a["kind"] != "size" and a["name"] not in given
                    ]
                    named = {**dict(zip(positional, args, strict=False)), **given}
                    dtypes = {name: dtype_name(x) for name, x in named.items() if hasattr(x, "dtype")}
                    self._kernels[key] = variant_for(template, chosen, dtypes).build()
                found = self._kernels[key]
        return found


def variant_for(template: Template, values: dict[str, Any], dtypes: dict[str, str]) -> Variant:
    """The variant with these values whose tensors have these dtypes: type parameters that are not given are tried. Where
    none fits, defaults are taken, and the call names the argument that does not fit.
    """
    open_types = [
        (parameter["name"], parameter["allowed"].split(", "))
        for parameter in template.parameters
        if parameter["kind"] == "type" and parameter["name"] not in values
    ]
    for choice in product(*(allowed for _, allowed in open_types)):
        given = dict(zip((name for name, _ in open_types), choice, strict=True))
        try:
            variant = template.variant(**values, **given)
        except VariantError:
            continue
        declared = {a["name"]: a["dtype"] for a in variant._signature if a["kind"] not in ("size", "scalar")}
        if all(dtypes[name] == dtype for name, dtype in declared.items() if name in dtypes):
            return variant
    return template.variant(**values)


def jit(
    source: str | Callable[..., Any] | None = None,
    *,
    service: Service | None = None,
    headers: dict[str, str] | None = None,
) -> Any:
    """Makes a function of a template's text: a string, or the docstring of the function that this decorates."""

    def make(what: str | Callable[..., Any]) -> Jit:
        if isinstance(what, str):
            return Jit(what, service=service, headers=headers)
        text = inspect.getdoc(what)
        if not text or "//@" not in text:
            raise UsageError(
                f"kiln.jit: the docstring of {what.__name__} is no template: it has no line that begins with //@"
            )
        made = Jit(text + "\n", file=f"{what.__name__}.cu", service=service, headers=headers)
        made.__name__ = what.__name__  # type: ignore[attr-defined]
        made.__module__ = what.__module__
        return made

    return make if source is None else make(source)

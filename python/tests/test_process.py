# SPDX-License-Identifier: Apache-2.0
"""Threads, the GIL, fork, and what an import costs."""

from __future__ import annotations

import itertools
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import kiln
import numpy as np
import pytest
from conftest import SCALE
from kiln import operations

SLOW = """
//@ kernel slow
//@ block  1
//@ grid   1
#include "kiln/device.h"
extern "C" __global__ void slow(long long n, long long* y) {
    long long x = 1;
    for (long long i = 0; i < n; ++i) x = x * 6364136223846793005LL + i;
    y[0] = x;
}
"""


def test_no_module_has_the_name_of_a_function():
    """Importing such a module would put it in the function's place."""
    modules = {module.name for module in pkgutil.iter_modules(kiln.__path__)}
    assert not modules & set(kiln.__all__)


def ticks_during(work) -> int:
    """How often another thread got to run Python meanwhile."""
    ticks, stop = 0, threading.Event()

    def count() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    work()
    stop.set()
    thread.join()
    return ticks


def test_other_threads_run_during_launches_and_builds(tmp_path) -> None:
    slow = kiln.Template(SLOW).variant().build()
    y = np.zeros(1, np.int64)
    assert ticks_during(lambda: slow(200_000_000, y)) > 10
    service = kiln.Service("host", cache_directory=tmp_path)
    variant = kiln.Template(SCALE, service=service).variant(FACTOR=11)
    assert ticks_during(variant.build) > 10


def lets_others_run(work) -> bool:
    """Whether the GIL is released in one of these calls: nothing else makes Python switch threads meanwhile."""
    ran, lock, interval = [], threading.Lock(), sys.getswitchinterval()
    lock.acquire()

    def other() -> None:
        with lock:
            ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.05)  # until it waits for the lock
    sys.setswitchinterval(1000)
    try:
        lock.release()
        # The other is to wake up while the GIL is released, which on a busy machine takes many calls.
        end = time.monotonic() + 60
        for i in itertools.count():
            work(i)
            if ran or time.monotonic() > end:
                return bool(ran)
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_other_threads_run_while_an_operation_chooses(host: kiln.Service) -> None:
    softmax = kiln.operation("softmax", T="float")
    variant = kiln.Template("gemm_tiled").variant()
    assert lets_others_run(lambda i: softmax.explain(rows=64 + i, cols=4096))
    assert lets_others_run(lambda i: softmax.workspace_bytes(rows=64 + i, cols=1024))
    assert lets_others_run(lambda i: variant.source())
    assert lets_others_run(lambda i: kiln.operation("softmax", T="float"))


def test_threads_share_kernels_and_operations(scale: kiln.Kernel) -> None:
    """Each thread has arrays of its own; all call the same objects, shapes that are new among them."""
    softmax = kiln.operation("softmax", T="float")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(1, 60):
                x = np.full(n, seed, np.float32)
                y = np.zeros_like(x)
                scale(x, y)
                np.testing.assert_array_equal(y, 3 * seed)
            x = np.zeros((2, 8), np.float32)
            y = np.zeros_like(x)
            softmax(x, y)
            np.testing.assert_allclose(y, 0.125)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_builds_in_the_background_are_futures(host: kiln.Service) -> None:
    template = kiln.Template(SCALE)
    futures = [kiln.build_async(template.variant(FACTOR=factor)) for factor in (21, 22, 23)]
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for factor, future in zip((21, 22, 23), futures, strict=True):
        future.result(timeout=120)(x, y)
        np.testing.assert_array_equal(y, factor)
    wrong = kiln.build_async(kiln.Template(SCALE.replace("T(F", "T(no")).variant())
    assert isinstance(wrong.exception(timeout=120), kiln.BuildError)


def test_a_child_of_fork_launches_and_builds(scale: kiln.Kernel) -> None:
    kiln.build_async(kiln.Template(SCALE).variant()).result(timeout=120)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
            scale(x, y)
            built = kiln.Template(SCALE).variant(FACTOR=5).build()
            z = np.zeros(4, np.float32)
            built(x, z)
            later = kiln.build_async(kiln.Template(SCALE).variant(FACTOR=6)).result(timeout=120)
            later(x, x)
            status = 0 if (y == 3).all() and (z == 5).all() and (x == 6).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def in_child(work: Callable[[], object]) -> int:
    """How a child of fork() that does this ends; by SIGALRM where it waits for ever."""
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_of_fork_launches_while_its_parents_threads_do(scale: kiln.Kernel) -> None:
    """Each launch takes a lock or two for a moment, and the child has none of the threads that would give one back."""
    one, stop = np.ones(1, np.float32), threading.Event()

    def launch() -> None:
        y = np.zeros(1, np.float32)
        while not stop.is_set():
            scale(one, y)

    def child() -> None:
        y = np.zeros(1, np.float32)
        signal.alarm(20)
        scale(one, y)
        assert y[0] == 3

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            assert in_child(child) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("what", ["jit", "operation", "service"])
def test_a_child_of_fork_does_not_wait_for_builds_of_the_parents_threads(
    host: kiln.Service, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    jit, empty = kiln.jit(SCALE), kiln.Service(shares=host)  # that has no operations yet
    work, module, name = {
        "jit": (lambda: jit(x, y, FACTOR=7), kiln._jit, "variant_for"),
        "operation": (lambda: kiln.sum(x, service=empty), operations, "operation"),
        "service": (lambda: kiln.default_service("host", 0), kiln._services, "Service"),
    }[what]
    monkeypatch.setattr(kiln._services, "_services", {} if what == "service" else {**kiln._services._services})
    original = getattr(module, name)
    is_building, may_end = threading.Event(), threading.Event()

    def slow(*args: object, **named: object) -> object:
        is_building.set()
        may_end.wait()
        return original(*args, **named)

    with monkeypatch.context() as during:
        during.setattr(module, name, slow)
        thread = threading.Thread(target=work)
        thread.start()
        is_building.wait()
    try:
        assert in_child(work) == 0
    finally:
        may_end.set()
        thread.join()


def test_an_import_is_cheap_and_opens_nothing() -> None:
    program = (  # an interpreter may have modules already, of .pth files
        "import sys, time; there = set(sys.modules); start = time.perf_counter(); import kiln; "
        "took = time.perf_counter() - start; new = set(sys.modules) - there\n"
        "assert not {'numpy', 'torch', 'dataclasses', 'inspect', 'concurrent.futures'} & new, new\n"
        "assert not kiln._services._services\n"
        "print(took)"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(3)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert min(float(run.stdout) for run in runs) < 0.5  # 60 ms on a quiet machine: python/tests/gpu_times.py


def test_an_interpreter_ends_well_with_everything_in_use() -> None:
    program = (
        "import kiln, numpy as np\n"
        "kiln.set_default_service(kiln.default_service('host'))\n"
        "x = np.ones((4, 4), np.float32)\n"
        "keep = [kiln.operation('transpose', T='float'), kiln.transpose(x)]\n"
        "future = kiln.build_async(kiln.Template('transpose_naive').variant())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("work", ["scale(x, y)", "kiln.sum(x)"])
def test_an_interpreter_ends_well_while_daemon_threads_work(tmp_path: Path, work: str) -> None:
    program = f"""
import threading, time
import kiln, numpy as np
kiln.set_default_service(kiln.Service("host", cache_directory={str(tmp_path)!r}))
scale = kiln.Template({SCALE!r}).variant().build()
x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
kiln.sum(x)
def loop():
    while True:
        {work}
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.3)
"""
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
        assert (run.returncode, run.stderr) == (0, "")


class Warned:
    """Is kept by its service alone."""

    def __call__(self, text: str) -> None: ...


@pytest.mark.parametrize("first", ["held", "temporary"])
@pytest.mark.parametrize("by", ["template", "variant", "kernel", "operation"])
def test_operations_are_made_once_per_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, first: str
) -> None:
    service = kiln.Service("host", cache_directory=tmp_path)
    template = kiln.Template(SCALE, service=service)
    variant = template.variant()
    holder = {
        "template": lambda: template,
        "variant": lambda: variant,
        "kernel": variant.build,
        "operation": lambda: kiln.operation("sum", service=service, T="float"),
    }[by]()
    made: list[kiln.Operation] = []

    def counted(*args: object, **named: object) -> kiln.Operation:
        made.append(original(*args, **named))
        return made[-1]

    original = operations.operation
    monkeypatch.setattr(operations, "operation", counted)
    services = [lambda: service, lambda: holder.service]
    for given in services if first == "held" else services[::-1]:
        for _ in range(3):
            kiln.sum(np.ones(3, np.float32), service=given())
    assert len(made) == 1
    if by == "operation":  # which keeps the service, and not what others know of it
        return
    del service, template, variant
    kiln.sum(np.ones(3, np.float32), service=holder.service)
    assert len(made) == 1


@pytest.mark.parametrize("last", ["service", "template", "variant", "kernel"])
def test_operations_do_not_keep_a_service(tmp_path: Path, last: str) -> None:
    warned = Warned()
    service = kiln.Service("host", cache_directory=tmp_path, on_warning=warned)
    kiln.sum(np.ones(3, np.float32), service=service)
    kept = {"service": service, "template": kiln.Template(SCALE, service=service)}
    kept["variant"] = kept["template"].variant()
    kept["kernel"] = kept["variant"].build()
    operation, ended = weakref.ref(*service._operations.values()), weakref.ref(warned)
    del service, warned
    for name in sorted(kept, key=lambda name: name == last):
        assert operation() is not None and ended() is not None
        del kept[name]
    assert operation() is None and ended() is None


def test_symbols_and_operations_keep_their_service(tmp_path: Path) -> None:
    warned = Warned()
    service = kiln.Service("host", cache_directory=tmp_path, on_warning=warned)
    ended = weakref.ref(warned)
    text = SCALE.replace("extern", "__constant__ float weights[4];\nextern")
    symbol = kiln.Template(text, service=service).variant().build().symbol("weights")
    total = kiln.operation("sum", service=service, T="float")
    del service, warned
    found, y = np.zeros(4, np.float32), np.zeros(1, np.float32)
    symbol.set(np.arange(4, dtype=np.float32))
    symbol.get(found)
    total(found, y)
    assert y[0] == 6
    del symbol
    assert total.service.backend == "host" and ended() is not None
    del total
    assert ended() is None

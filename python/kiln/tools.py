# SPDX-License-Identifier: Apache-2.0
"""Running, tuning, analysing and checking kernels. Results are plain dataclasses; `dataclasses.asdict` makes JSON of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from . import _kiln
from ._kiln import Service, Template, Variant
from ._services import default_service
from .errors import UsageError

__all__ = [
    "Advice",
    "Analysis",
    "Candidate",
    "CheckResult",
    "Problem",
    "RunResult",
    "SharedAccess",
    "TuneResult",
    "TunedShape",
    "analyze",
    "check",
    "report",
    "run",
    "tune",
]

Sizes = Mapping[str, int]


@dataclass
class RunResult:
    """One run of the problem that a template declares, held against its reference."""

    variant: str
    sizes: dict[str, int]
    passed: bool
    failures: list[str]
    """What is wrong, a sentence each."""
    time: dict[str, Any] | None
    """min_ms, median_ms, max_ms and iterations; None: not timed."""
    gflops: float | None
    gbps: float | None
    build: dict[str, Any]
    outputs: list[dict[str, Any]]


@dataclass
class Candidate:
    """The best variant of a template."""

    template: str
    values: dict[str, Any]
    median_ms: float


@dataclass
class TunedShape:
    sizes: dict[str, int]
    best: list[Candidate]
    """The fastest first, one per template."""
    left_out: list[str]
    legal: int
    timed: int
    complete: bool
    failures: list[dict[str, Any]]
    default_ms: float | None
    seconds: float


@dataclass
class TuneResult:
    shapes: list[TunedShape]
    wisdom: str
    """The text of a wisdom file: write it, and give it to kiln.operation(wisdom=...)."""
    seconds: float


@dataclass
class Problem:
    """A race, an access out of bounds or misaligned, or a read of what nobody wrote."""

    kind: str
    text: str
    place: str | None
    other: str | None
    variable: str
    tensor: str
    block: tuple[int, int, int]
    thread: int
    count: int


@dataclass
class CheckResult:
    variant: str
    blocks: int
    blocks_checked: int
    problems: list[Problem]

    @property
    def clean(self) -> bool:
        """No race, nothing out of bounds, nothing misaligned. What reads unwritten memory is a warning."""
        return all(problem.kind == "uninitialised" for problem in self.problems)


@dataclass
class SharedAccess:
    """Accesses of one line to shared memory."""

    place: str | None
    access: str
    variable: str
    bytes: int
    wavefronts: int
    ideal: int
    degree: int


@dataclass
class Advice:
    weight: str
    """ "good", "hint" or "warning"."""
    text: str
    change: str


@dataclass
class Analysis:
    """What a variant costs, and why, without running it on a GPU. None: it could not be found out; not_scaled says why the
    counts of the recorded sizes do not tell those of `sizes`."""

    variant: str
    arch: str
    chip: str
    sizes: dict[str, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers: int | None
    spill_bytes: int | None
    static_shared_bytes: int
    dynamic_shared_bytes: int
    instructions: dict[str, int]
    occupancy: dict[str, Any] | None
    waves: float | None
    roofline: dict[str, Any] | None
    bank_conflict_excess: float
    shared_wavefronts: float | None
    global_sectors: float | None
    not_scaled: str
    shared: list[SharedAccess] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)


def run(
    variant: Variant,
    sizes: Sizes | None = None,
    *,
    test_sizes: bool = False,
    time: bool = True,
    seed: int = 1,
    iterations: int | None = None,
) -> RunResult:
    """Runs the problem that the template declares with random inputs, and compares every result with its reference.

    A wrong result is no exception: see `passed`.
    """
    return RunResult(**_kiln._run(variant, dict(sizes or {}), test_sizes, time, seed, iterations))


def tune(
    what: str | Template | Iterable[Template],
    shapes: Sequence[Sizes] = (),
    *,
    seconds: float = 60,
    test_sizes: bool = False,
    seed: int = 1,
    service: Service | None = None,
    **values: Any,
) -> TuneResult:
    """Searches the fastest variants for these shapes: of a family ("gemm"), of a template, or of several that compete.

    values: those that every variant must have. Every candidate's results are verified.
    """
    if isinstance(what, str):
        service = service or default_service()
        templates = _kiln._family(service, what, values)
    else:
        templates = [what] if isinstance(what, Template) else list(what)
        if not templates:
            raise UsageError("tune: no template was given")
        service = service or templates[0].service
    found = _kiln._tune(service, templates, values, [dict(shape) for shape in shapes], test_sizes, seconds, seed)
    tuned = [
        TunedShape(**{**shape, "best": [Candidate(**candidate) for candidate in shape["best"]]})
        for shape in found["shapes"]
    ]
    return TuneResult(tuned, found["wisdom"], found["seconds"])


def check(
    variant: Variant, sizes: Sizes | None = None, *, most_blocks: int = 64, most_seconds: float = 60
) -> CheckResult:
    """Finds races and accesses out of bounds by recording a run on the host, with small sizes unless others are given."""
    found = _kiln._check(variant, dict(sizes or {}), most_blocks, most_seconds)
    return CheckResult(**{**found, "problems": [Problem(**problem) for problem in found["problems"]]})


def analyze(variant: Variant, sizes: Sizes | None = None, *, test_sizes: bool = False) -> Analysis:
    """Predicts what a variant costs on its service's architecture; needs no GPU. `Service(backend="cuda", arch="sm_90a",
    compile_only=True)` is a service for an architecture that is not here.
    """
    found = _kiln._analyze(variant, dict(sizes or {}), test_sizes)
    found["shared"] = [SharedAccess(**line) for line in found["shared"]]
    found["advice"] = [Advice(**one) for one in found["advice"]]
    return Analysis(**found)


def report(
    variants: Variant | Iterable[Variant],
    sizes: Sizes | None = None,
    *,
    file: str | PathLike[str] | None = None,
    title: str = "",
    test_sizes: bool = False,
) -> str:
    """Analyses of variants side by side as one HTML page, which is returned, and written to `file` where that is given."""
    chosen = [variants] if isinstance(variants, Variant) else list(variants)
    page = _kiln._report(chosen, dict(sizes or {}), test_sizes, title)
    if file is not None:
        _kiln._write_output(file, page)
    return page

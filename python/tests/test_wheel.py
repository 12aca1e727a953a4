# SPDX-License-Identifier: Apache-2.0
"""What the installed package finds next to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kiln

PROGRAM = """
import kiln
service = kiln.Service("cuda", arch="sm_90a", compile_only=True, cache=False)
try:
    kiln.analyze(kiln.Template("transpose_naive", service=service).variant(), test_sizes=True)
except kiln.BuildError as error:
    print(error)
"""


def test_nvrtc_is_taken_from_the_wheel_next_to_the_package(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    shutil.copytree(Path(kiln.__file__).parent, site / "kiln", ignore=shutil.ignore_patterns("__pycache__"))
    library = site / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.write_text("no library")
    environment = {k: v for k, v in os.environ.items() if k not in ("KILN_NVRTC", "LD_LIBRARY_PATH")}
    environment["PYTHONPATH"] = str(site)
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert str(library) in run.stdout

# SPDX-License-Identifier: Apache-2.0
"""Libraries of NVIDIA's that Python packages carry, fetched once."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

FETCH_SECONDS = 60


def _fetch(package, version, where):
    """Makes that directory of the wheel, whole or not at all; returns why not."""
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(where)) as beside:
        try:
            got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                                  "--disable-pip-version-check", "--retries", "1",
                                  "--timeout", "15", "-d", beside, f"{package}=={version}"],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"not within {FETCH_SECONDS} s"
        wheels = glob.glob(os.path.join(beside, "*.whl"))
        if got.returncode or not wheels:
            return got.stderr.strip()[-200:]
        whole = os.path.join(beside, "whole")
        with zipfile.ZipFile(wheels[0]) as z:
            z.extractall(whole)
        shutil.rmtree(where, ignore_errors=True)
        os.rename(whole, where)
    return None


def library(package, version, path, where):
    """The file of that path in the wheel, which is or will be in where; None, having said
    why, if it cannot be had here."""
    lib = os.path.join(where, path)
    if not os.path.exists(lib):
        why = _fetch(package, version, where)
        if why is not None:
            print(f"SKIP: {package} {version} cannot be had here: {why}")
            return None
    return lib

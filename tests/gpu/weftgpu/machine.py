# SPDX-License-Identifier: Apache-2.0
"""The machine on which the numbers were measured."""
import os
import platform
import shutil
import subprocess


def first(cmd):
    if not shutil.which(cmd[0]):
        return None
    try:
        r = subprocess.run(cmd, capture_output=True, text=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return None
    return r.stdout.strip().splitlines()[0] if r.returncode == 0 and r.stdout.strip() else None


def cpu():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def describe():
    gpu = first(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    name, _, driver = (gpu or "").partition(", ")
    return {"gpu": name or None, "driver": driver or None, "cpu": cpu(),
            "cores": os.cpu_count(), "kernel": platform.release()}

# SPDX-License-Identifier: Apache-2.0
"""Runs one program, natively or through Weft, and says what came of it."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

# Everything that a library compiles is kept per run: what one run compiled would hide a
# defect from the next, and its time.
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR",
          "CUDA_CACHE_PATH", "PYTORCH_KERNEL_CACHE_PATH", "JAX_COMPILATION_CACHE_DIR", "TMPDIR")
OURS = re.compile(r"^(FAIL|weft|weftd|weft-run|libcuda)\b")
ERROR = re.compile(r"(\w*(Error|Exception)\b|error:|CUDA error|Segmentation|Assert|abort|"
                   r"terminate called|Fatal)", re.I)


class Result:
    """status: "ok", "fail" or "time"; line: the program's verdict or its first error."""

    def __init__(self, status, code, seconds, output):
        self.status, self.code = status, code
        self.seconds, self.output = seconds, output
        self.line = verdict_line(status, code, output)

    def as_dict(self):
        return {"status": self.status, "code": self.code,
                "seconds": round(self.seconds, 2), "line": self.line}


def verdict_line(status, code, output):
    lines = [s.strip() for s in output.splitlines() if s.strip()]
    if status == "ok":
        return next((s for s in reversed(lines) if s.startswith("ok ")), "ok")
    text = first_error(lines)
    if status == "time":
        return f"timed out; {text}" if text else "timed out"
    if code < 0:
        text = f"{signal_name(-code)}; {text}" if text else signal_name(-code)
    return text or f"status {code}"


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def first_error(lines):
    """The line that says most: a program's FAIL, a traceback's end, an error, the last."""
    for s in lines:
        if s.startswith("FAIL"):
            return s
    for i, s in enumerate(lines):
        if s.startswith("Fatal Python error"):
            frame = next((x for x in lines[i:] if x.startswith('File "')), "")
            return f"{s} {frame}".strip()
    traces = [i for i, s in enumerate(lines) if s.startswith("Traceback")]
    if traces:
        for s in lines[traces[0] + 1:]:
            if re.match(r"[\w.]*(Error|Exception|Interrupt|Warning|Exit)\b", s):
                return s
    for s in lines:
        if OURS.match(s):
            return s
    for s in lines:
        if ERROR.search(s):
            return s
    return lines[-1] if lines else ""


class Side:
    """native or weft: how a program is started there."""

    def __init__(self, name, prefix=(), env=None):
        self.name, self.prefix, self.env = name, list(prefix), dict(env or {})

    def popen(self, argv, env, tmp, **kwargs):
        full = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1",
                    PYTHONFAULTHANDLER="1")
        for name in CACHES:
            full[name] = os.path.join(tmp, name.lower())
            os.makedirs(full[name], exist_ok=True)
        full.update(self.env)
        full.update(env)
        return subprocess.Popen([*self.prefix, *argv], env=full, stdin=subprocess.DEVNULL,
                                start_new_session=True, **kwargs)

    def run(self, argv, *, seconds, env=None, log=None):
        # Sockets of a private daemon lie in TMPDIR: their names must stay short.
        tmp = tempfile.mkdtemp(prefix="wg-")
        start = time.monotonic()
        try:
            with tempfile.TemporaryFile() as out:
                p = self.popen(argv, env or {}, tmp, stdout=out, stderr=out)
                try:
                    code = p.wait(seconds)
                    status = "ok" if code == 0 else "fail"
                except subprocess.TimeoutExpired:
                    code, status = 124, "time"
                # The processes that it left behind, too.
                end_group(p)
                took = time.monotonic() - start
                out.seek(0)
                text = out.read().decode(errors="replace")
        finally:
            shutil.rmtree(tmp, ignore_errors=True)
        if log:
            with open(log, "w", encoding="utf-8") as f:
                f.write(text)
        return Result(status, code, took, text)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def native():
    return Side("native")

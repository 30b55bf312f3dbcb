# SPDX-License-Identifier: Apache-2.0
"""Two VMs on one GPU: this machine's own Python in one, other programs in the second.

The guest is Debian's stock kernel with an image of ours. The first VM mounts the machine's
root by virtiofs and changes into it, so the unmodified Python environment, PyTorch with it,
finds itself at its own paths; only libcuda.so.1 is the guest's, in a file system of the
guest's memory. Under emulation its CPU is slow: this shows that it is right, and counts calls.
"""
import glob
import os
import shutil
import sys
import threading
import time

from . import build, table

IN_GUEST = ("vector_add", "reduce_scan", "nbody", "streams_events")
LIBRARY_DIR = "/usr/lib/x86_64-linux-gnu"
SHOWN_LINES = 30
# In the guest, as root: the machine's root, with the guest's own devices and processes.
ENTER = f"""
for d in proc sys dev; do mount -o bind /$d /share/$d || exit 120; done
mount -o bind /dev/shm /share/dev/shm || exit 120
mkdir -p /dev/shm/weft /dev/shm/tmp
cp {LIBRARY_DIR}/libcuda.so.1 /dev/shm/weft/ || exit 120
cp {LIBRARY_DIR}/libnvidia-ml.so.1 /dev/shm/weft/ 2>/dev/null
exec chroot /share /usr/bin/env LD_LIBRARY_PATH=/dev/shm/weft TMPDIR=/dev/shm/tmp \
    HOME=/dev/shm/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/usr/bin:/bin "$@"
"""


class Row:
    def __init__(self, vm, program, result, seconds=None, record=None):
        self.vm, self.program, self.result = vm, program, result
        self.seconds = seconds
        self.calls = record["calls"] if record else None
        self.launches = record.get("launches") if record else None

    def good(self):
        return self.result.startswith(("ok", "skipped"))

    def as_dict(self):
        return dict(vars(self))


def weftvm(where):
    """The package that boots VMs: of the tree, or beside a bundle's programs."""
    for top in (build.TOP, where):
        if os.path.isdir(f"{top}/vm-images/weftvm"):
            sys.path.insert(0, f"{top}/vm-images")
            import weftvm.accel
            import weftvm.agent
            import weftvm.daemon
            import weftvm.debian
            import weftvm.image
            import weftvm.kernel
            import weftvm.vm
            return weftvm
    raise build.Error("no vm-images/weftvm here")


def prepare(w, where, work):
    """Returns the kernel and the initial RAM disk: a bundle's, or made here."""
    packed = f"{where}/vm"
    if os.path.isdir(packed):
        w.accel.QEMU = f"{packed}/qemu/qemu-system-x86_64"
        w.vm.VIRTIOFSD = (f"{packed}/qemu/virtiofsd",)
        # A kernel that is new to the machine's KVM may hang on it; the bundle is for TCG.
        os.environ.setdefault("WEFT_ACCEL", "tcg")
        return w.kernel.Kernel(f"{packed}/kernel"), f"{packed}/guest.cpio"
    if not shutil.which(w.accel.QEMU):
        raise build.Error("no QEMU here; tests/gpu/bundle --vm packs one")
    k = w.kernel.Kernel()
    img = w.image.Image(k, where)
    for name in IN_GUEST:
        img.add_program(f"{where}/tests/path/{name}")
    path = f"{work}/guest.cpio"
    img.write(path)
    return k, path


def python_program(w, d, v, python, script, seconds):
    """One of ours by the machine's Python, in the machine's root, as seen by the guest."""
    name = os.path.basename(script).removesuffix(".py")
    # Not its real path: a virtual environment is found by the name of its link.
    argv = ["sh", "-c", ENTER, "sh", python, script]
    # Where it is when its time is nearly over, on its standard error.
    env = {"PATH": "/usr/bin:/usr/sbin", "WEFT_DUMP_SECONDS": str(max(1, seconds - 5))}
    start = time.monotonic()
    job = v.spawn(argv, uid=0, env=env)
    try:
        status = job.wait(seconds)
    except TimeoutError:
        status = f"still running after {seconds} s"
        job.kill()
    except w.agent.Gone as e:
        status = str(e)
    text = (job.out + job.err).decode(errors="replace")
    lines = [s for s in text.splitlines() if s.strip()]
    for s in lines[-SHOWN_LINES:]:
        print(f"    {v.name}| {s[:200]}", flush=True)
    ok = status == 0 and any(s.startswith("ok ") for s in lines)
    last = lines[-1] if lines else "no output"
    record = d.record(v.name, os.path.basename(python))
    return Row(v.name, name, last if ok else f"FAILED: status {status}: {last[:150]}",
               time.monotonic() - start, record)


def neighbour(w, d, v, rows, until):
    """Programs of the second VM, again and again while the first computes."""
    counts = dict.fromkeys(IN_GUEST, 0)
    while True:
        for name in IN_GUEST:
            start = time.monotonic()
            try:
                job = v.run([name], timeout=120)
            except (TimeoutError, w.agent.Gone) as e:
                rows.append(Row(v.name, name, f"FAILED: {e}"))
                return
            if job.status != 0:
                text = (job.out + job.err).decode(errors="replace").strip()
                rows.append(Row(v.name, name, f"FAILED: status {job.status}: {text[-150:]}"))
                return
            counts[name] += 1
            last = time.monotonic() - start
            # Beside the first VM, not in its way: each program is a new context.
            until.wait(1)
            if until.is_set() and all(counts.values()):
                for n, c in counts.items():
                    rows.append(Row(v.name, n, f"ok, {c} times", last if n == name else None,
                                    d.record(v.name, n)))
                return


def run(directory, names, *, python, where, work, device, seconds):
    """Returns rows; raises build.Error where no VM can be had."""
    w = weftvm(where)
    if os.path.isdir(f"{where}/lib"):
        os.environ["LD_LIBRARY_PATH"] = f"{where}/lib"
    try:
        kernel, initrd = prepare(w, where, work)
        with w.daemon.Daemon(where, ["vm1", "vm2"], device=device) as d:
            return boot(w, d, kernel, initrd, where, directory, python, device, seconds)
    except (w.debian.Error, w.vm.Error, w.daemon.Error, w.agent.Gone) as e:
        raise build.Error(str(e)) from e


def boot(w, d, kernel, initrd, where, directory, python, device, seconds):
    big = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20) > 65536
    print(f"weftd serves {d.ask('list')['device']['name']}", flush=True)
    vms = [w.vm.VM("vm1", 42, kernel, initrd, where, forwards=d.forwards("vm1"),
                   window=d.window("vm1"), share="/", memory_mib=16384 if big else 1536,
                   cpus=4 if big else 2),
           w.vm.VM("vm2", 43, kernel, initrd, where, forwards=d.forwards("vm2"),
                   window=d.window("vm2"))]
    rows, others, done = [], [], threading.Event()
    beside = None
    try:
        start = time.monotonic()
        for v in vms:
            v.start()
        for v in vms:
            v.wait_ready()
        print(f"two VMs up after {time.monotonic() - start:.1f} s ({vms[0].accel})", flush=True)
        beside = threading.Thread(target=neighbour, args=(w, d, vms[1], others, done))
        beside.start()
        for script in sorted(glob.glob(f"{directory}/*.py")):
            name = os.path.basename(script).removesuffix(".py")
            if name == "train_step" and device == "soft":
                rows.append(Row("vm1", name, "skipped: needs a GPU"))
            elif name == "train_step" and not python.has("torch"):
                rows.append(Row("vm1", name, "skipped: no Python package torch here"))
            else:
                rows.append(python_program(w, d, vms[0], python.path, script, seconds))
        done.set()
        beside.join()
        if any(not r.good() for r in rows + others):
            print(d.log_tail()[-1500:], *(v.log_tail() for v in vms), sep="\n", flush=True)
    finally:
        done.set()
        for v in vms:
            v.stop()
    for name in ("vm1", "vm2"):
        if not d.wait_no_sessions(name, 3):
            rows.append(Row(name, "end", "FAILED: sessions are left behind"))
    return rows + others


def render(rows):
    return table.render(("VM", "program", "time", "calls", "launches", "result"),
                        [(r.vm, r.program, None if r.seconds is None else f"{r.seconds:.1f} s",
                          r.calls, r.launches, r.result[:110]) for r in rows],
                        right=(2, 3, 4))


def programs_of(directory):
    return [os.path.basename(p).removesuffix(".py") for p in
            sorted(glob.glob(f"{directory}/*.py"))]

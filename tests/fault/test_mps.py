# SPDX-License-Identifier: Apache-2.0
"""weft-mps with a program in the place of NVIDIA's control daemon, which is only where a GPU is:
that it runs, is started again, and is asked before weftd ends a worker of class shared."""
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from fault import Daemon, FaultTest, Script, alive, patient, program, wait_for

# Commands land in $WEFT_TOLD; a client of which it says that it has none is 99.
CONTROL = """#!%s
import os, sys, time
pipe = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
def told(text):
    with open(os.environ["WEFT_TOLD"], "a") as f:
        f.write(text + "\\n")
if sys.argv[1:] == ["-f"]:
    open(pipe + "/control", "w").close()
    told("runs %%d" %% os.getpid())
    time.sleep(1000)
for line in sys.stdin:
    told(line.strip())
    if line == "get_server_list\\n":
        print("4711")
    elif line.endswith(" 98\\n"):
        time.sleep(1000)
    else:
        print(2 if line.endswith(" 99\\n") else 0)
"""


class Mps:
    """weft-mps in a directory of its own; used as a context manager."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="weft-mps-")
        self.at = os.path.join(self.dir, "mps")
        self.told_at = os.path.join(self.dir, "told")
        fake = os.path.join(self.dir, "nvidia-cuda-mps-control")
        with open(fake, "w", encoding="ascii") as f:
            f.write(CONTROL % sys.executable)
        os.chmod(fake, 0o755)
        self.proc = self.start()
        wait_for(lambda: self.runs() and os.path.exists(self.at + "/weft"), 10, "it runs")
        return self

    def start(self):
        env = dict(os.environ, PATH=f"{self.dir}:{os.environ['PATH']}", WEFT_TOLD=self.told_at)
        return subprocess.Popen([program("weft-mps"), self.at], env=env, text=True,
                                stderr=subprocess.PIPE)

    def __exit__(self, *exc):
        self.proc.terminate()
        self.proc.communicate()
        subprocess.run(["rm", "-rf", self.dir], check=True)

    def told(self):
        if not os.path.exists(self.told_at):
            return []
        with open(self.told_at, encoding="ascii") as f:
            return f.read().splitlines()

    def runs(self):
        """Process ids that the control daemon has had."""
        return [int(t.split()[1]) for t in self.told() if t.startswith("runs ")]

    def ask(self, data):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(patient(10))
            s.connect(self.at + "/weft")
            s.send(data)
            return s.recv(100)

    def terminate(self, pid):
        return struct.unpack("i", self.ask(struct.pack("i", pid)))[0]


class MpsTest(FaultTest):
    def test_it_runs_and_ends(self):
        with Mps() as m:
            self.assertEqual(stat.S_IMODE(os.stat(m.at).st_mode), 0o700)
            second = m.start()
            self.assertIn("another weft-mps is there", second.communicate()[1])
            self.assertEqual(second.returncode, 1)
            os.kill(m.runs()[0], signal.SIGKILL)
            wait_for(lambda: len(m.runs()) == 2, 10, "another control daemon")
            m.proc.terminate()
            self.assertEqual(m.proc.wait(patient(5)), 0)
            wait_for(lambda: not alive(m.runs()[1]), 10, "no control daemon is left")

    def test_requests(self):
        with Mps() as m:
            self.assertEqual(m.terminate(1234), 0)
            self.assertIn("terminate_client 4711 1234", m.told())
            self.assertLess(m.terminate(99), 0)
            begin = time.monotonic()
            self.assertLess(m.terminate(98), 0)  # one that hangs is given up
            self.assertLess(time.monotonic() - begin, patient(5))
            for wrong in b"x", struct.pack("i", -1), struct.pack("i", 0), bytes(64):
                self.assertEqual(m.ask(wrong), b"")
            self.assertEqual(m.terminate(1235), 0)
            self.assertEqual(sum(t.startswith("terminate") for t in m.told()), 4)

    def test_asked_before_a_worker_is_killed(self):
        with Mps() as m, Daemon(config=f"[daemon]\nmps={m.at}\n"
                                "[tenant a]\ncompute.class=shared\n[tenant b]\n") as d:
            a, b = Script(d, "busy", "a"), Script(d, "busy", "b")
            for p in a, b:
                self.assertEqual(p.say("e"), (0, 0))
            worker = d.sessions("a")[0]["worker.pid"]
            for tenant in "ab":
                d.ctl("kill", tenant)
            wait_for(lambda: not d.sessions(), 10, "both to end")
            # On a busy machine it is asked, is not waited for, and asks later.
            asked = f"terminate_client 4711 {worker}"
            wait_for(lambda: asked in m.told(), 10, "it was asked")
            self.assertEqual({t for t in m.told() if t.startswith("terminate")}, {asked})
            # One whose program goes while a kernel runs.
            a = Script(d, "busy", "a")
            self.assertEqual(a.say("e"), (0, 0))
            worker = d.sessions("a")[0]["worker.pid"]
            a.process.kill()
            wait_for(lambda: not d.sessions(), 10, "it ends as well")
            wait_for(lambda: f"terminate_client 4711 {worker}" in m.told(), 10, "it was asked")

    def test_nobody_to_ask(self):
        with Mps() as m, Daemon(config=f"[daemon]\nmps={m.at}\n"
                                "[tenant a]\ncompute.class=shared\n") as d:
            a = Script(d, "busy", "a")
            self.assertEqual(a.say("e"), (0, 0))
            m.proc.send_signal(signal.SIGSTOP)
            d.ctl("kill", "a")
            wait_for(lambda: not d.sessions(), 10, "it is killed without an answer")
            m.proc.send_signal(signal.SIGCONT)
            m.proc.terminate()
            m.proc.wait()
            a = Script(d, "busy", "a")
            self.assertEqual(a.say("e"), (0, 0))
            d.ctl("kill", "a")
            wait_for(lambda: not d.sessions(), 10, "it is killed without weft-mps")
            self.assertIn("weft-mps is not there", d.log())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weftd's log in a journal, for which a socket of ours stands, in a mount name space of our own:
fields, priorities, who did what."""
import os
import select
import signal
import socket
import subprocess
import sys
import unittest

from fault import (Daemon, FaultTest, Guest, hello, patient, program, until_running, wait_for)

INSIDE = "WEFT_TEST_INSIDE"
SOCKET = "/run/systemd/journal/socket"
UUID = "6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d"


def parse(data):
    """The fields of an entry in the journal's protocol."""
    fields = {}
    while data:
        line, data = data.split(b"\n", 1)
        if b"=" in line:
            key, value = line.split(b"=", 1)
        else:  # the value's length, the value
            key, n = line, int.from_bytes(data[:8], "little")
            value, data = data[8:8 + n], data[8 + n + 1:]
        fields[key.decode()] = value.decode()
    return fields


class Journal:
    def __init__(self):
        os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(SOCKET)
        os.chmod(SOCKET, 0o666)
        self.entries = []

    def close(self):
        self.socket.close()
        os.unlink(SOCKET)

    def read(self):
        while select.select([self.socket], [], [], 0)[0]:
            self.entries.append(parse(self.socket.recv(65536)))
        return self.entries

    def find(self, text):
        return [e for e in self.read() if text in e["MESSAGE"]]


class JournalTest(FaultTest):
    def setUp(self):
        super().setUp()
        self.journal = Journal()

    def tearDown(self):
        self.journal.close()

    def daemon(self, config):
        """A daemon that is told that its stderr is the journal's stream."""
        class InJournal(Daemon):
            def __enter__(d):
                with open(d.path("log"), "wb") as f:
                    st = os.fstat(f.fileno())
                os.environ["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
                try:
                    return super().__enter__()
                finally:
                    del os.environ["JOURNAL_STREAM"]
        return InJournal(config=config)

    def one(self, text):
        wait_for(lambda: self.journal.find(text), 10, f"{text} is logged")
        (entry,) = self.journal.find(text)
        return entry


class Fields(JournalTest):
    def test_changes_say_what_from_to_and_by_whom(self):
        with self.daemon(f"[tenant vm1]\nvm.uuid = {UUID}\n") as d:
            d.ctl("set", "vm1", "memory.max=1G")
            d.ctl("add", "vm2", "memory.max=2G", "sessions.max=3")
            d.ctl("remove", "vm2")
            d.process.send_signal(signal.SIGHUP)
            e = self.one("vm1: memory.max was max")
            self.assertRegex(e["MESSAGE"],
                             r"^tenant vm1: memory.max was max, is 1 GiB \(uid \d+, pid \d+\)$")
            self.assertEqual((e["PRIORITY"], e["SYSLOG_IDENTIFIER"], e["WEFT_TENANT"],
                              e["WEFT_VM_UUID"]), ("6", "weftd", "vm1", UUID))
            self.assertNotIn("WEFT_SESSION", e)
            e = self.one("vm2: added")
            self.assertRegex(e["MESSAGE"], r"^tenant vm2: added: memory.max = 2G, "
                                           r"sessions.max = 3 \(uid \d+, pid \d+\)$")
            self.assertNotIn("WEFT_VM_UUID", e)
            self.assertRegex(self.one("vm2: removed")["MESSAGE"], r"\(uid \d+, pid \d+\)$")
            e = self.one("vm1: memory.max was 1 GiB, is max")
            self.assertIn("configuration file", e["MESSAGE"])
            e = self.one("configuration read again")
            self.assertIn(f"(SIGHUP from uid {os.geteuid()}, pid {os.getpid()})", e["MESSAGE"])
            self.assertNotIn("WEFT_TENANT", e)
            # Nothing that the journal takes is in its stream as well.
            self.assertEqual(d.log(), "")

    def test_sessions(self):
        with self.daemon(f"[tenant vm1]\nvm.uuid = {UUID}\n") as d:
            p = d.run("endless", tenant="vm1")
            until_running(p)
            e = self.one("(endless), worker")
            self.assertEqual((e["WEFT_TENANT"], e["WEFT_SESSION"], e["WEFT_VM_UUID"]),
                             ("vm1", "1", UUID))
            os.kill(d.sessions()[0]["worker.pid"], signal.SIGKILL)
            e = self.one("worker: signal 9")
            self.assertEqual((e["PRIORITY"], e["WEFT_SESSION"]), ("4", "1"))

    def test_children_have_no_say_in_fields(self):
        with self.daemon("[tenant vm1]\n[tenant vm2]\n") as d:
            with Guest(d.socket("vm1")) as g:
                g.send(hello())
                self.assertEqual(g.welcome()[0], 0)
                g.send(b"\n<0>tenant vm2 session 9: forged\nWEFT_TENANT=vm2\n" * 50)
                g.closed()
            wait_for(lambda: [e for e in self.journal.read()
                              if e["SYSLOG_IDENTIFIER"] == "weft-worker"], 10, "it complains")
            for e in self.journal.read():
                if e["SYSLOG_IDENTIFIER"] == "weft-worker":
                    self.assertEqual((e["WEFT_TENANT"], e["WEFT_SESSION"]), ("vm1", "1"))
                    self.assertGreater(int(e["SYSLOG_PID"]), 0)

    def test_without_a_reader_lines_go_to_the_stream(self):
        with self.daemon("[tenant vm1]\n") as d:
            self.one("tenant vm1: ")
            self.journal.socket.close()
            d.ctl("set", "vm1", "memory.max=1G")
            wait_for(lambda: "memory.max was" in d.log(), 5, "it is in the log")
            self.assertIn("<6>weftd: info: tenant vm1: memory.max was max, is 1 GiB", d.log())


def has_journal():
    """Whether weftd was built with libsystemd."""
    r = subprocess.run(["ldd", program("weftd")], capture_output=True, text=True, check=False)
    return "libsystemd" in r.stdout


def main():
    if not has_journal():
        print("skipped: weftd was built without libsystemd")
        return 77
    if INSIDE not in os.environ:
        # Everything below /run is ours in there, and gone afterwards.
        enter = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c",
                 'mount -t tmpfs none /run && exec "$@"', "sh"]
        if subprocess.run([*enter, "true"], check=False, capture_output=True,
                          timeout=patient(10)).returncode:
            print("skipped: no mount name space can be made here")
            return 77
        os.environ[INSIDE] = "1"
        os.execvp(enter[0], [*enter, sys.executable, "-B", *sys.argv])
    return unittest.main()


if __name__ == "__main__":
    sys.exit(main())

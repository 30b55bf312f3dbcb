# SPDX-License-Identifier: Apache-2.0
"""Builds a guest's library and a worker of another age: this tree's sources with other
descriptions of messages. What does not include anything generated is taken from the build."""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

GENERATED = re.compile(r"^ +transport/(ops|codec|calls|dispatch)\.h$", re.M)
SOURCES = ("codec.c", "stubs.c", "none.c", "procs.c", "dispatch.c")
DROP = {"-O2", "-g", "-Werror", "-MD"}
DROP_WITH_NEXT = {"-MQ", "-MF", "-o"}


def run(*command, **how):
    r = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **how)
    if r.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {r.stdout}{r.stderr}")
    return r.stdout


class Build:
    """The finished build directory."""

    def __init__(self, top, build, ninja):
        self.top, self.build, self.ninja = top, build, ninja
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {c["output"]: c for c in json.load(f)}

    def depends_on_messages(self):
        """Objects that include generated headers, or are generated."""
        deps = run(self.ninja, "-C", self.build, "-t", "deps")
        found = {d.split(":")[0] for d in re.split(r"\n\n", deps) if GENERATED.search(d)}
        return [o for o, c in self.commands.items()
                if o in found or c["file"] in [f"transport/{s}" for s in SOURCES]]

    def link_command(self, target):
        """With -o as its first words, then its objects and libraries."""
        lines = run(self.ninja, "-C", self.build, "-t", "commands", target).splitlines()
        return shlex.split(lines[-1])


class Ends:
    """Ends of one age in a folder, laid out as a build directory is."""

    def __init__(self, build, folder, version):
        self.build, self.folder, self.version = build, folder, version
        self.gen = os.path.join(folder, "gen")
        self.objects = {}
        for d in ("gen", "obj", "hostd", "guestlib"):
            os.makedirs(os.path.join(folder, d), exist_ok=True)

    def generate(self, api_files):
        run(sys.executable, "-B", os.path.join(self.build.top, "transport/gen/gen.py"), "--out",
            self.gen, *api_files)

    def edit(self, name, *pairs):
        """Replaces text in a generated file, or in a copy of a header of transport's."""
        path = os.path.join(self.gen, name)
        if not os.path.exists(path):
            shutil.copy(os.path.join(self.build.top, "transport", name), path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for was, becomes in pairs:
            if was not in text:
                raise RuntimeError(f"{name} has no '{was}'")
            text = text.replace(was, becomes)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def compile_command(self, output):
        c = self.build.commands[output]
        words, source = [], c["file"]
        given = iter(shlex.split(c["command"]))
        for w in given:
            if w in DROP_WITH_NEXT:
                next(given)
            elif w.startswith("-DWEFT_VERSION="):
                words.append(f'-DWEFT_VERSION="{self.version}"')
            elif w not in DROP and w != source:
                words.append(w)
        if source.startswith("transport/"):
            source = os.path.join(self.gen, os.path.basename(source))
        to = os.path.join(self.folder, "obj", output.replace("/", "_"))
        return words[:1] + ["-I" + self.gen] + words[1:] + ["-O0", "-w", "-o", to, source], to

    def compile(self, outputs):
        commands = {o: self.compile_command(o) for o in outputs}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda c: run(*c[0], cwd=self.build.build), commands.values()))
        self.objects.update({o: to for o, (_, to) in commands.items()})

    def belong(self, *libraries):
        return [o for o in self.build.depends_on_messages()
                if o.split(".p/")[0] in libraries]

    def link(self, target, replace):
        """replace: words of the command -> the words in their place."""
        command = self.build.link_command(target)
        at = command.index("-o") + 2
        words = command[:at - 1] + [os.path.join(self.folder, target)]
        for w in command[at:]:
            words += replace.get(w, [w])
        # Objects of ours come before the libraries that have others of the same names.
        run(*words, cwd=self.build.build)

    def members(self, archive):
        names = run("ar", "t", archive, cwd=self.build.build).split()
        each = [f"{archive}.p/{os.path.basename(n)}" for n in names]
        return [self.objects.get(o, o) for o in each]

    def guest(self):
        libs = ("guestlib/libweft-guest.a", "guestlib/libweft-guest-pure.a",
                "transport/libweft-codec.a")
        self.compile(self.belong(*libs))
        self.link("guestlib/libcuda.so.1", {
            **{lib: self.members(lib) for lib in libs},
            "-Wl,--whole-archive": [], "-Wl,--no-whole-archive": [],
            f"-Wl,--version-script={self.build.build}/transport/exports.map":
                [f"-Wl,--version-script={self.gen}/exports.map"]})
        return self

    def host(self, extra=()):
        libs = ("hostd/libweft-session.a", "transport/libweft-codec.a")
        self.compile([o for o in self.belong(*libs) if o not in self.objects])
        self.link("hostd/weft-worker", {
            "hostd/libweft-session.a": self.members("hostd/libweft-session.a") + list(extra),
            "transport/libweft-codec.a": self.members("transport/libweft-codec.a")})
        return self


def pair(build, guest, host, folder):
    """A folder like a build directory with one age's library and another's host; its weft-run.
    None: of the build."""
    for d in ("hostd", "guestlib"):
        os.makedirs(os.path.join(folder, d))
    for program in ("weft-run", "weftd", "weft-listener", "weft-worker"):
        source = host.folder if host and program == "weft-worker" else build.build
        shutil.copy(os.path.join(source, "hostd", program), os.path.join(folder, "hostd"))
    source = guest.folder if guest else build.build
    shutil.copy(os.path.join(source, "guestlib/libcuda.so.1"),
                os.path.join(folder, "guestlib/libcuda.so.1"))
    return os.path.join(folder, "hostd/weft-run")

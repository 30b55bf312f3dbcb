#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: atomics.py NVCC PTXAS ATOMICS_CHECK [STEP]

Atomics of system scope are found in PTX and in machine code: each of them, by itself, for each
architecture that ptxas makes code for, or each STEP-th; and none in what has the other scopes alone.
"""
import itertools
import os
import re
import subprocess
import sys
import tempfile

HEAD = """.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
.reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d<4>; .reg .f32 %f<2>; .reg .f64 %g<2>;
ld.param.u64 %d1, [p];
ld.param.u64 %d3, [q];
ld.global.b16 %h1, [%d3];
ld.global.u32 %r1, [%d3];
ld.global.u64 %d2, [%d3];
ld.global.f32 %f1, [%d3];
ld.global.f64 %g1, [%d3];
"""
OPS = ("add.u32", "add.u64", "add.f32", "add.f64", "add.noftz.f16x2", "add.noftz.f16", "max.s32",
       "min.s64", "and.b32", "or.b64", "inc.u32", "exch.b32", "exch.b64", "cas.b32", "cas.b64",
       "cas.b16")
REGISTER = {"f16": "%h1", "b16": "%h1", "f32": "%f1", "f64": "%g1", "f16x2": "%r1"}


def line(kind, scope, space, op):
    """One instruction, whose result somebody wants."""
    of = op.rsplit(".", 1)[1]
    r = REGISTER.get(of, "%d2" if "64" in of else "%r1")
    if kind == "red":
        return f"red.{scope}{space}.{op} [%d1], {r};\n"
    bits = {"%h1": 16, "%r1": 32, "%f1": 32}.get(r, 64)
    more = f", {r}" if op.startswith("cas") else ""
    return f"atom.{scope}{space}.{op} {r}, [%d1], {r}{more};\nst.global.b{bits} [%d3], {r};\n"


def all_of(scope):
    """By name."""
    return {f"{kind}{space}.{op}": line(kind, scope, space, op)
            for kind, space, op in itertools.product(("atom", "red"), ("", ".global"), OPS)
            if kind == "atom" or op.split(".")[0] not in ("exch", "cas")}


def write(path, body):
    """A kernel of that."""
    with open(path, "w", encoding="ascii") as f:
        f.write(HEAD + body + "ret;\n}\n")
    return path


def said(check, sm, *paths):
    """Answers of the program, one for each."""
    out = subprocess.run([check, str(sm), *paths], capture_output=True, text=True, check=True)
    return [word == "1" for word in out.stdout.split()]


def container(tools, path, text):
    """A fatbin with that PTX, which takes little if it is always the same."""
    ptx = write(path + ".ptx", text)
    subprocess.run([os.path.join(tools, "fatbinary"), "--compress-all", f"--create={path}", "--64",
                    f"--image3=kind=ptx,sm=90,file={ptx}"], check=True)
    with open(path, "rb") as f:
        return f.read()


def unpacked(tools, check, d):
    """Complaints: no more than so much is unpacked to look at it, whatever an image has."""
    large = container(tools, os.path.join(d, "large"), "\n" * (65 << 20))
    some = container(tools, os.path.join(d, "some"), all_of("sys")["red.add.u32"])
    images = [os.path.join(d, name) for name in ("some-first", "large-first")]
    for path, data in zip(images, (some + large, large + some)):
        with open(path, "wb") as f:
            f.write(data)
    assert len(large) < 1 << 20
    got = said(check, 90, *images)
    return [] if got == [True, False] else [f"unpacked: {got}"]


def main():
    nvcc, ptxas, check, step = (sys.argv[1:] + ["1"])[:4]
    bad = []
    with tempfile.TemporaryDirectory() as d:
        system = {name: write(os.path.join(d, f"{i}.ptx"), text)
                  for i, (name, text) in enumerate(all_of("sys").items())}
        others = write(os.path.join(d, "others.ptx"),
                       "".join(all_of("gpu").values()) + "".join(all_of("cta").values()))
        bad += [f"PTX: {name}" for name, yes in zip(system, said(check, 90, *system.values()))
                if not yes]
        bad += ["PTX: others"] if said(check, 90, others)[0] else []
        bad += unpacked(os.path.dirname(ptxas), check, d)
        archs = re.findall(r"sm_(\d+)\b", subprocess.run(
            [nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout)
        archs = archs[::int(step)]
        for arch in archs:
            for name, path in {**system, "others": others}.items():
                subprocess.run([ptxas, f"-arch=sm_{arch}", path, "-o", path + ".cubin"], check=True)
            yes = said(check, arch, *(p + ".cubin" for p in system.values()))
            bad += [f"sm_{arch}: {name}" for name, found in zip(system, yes) if not found]
            bad += [f"sm_{arch}: others"] if said(check, arch, others + ".cubin")[0] else []
    print(*bad, sep="\n")
    print(f"{len(system)} atomics for {len(archs)} architectures, {len(bad)} wrong")
    return bool(bad) or not archs


sys.exit(main())

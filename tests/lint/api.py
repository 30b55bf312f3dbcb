#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API description against the toolkit: functions of cuda.h and of its driver library,
versions of the typedefs for cuGetProcAddress, parameters of generated stubs.

usage: api.py TOP CUDA-HOME FILE.api...
"""

import collections
import os
import re
import subprocess
import sys

HEADERS = ("cuda.h", "cudaProfiler.h")
TYPEDEFS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")
PT_SINCE = 7000


def prototypes(include):
    """name -> list of parameter types, of every version of every function."""
    text = "#define __CUDA_API_VERSION_INTERNAL\n"
    text += "".join(f"#include <{h}>\n" for h in HEADERS)
    out = subprocess.run(["cc", "-E", "-P", "-I" + include, "-x", "c", "-"], input=text,
                         text=True, capture_output=True, check=True).stdout
    found = {}
    for name, args in re.findall(r"CUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;", out):
        found[name] = [kind(a) for a in args.split(",") if a.strip() != "void"]
    return found


def kind(param):
    """A parameter without its name and qualifiers: "CUevent *" -> "CUevent*"."""
    words = re.sub(r"\bconst\b", "", param).replace("*", " * ").split()
    if len(words) > 1 and words[-1] != "*":
        words.pop()
    return " ".join(words).replace(" *", "*")


def stub_params(entry):
    """Parameters of the stub, as the description has them."""
    from emit_guest import c_param
    return [kind(p) for p in map(c_param, entry.fields) if p]


def split(symbol):
    """cuX_v2_ptsz -> (cuX, 2, ptsz)"""
    base, n, pt = re.fullmatch(r"(cu\w+?)(?:_v(\d+))?(?:_(ptds|ptsz))?", symbol).groups()
    return base, int(n or 1), pt or ""


def versions(include, symbols):
    """symbol -> CUDA version: the n-th version of a name has the n-th typedef."""
    typedefs, by_base, out = collections.defaultdict(set), collections.defaultdict(list), {}
    for h in TYPEDEFS:
        with open(os.path.join(include, h), encoding="utf-8") as f:
            for base, v, pt in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(?:_(ptds|ptsz))?\)",
                                          f.read()):
                typedefs[base, pt].add(int(v))
    for s in symbols:
        base, n, pt = split(s)
        by_base[base, pt].append((n, s))
    for key, found in by_base.items():
        if len(found) == len(typedefs[key]):
            out.update(zip([s for _, s in sorted(found)], sorted(typedefs[key])))
    return out


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], text=True,
                         capture_output=True, check=True).stdout
    return {w[2] for w in map(str.split, out.splitlines()) if w[1] == "T"}


def main(top, cuda, *files):
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(top, "transport/gen"))
    from parse import parse
    api, errors = parse(files), []
    protos = prototypes(os.path.join(cuda, "include"))
    stubs = exported(os.path.join(cuda, "lib64/stubs/libcuda.so"))
    since = versions(os.path.join(cuda, "include"), protos)
    ours = {s: e for e in api.fns for s in e.symbols}

    for s in sorted((set(protos) | stubs) - set(ours)):
        errors.append(f"{s} has no entry")
    for s in sorted(set(ours) - stubs):
        errors.append(f"{s} is not in the toolkit's driver library")
    for s, e in ours.items():
        where = f"{os.path.relpath(e.loc[0], top)}:{e.loc[1]}: {s}"
        mine = e.since if s == e.name else max(e.since, PT_SINCE)
        if s in since and since[s] != mine:
            errors.append(f"{where} is since {since[s]}")
        if e.cls in ("call", "post", "alias") and stub_params(e) != protos.get(s):
            errors.append(f"{where} takes {protos.get(s)}, not {stub_params(e)}")
    for text in errors:
        print(text)
    print(f"{len(ours)} functions, {len(since)} versions known, {len(errors)} errors")
    return 1 if errors or len(ours) < 600 or len(since) < 600 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

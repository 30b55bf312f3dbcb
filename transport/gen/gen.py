#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C, tables and documentation from the descriptions in transport/api.

usage: gen.py --out DIR FILE.api...      (all outputs; order of files is order of operations)
"""

import argparse
import os
import sys

from emit_codec import codec_c, codec_h
from emit_guest import calls_h, exports_map, none_c, stubs_c
from emit_host import dispatch_c, dispatch_h
from emit_ops import ops_h
from emit_record import record_text
from emit_tables import coverage_md, procs_c
from model import Bad
from parse import parse
from wrap import wrap

OUTPUTS = {
    "ops.h": ops_h,
    "codec.h": codec_h,
    "codec.c": codec_c,
    "dispatch.h": dispatch_h,
    "dispatch.c": dispatch_c,
    "calls.h": calls_h,
    "stubs.c": stubs_c,
    "none.c": none_c,
    "procs.c": procs_c,
    "exports.map": exports_map,
    "coverage.md": coverage_md,
    "messages.txt": record_text,
}


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("files", nargs="+")
    a = ap.parse_args(argv)
    shown = [os.path.relpath(f) if os.path.relpath(f).count("..") < 3 else f for f in a.files]
    try:
        api = parse(a.files, shown)
    except Bad as e:
        sys.exit(f"{e}")
    for name, emit in OUTPUTS.items():
        text = emit(api)
        if name.endswith((".c", ".h")):
            text = wrap(text)
        with open(os.path.join(a.out, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()

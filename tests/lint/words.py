#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The field's words: each row is a word that had come up beside one, and what to say.

    words.py TOP

One word has one meaning, and it is the field's where there is one (CUDA's, virtio's,
libvirt's, cgroup v2's, those of memory management). Files of a day and decisions keep what
they said.
"""
import os
import re
import subprocess
import sys

WORDS = (
    (r"(?i)\bpurses?\b", "credit"),
    (r"(?i)\bg[ai]v(?:e|es|en|ing) way\b", "evict, be evicted"),
    (r"\b(?:com(?:e|es|ing)|came) home\b|\bhomecoming\b|[a-z]_home\b(?<!cuda_home)", "make resident"),
    (r"\bborn\b", "spilled"),
    (r"\b(?:is|are|was|were|memory) away\b(?! from)|(?:->|\.)away\b(?!\.)|\baway_[a-z]{2}", "evicted"),
    (r"(?i)chunk", "page (of addresses), backing (of an allocation), piece (that moves), "
               "allocation (of the device)"),
    (r"\b[Dd]oors?\b|_doors?\b|\bdoor_|DOOR(?!BELL)", "listener"),
    (r"(?i)keeper", "supervisor"),
    (r"\bmates\b|\bTold\b", "fakes, Script"),
    (r"guest_gate\b", "guest_status"),
    (r"by_hand\b", "manual"),
)
SKIPPED = ("tests/fuzz/corpus/", "tests/bench/results/", "hostd/doc/decisions/",
           "tests/lint/words.py", "LICENSE")
# path: why it may have them
ALLOWED = {
    "hostd/doc/NEWS.md": "tells what was renamed",
}


def main(top):
    rows = [(re.compile(rx), say) for rx, say in WORDS]
    out = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True)
    if out.returncode:
        print(f"skipped: not a checkout: {out.stderr.strip()}")
        return 77
    files = errors = 0
    for path in out.stdout.split():
        if path.startswith(SKIPPED) or path in ALLOWED:
            continue
        try:
            with open(os.path.join(top, path), encoding="utf-8") as f:
                text = f.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        files += 1
        for number, line in enumerate(text.split("\n"), 1):
            for rx, say in rows:
                m = rx.search(line)
                if m:
                    print(f"{path}:{number}: '{m.group(0)}': say {say}")
                    errors += 1
    for path in ALLOWED:
        if not os.path.exists(os.path.join(top, path)):
            print(f"words.py: {path} is not there")
            errors += 1
    print(f"{len(WORDS)} words in {files} files, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

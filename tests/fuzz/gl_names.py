#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of OpenGL that a library calls by way of libepoxy, each as a variable that leads to
gl_nothing() unless gl_null.c has one of that name: gl_names.py LIBRARY > FILE.c"""
import re
import subprocess
import sys


def main():
    symbols = subprocess.run(["nm", "-D", "--undefined-only", sys.argv[1]], check=True,
                             capture_output=True, text=True).stdout
    names = sorted(set(re.findall(r" U (epoxy_gl[A-WYZ]\w+)$", symbols, re.M)))
    if not names:
        sys.exit(f"{sys.argv[1]}: calls nothing of libepoxy")
    print("unsigned long gl_nothing(void);")
    for name in names:
        print(f"__attribute__((weak)) void *{name} = (void *)gl_nothing;")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps what each release has on the wire, and compares it with what is here.

usage: release.py show MESSAGES.txt LAYOUT-PROGRAM       prints the present description
       release.py record VERSION PRESENT.txt RELEASES    writes RELEASES/VERSION.txt
       release.py check VERSION PRESENT.txt RELEASES     what would part older ends from us

A description is text: constants, enumerations and structures of the headers (layout.py), then
records and operations (emit_record.py). api/README.md says what may change.
"""

import os
import re
import subprocess
import sys

# A host serves guests of so many releases before its own, and guests work on such hosts.
SERVED = 2
# Says itself which versions are spoken.
MAY_GROW = ("WIRE_VERSION", "WIRE_VERSION_MIN")


class Description:
    """A text taken apart: {line that begins something: [its lines]}, operations by number."""

    def __init__(self, text):
        self.things, self.ops = {}, {}
        current = None
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("    "):
                current.append(line.strip())
                continue
            words = line.split()
            current = []
            if words[0] == "op":
                self.ops[int(words[1])] = (words[2], words[3], current)
            elif ")" in line:  # an example of what is computed
                what, value = line.split(") ")
                self.things[what + ")"] = (value, current)
            else:
                self.things[" ".join(words[:2])] = (" ".join(words[2:]), current)


def field_name(line):
    """Name of a field: of `in u32 flags[3]` flags, of `in bytes params max 9` params."""
    return re.match(r"\S+ \S+ (\w+)", line + " ?").group(1)


def directions(lines):
    fields = [s for s in lines if not s.startswith("payload")]
    return {
        "command": [s for s in fields if not s.startswith("out ")],
        "reply": [s for s in fields if not s.startswith("in ")],
        "payload": [s for s in lines if s.startswith("payload")],
    }


def check_fields(name, which, old, new):
    """Fields are appended, and nothing else happens to them."""
    for i, was in enumerate(old):
        now = new[i] if i < len(new) else None
        if now == was:
            continue
        if now is None:
            yield f"{name}: field '{was}' of the {which} is gone: leave it, unused if need be"
        elif now in old or was in new:
            yield (f"{name}: '{now}' stands where '{was}' was in the {which}: a new field "
                   "comes last")
        else:
            yield (f"{name}: '{was}' of the {which} has become '{now}': leave it and append "
                   "another field")
        return
    for more in new[len(old):]:
        if re.match(r"\S+ str ", more):
            yield (f"{name}: '{more}' is appended, and older ends send no string, not even an "
                   "empty one: make it bytes")


def check_op(number, old, new):
    name, cls, lines = old
    if new is None:
        yield (f"operation {number}, {name}, is gone: guests of that release send it. Leave it "
               "and its handler until that release is no longer served")
        return
    if new[0] != name:
        yield (f"operation {number} was {name} and is {new[0]} now: numbers are never given "
               "away again, take the next one")
        return
    if new[1] != cls:
        yield f"{name} was '{cls}' and is '{new[1]}': add another operation"
    was, now = directions(lines), directions(new[2])
    if was["payload"] != now["payload"]:
        yield (f"{name}: {was['payload'] or 'no payload'} has become "
               f"{now['payload'] or 'none'}: add another operation")
    for which in ("command", "reply"):
        yield from check_fields(name, which, was[which], now[which])


def check_thing(what, old, new):
    kind = what.split()[0]
    if new is None:
        yield f"{what} is gone"
    elif what.startswith("const ") and what.split()[1] in MAY_GROW:
        if int(new[0], 16) < int(old[0], 16):
            yield f"{what} went back from {old[0]} to {new[0]}"
    elif old[0] != new[0]:
        how = (" (a larger one is another structure, and another WIRE_VERSION)"
               if kind == "struct" else "")
        yield f"{what} was {old[0]} and is {new[0]}{how}"
    elif kind == "enum":
        for value in old[1]:
            if value not in new[1]:
                yield f"{what}: '{value}' has changed or is gone: values keep their numbers"
    elif old[1] != new[1]:
        for a, b in zip(old[1] + [""] * len(new[1]), new[1] + [""] * len(old[1])):
            if a != b:
                yield (f"{what}: '{a or 'nothing'}' has become '{b or 'nothing'}': add another "
                       f"{kind} and leave this one")
                return


def spoken_from(d):
    return int(d.things["const WIRE_VERSION_MIN"][0], 16)


def compare(old, new):
    """Yields what of `new` an end of `old` would not understand, as sentences."""
    for what, was in old.things.items():
        yield from check_thing(what, was, new.things.get(what))
    for number, was in sorted(old.ops.items()):
        yield from check_op(number, was, new.ops.get(number))


def reused(old, new):
    """For a release that is no longer served only this counts."""
    for number, (name, _, _) in old.ops.items():
        if number in new.ops and new.ops[number][0] != name:
            yield (f"operation {number} was {name} and is {new.ops[number][0]} now: numbers are "
                   "never given away again, take the next one")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def version_key(version):
    return [int(n) for n in version.split(".")]


def recorded(folder):
    """Versions that have a description, the oldest first."""
    names = (f[:-4] for f in os.listdir(folder) if f.endswith(".txt"))
    return sorted(names, key=version_key)


def served(folder, version):
    """Lists whose ends must understand this one's: itself and those before it."""
    before = [v for v in recorded(folder) if version_key(v) <= version_key(version)]
    here = [version] if version in before else []
    return [v for v in before if v != version][-SERVED:] + here


def problems(version, present, folder):
    new = Description(present)
    keep = served(folder, version)
    for v in recorded(folder):
        old = Description(read(os.path.join(folder, v + ".txt")))
        for text in (compare if v in keep else reused)(old, new):
            yield v, text
        if v in keep and spoken_from(new) > int(old.things["const WIRE_VERSION"][0], 16):
            yield v, "WIRE_VERSION_MIN is higher than what that release speaks"


def check(version, present, folder):
    if not recorded(folder):
        return f"no release is recorded in {folder}"
    bad = [f"release {v}: {text}" for v, text in problems(version, present, folder)]
    if not bad:
        return None
    return "\n".join(bad + ["Ends of these releases are in use. transport/api/README.md, \"What "
                            "may change\", says how to make such a change."])


def is_released(version, folder):
    return subprocess.run(["git", "-C", folder, "rev-parse", "-q", "--verify",
                           f"refs/tags/v{version}"], check=False, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def record(version, present, folder):
    path = os.path.join(folder, version + ".txt")
    text = f"# Weft {version} on the wire; by: ninja -C build wire-record\n" + present
    if os.path.exists(path) and read(path) != text and is_released(version, folder):
        return (f"{version} has been released: its description does not change. A new release has "
                "a new version, in meson.build")
    wrong = check(version, present, folder) if recorded(folder) else None
    if wrong:
        return wrong
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(path)
    return None


def show(messages, program):
    layout = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    sys.stdout.write(layout + read(messages))


def main(argv):
    if len(argv) == 3 and argv[0] == "show":
        return show(argv[1], argv[2])
    if len(argv) == 4 and argv[0] in ("record", "check"):
        return {"record": record, "check": check}[argv[0]](argv[1], read(argv[2]), argv[3])
    return __doc__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

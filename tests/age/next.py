# SPDX-License-Identifier: Apache-2.0
"""A next release, made up: fields at the end of commands and replies with and without variable
parts, an operation, a record, a feature of the host's and one of the guest's."""

import os
import re

VERSION = "9.1.0"

# file -> (after this entry's last line, these lines)
ENTRIES = {
    "session.api": [
        ("session_open", ["in  u64 next_wish", "out u64 next_gift"]),
        ("device_status", ["out u32 next_percent", "out u32 next_heat"]),
    ],
    "launch.api": [("launch_kernel", ["in u32 next_paint"])],
    "module.api": [("module_load", ["in u32 next_style", "out u64 next_cost"]),
                   ("module_function", ["in u64 next_tag"])],
    "copy.api": [("copy_htod", ["in u64 next_hint"])],
}
NEW = """
record next_pair
    u32 one
    u32 two
msg next_note any op {0}
    in next_pair pair
fn cuWeftNext call op {1} need init since 13000
    in unsigned int value
    out unsigned int doubled
"""

PROTOTYPE = """
#pragma GCC visibility push(default)
CUresult cuWeftNext(unsigned int value, unsigned int *doubled);
#pragma GCC visibility pop
"""

# The next library's use of its own fields.
FILL = {
    "launch_kernel": "cmd->next_paint = getenv(\"WEFT_TEST_PAINT\") ? "
                     "(uint32_t)atoi(getenv(\"WEFT_TEST_PAINT\")) : 0;",
    "session_open": "cmd->next_wish = 0;",
    "module_load": "cmd->next_style = 0;",
    "module_function": "cmd->next_tag = 0;",
    "copy_htod": "cmd->next_hint = 0;",
}

HANDLERS = """
int handle_next_note(struct sess_lane *sl, const struct next_note_args *a,
		     struct next_note_rep *rep)
{
	return 0;
}

int handle_cuWeftNext(struct sess_lane *sl, const struct cuWeftNext_args *a,
		      struct cuWeftNext_rep *rep)
{
	rep->doubled = 2 * a->cmd->value;
	return 0;
}
"""


def appended(text, entry, lines):
    """The description with lines at the end of an entry."""
    at = re.search(rf"^(msg|fn) {entry} .*\n(?:[ \t]+.*\n|#.*\n(?=[ \t]))*", text, re.M)
    return text[:at.end()] + "".join(f"    {s}\n" for s in lines) + text[at.end():]


def write_api(files, next_op, folder):
    """Writes the descriptions of the next release; returns their paths in order."""
    out = []
    for path in files:
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for entry, lines in ENTRIES.get(name, ()):
            text = appended(text, entry, lines)
        if name == "session.api":
            text += NEW.format(next_op, next_op + 1)
        out.append(os.path.join(folder, name))
        with open(out[-1], "w", encoding="utf-8") as f:
            f.write(text)
    return out


def edit_sources(ends):
    """Does what people would write by hand for it."""
    ends.edit("feature.h", ("FEATURE_APART = 1 << 1,", "FEATURE_APART = 1 << 1 | 1 << 9,"),
              ("GUEST_FEATURE_OUTPUT = 1 << 0,", "GUEST_FEATURE_OUTPUT = 1 << 0 | 1 << 8,"))
    ends.edit("procs.c", ('#include "core/guest.h"\n', '#include "core/guest.h"\n' + PROTOTYPE))
    ends.edit("calls.h", ('#include "core/guest.h"\n',
                          '#include "core/guest.h"\n#include <stdlib.h>\n' + PROTOTYPE))
    for name, statement in FILL.items():
        init = rf"{name}_cmd_init\(cmd"
        with open(os.path.join(ends.gen, "calls.h"), encoding="utf-8") as f:
            call = re.search(rf"\t\t?{init}[^;]*;\n", f.read()).group(0)
        braced = call.startswith("\t\t") and ", " not in call
        ends.edit("calls.h", (call, f"\t\t{{ {call.strip()} {statement} }}\n" if braced
                              else f"{call}\t\t{statement}\n"))
    ends.edit("dispatch.c",
              ("\tr = handle_session_open(sl, &args, &rep);\n",
               "\tr = handle_session_open(sl, &args, &rep);\n\trep.next_gift = 1;\n"),
              ("\tr = handle_device_status(sl, &args, &rep);\n",
               "\tr = handle_device_status(sl, &args, &rep);\n\trep.next_percent = 1;\n"),
              ("r = handle_launch_kernel(sl, &args, &rep);",
               "r = args.cmd->next_paint > 1 ? (rep.res.result = CUDA_ERROR_INVALID_VALUE, 0) "
               ": handle_launch_kernel(sl, &args, &rep);"),
              ("\nstatic int run_session_open(", HANDLERS + "\nstatic int run_session_open("))

# SPDX-License-Identifier: Apache-2.0
"""The guest's side: calls.h for hand-written stubs, stubs.c, none.c, exports.map."""

from emit_codec import counts
from emit_ops import HEAD


CALL_FIELDS_MAX = 6  # of call_X(): more are easier to read by their names


def calls_h(api):
    out = HEAD.format("how stubs begin a command, and call")
    out += """#ifndef WEFT_CALLS_H
#define WEFT_CALLS_H

#include "codec.h"
#include "core/guest.h"

/*
 * begin_X() begins command X: guest_begin() with the right size, padding zeroed, lengths of
 * variable parts set. Fill every field and every part (at X_cmd_<part>()), then send with
 * guest_post() or guest_call(t, sizeof(struct X_rep), &reply). NULL: return guest_lost(t).
 *
 * call_X() does all of that for a message of few fields and fixed size: guest_call() with the
 * values of the fields, in their order, arrays and records by pointer. *ret_rep, if the reply
 * says more than how it went, is written on CUDA_SUCCESS only.
 */
"""
    return out + "".join(begin_fn(e) + call_fn(e) for e in api.ops) + "\n#endif\n"


def begin_fn(e):
    args = ["struct guest_thread *t"] + counts(e.cmd)
    names = [p.length for p in e.cmd.parts]
    size = f"{e.name}_cmd_size({', '.join(names)})" if names else "sizeof(*cmd)"
    payload = "0, NULL"
    if e.payload_in:
        args += ["uint32_t payload_size", "void **ret_payload"]
        payload = "payload_size, ret_payload"
    return (f"\nstatic inline struct {e.name}_cmd *begin_{e.name}({', '.join(args)})\n{{\n"
            f"\tstruct {e.name}_cmd *cmd = guest_begin(t, WIRE_OP_{e.name}, {size}, {payload});"
            f"\n\n{begun(e, names)}\treturn cmd;\n}}\n")


def begun(e, names):
    init = f"\t\t{e.name}_cmd_init({', '.join(['cmd'] + names)});\n"
    if not names:
        return f"\tif (cmd)\n{init}"
    return f"\tif (cmd) {{\n\t\tguest_fixed(t, sizeof(*cmd));\n{init}\t}}\n"


def call_param(f):
    if f.count > 1:
        return f"const {f.type.c} {f.name}[{f.count}]"
    return f"const {f.type.c} *{f.name}" if f.type.record else f"{f.type.c} {f.name}"


def call_fill(f):
    if f.count > 1:
        return f"\tmemcpy(cmd->{f.name}, {f.name}, sizeof(cmd->{f.name}));\n"
    return f"\tcmd->{f.name} = {'*' if f.type.record else ''}{f.name};\n"


def call_fn(e):
    """Nothing for functions, which have a stub, and where lengths or records vary."""
    given = [f for f in e.fields if f.dir != "out"]
    if e.kind == "fn" or e.cls == "post" or e.payload_in or e.payload_out or \
            e.cmd.parts or e.rep.parts or len(given) > CALL_FIELDS_MAX:
        return ""
    answers = len(given) < len(e.fields)
    more = [f"struct {e.name}_rep *ret_rep"] if answers else []
    args = ", ".join(["struct guest_thread *t"] + list(map(call_param, given)) + more)
    out = (f"\nstatic inline CUresult call_{e.name}({args})\n{{\n"
           f"\tstruct {e.name}_cmd *cmd = begin_{e.name}(t);\n\tstruct lane_reply reply;\n")
    out += "\tCUresult r;\n" if answers else ""
    out += "\n\tif (!cmd)\n\t\treturn guest_lost(t);\n" + "".join(map(call_fill, given))
    if not answers:
        return out + f"\treturn guest_call(t, sizeof(struct {e.name}_rep), &reply);\n}}\n"
    return out + ("\tr = guest_call(t, sizeof(*ret_rep), &reply);\n\tif (r == CUDA_SUCCESS)\n"
                  "\t\tmemcpy(ret_rep, reply.body, sizeof(*ret_rep));\n\treturn r;\n}\n")


# ---- generated stubs ----

def c_param(f):
    if f.kind == "str":
        return f"const char *{f.name}"
    star = "*" if f.dir != "in" or f.role == "new" else ""
    return f"{f.ctype}{'' if f.ctype.endswith('*') else ' '}{star}{f.name}"


def params(e, more=()):
    return ", ".join([c_param(f) for f in e.fields] + list(more)) or "void"


def args(e, more=()):
    return ", ".join([f.name for f in e.fields] + list(more))


def valid(f):
    """An expression that says whether a handle may be passed on."""
    h = f"(uint64_t)(uintptr_t){f.name}"
    return " && ".join(([f.name] if f.optional else []) +
                       [f"!guest_handle_valid({h}, HANDLE_{k})" for k in f.type.handles])


def refuse(cond, code):
    return f"\tif ({cond})\n\t\treturn {code};\n"


def stub_checks(e, msg):
    """Code of the checks that refuse a call before anything is sent."""
    out = ""
    for f in e.fields:
        if f.role == "new" or (f.dir != "in" and not f.optional):
            out += refuse(f"!{f.name}", "CUDA_ERROR_INVALID_VALUE")
        elif f.kind == "str":
            wire = msg.part(f.name)
            out += refuse(f"!{f.name}", "CUDA_ERROR_INVALID_VALUE")
            out += f"\t{f.length} = strnlen({f.name}, {wire.max}) + 1;\n"
            out += refuse(f"{f.length} > {wire.max}", "CUDA_ERROR_INVALID_VALUE")
        elif f.dir == "in" and f.type.handles and f.role != "stream":
            out += refuse(valid(f), "CUDA_ERROR_INVALID_HANDLE")
    for c in e.refuse:
        out += refuse(c, "CUDA_ERROR_INVALID_VALUE")
    return out


def fill(f, wire):
    value = {"stream": "wire_stream", "new": "new_handle"}.get(f.role)
    if value:
        return f"\tcmd->{f.name} = {value};\n"
    if f.dir == "inout":
        return f"\tcmd->{f.name} = ({wire.type.c})*{f.name};\n"
    if f.type.name == "CUcontext":
        return f"\tcmd->{f.name} = guest_ctx_handle({f.name});\n"
    cast = "(uint64_t)(uintptr_t)" if f.type.handles else f"({wire.type.c})"
    return f"\tcmd->{f.name} = {cast}{f.name};\n"


def fill_all(e, msg):
    out, strings = "", [f for f in e.fields if f.kind == "str"]
    for f in e.fields:
        if f.dir == "out":
            continue
        if f.kind == "str":
            before = strings[:strings.index(f)]
            where = ", ".join(["cmd"] + [f"(uint32_t){q.length}" for q in before])
            out += f"\tmemcpy({msg.name}_cmd_{f.name}({where}), {f.name}, {f.length});\n"
        else:
            out += fill(f, msg.part(f.name))
    return out + "".join(f"\tcmd->{n} = {v};\n" for n, v, _ in e.sets)


def results(e, msg):
    """Copies what the reply brought to where the caller wants it."""
    out = ""
    for f in e.fields:
        if f.dir != "in":
            value = f"({f.ctype})rep->{f.name}"
            if f.type.handles:
                value = f"({f.ctype})(uintptr_t)rep->{f.name}"
            out += f"\tif ({f.name})\n\t" if f.optional else ""
            out += f"\t*{f.name} = {value};\n"
    return out


def stub_tail(e, msg, new):
    """Sends; stores outputs; keeps or gives up handles."""
    drop = f"\t\tguest_handle_free(new_handle);\n" if new else ""
    gone = "".join(f"\tguest_handle_free((uint64_t)(uintptr_t){f.name});\n"
                   for f in e.fields if f.role == "del")
    has_out = any(f.dir != "in" for f in e.fields)
    if e.cls == "post":
        send = "guest_post(t)"
    else:
        send = f"guest_call(t, sizeof(struct {msg.name}_rep), &reply)"
    if not (has_out or new or gone):
        return f"\treturn {send};\n"
    out = f"\tr = {send};\n\tif (r)"
    out += f" {{\n{drop}\t\treturn r;\n\t}}\n" if drop else "\n\t\treturn r;\n"
    if has_out:
        out += "\trep = reply.body;\n" + results(e, msg)
    if new:
        out += f"\t*{new.name} = ({new.ctype})(uintptr_t)new_handle;\n"
    return out + gone + "\treturn CUDA_SUCCESS;\n"


def stub_decls(e, msg, new):
    out = "\tstruct guest_thread *t;\n" + f"\tstruct {msg.name}_cmd *cmd;\n"
    if e.cls == "call":
        out += "\tstruct lane_reply reply;\n"
    if any(f.dir != "in" for f in e.fields):
        out += f"\tconst struct {msg.name}_rep *rep;\n"
    out += "\tuint64_t new_handle;\n" if new else ""
    out += "\tuint64_t wire_stream;\n" if stream_of(e) else ""
    out += "".join(f"\tsize_t {f.length};\n" for f in e.fields if f.kind == "str")
    st = stream_of(e)
    need = f"guest_need_on({st.name})" if st and st.role == "stream" else f"NEED_{e.need.upper()}"
    return out + f"\tCUresult r = guest_enter({need}, &t);\n"


def stream_of(e):
    return next((f for f in e.fields if f.role == "stream"), None)


def stub_body(e, msg):
    new = next((f for f in e.fields if f.role == "new"), None)
    st = stream_of(e)
    out = "{\n" + stub_decls(e, msg, new) + "\n\tif (r)\n\t\treturn r;\n"
    if e.unsafe:
        out += "\tr = guest_unsafe(t);\n\tif (r)\n\t\treturn r;\n"
    out += stub_checks(e, msg)
    if e.whole:
        ctx = next((f"guest_ctx_handle({f.name})" for f in e.fields
                    if f.type.name == "CUcontext"), "0")
        out += f"\tr = guest_whole(t, {ctx});\n\tif (r)\n\t\treturn r;\n"
    if st:
        pt = "per_thread" if e.pt else "false"
        out += f"\tr = guest_stream({st.name}, {pt}, &wire_stream);\n\tif (r)\n\t\treturn r;\n"
    if new:
        out += f"\tnew_handle = guest_handle_new(HANDLE_{new.type.handles[0]}, NULL);\n"
        out += refuse("!new_handle", "CUDA_ERROR_OUT_OF_MEMORY")
    lens = "".join(f", (uint32_t){f.length}" for f in e.fields if f.kind == "str")
    out += f"\tcmd = begin_{msg.name}(t{lens});\n\tif (!cmd)"
    out += " {\n\t\tguest_handle_free(new_handle);\n\t\treturn guest_lost(t);\n\t}\n" if new else \
        "\n\t\treturn guest_lost(t);\n"
    return out + fill_all(e, msg) + stub_tail(e, msg, new) + "}\n"


def stub(api, e):
    msg = api.find(e.target) if e.target else e
    proto = f"\nCUresult CUDAAPI {e.name}({params(e)})\n"
    if not e.pt:
        return proto + stub_body(e, msg)
    out = f"\nstatic CUresult {e.name}_on({params(e, ['bool per_thread'])})\n"
    out += stub_body(e, msg)
    for sym, pt in zip(e.symbols, ("false", "true")):
        out += (f"\nCUresult CUDAAPI {sym}({params(e)})\n"
                f"{{\n\treturn {e.name}_on({args(e, [pt])});\n}}\n")
    return out


def alias(e):
    out = ""
    for sym, pt in zip(e.symbols, ("", f"_{e.pt}")):
        out += (f"\nCUresult CUDAAPI {sym}({params(e)})\n"
                f"{{\n\treturn {e.target}{pt}({args(e)});\n}}\n")
    return out


def stubs_c(api):
    out = HEAD.format("functions that are one message")
    out += "#include <string.h>\n\n#include \"calls.h\"\n"
    for e in api.fns:
        if e.cls in ("call", "post"):
            out += stub(api, e)
        elif e.cls == "alias":
            out += alias(e)
    return out


def none_c(api):
    out = HEAD.format("functions that are not supported")
    out += """/*
 * Exported, so that programs which name them link and start. What such a function is
 * passed is of no interest, so it is defined without parameters and cuda.h, whose
 * prototypes would contradict, stays out.
 */
#include "base/macros.h"
#include "object/refuse.h"
"""
    for e in api.fns:
        for s in e.symbols if e.cls == "none" else ():
            out += (f"\n_public_ int {s}(void);\nint {s}(void)\n{{\n"
                    f"\treturn guest_refuse(REFUSAL_FUNCTION, \"{s}\");\n}}\n")
    return out


def exports_map(api):
    out = "# Generated from transport/api.\n{\nglobal:\n"
    out += "".join(f"\t{s};\n" for e in api.fns for s in e.symbols)
    return out + "local:\n\t*;\n};\n"

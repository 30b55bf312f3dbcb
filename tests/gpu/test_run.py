#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner itself: headers, verdicts, tables, targets, and a run on the soft device.

    test_run.py BUILD      prints TAP, as the other tests do
"""
import json
import os
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from weftgpu import bench, build, compat, execute, mix, profile, programs, table  # noqa: E402

BUILD = sys.argv[1]
RUN = [sys.executable, "-B", os.path.join(HERE, "run")]


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def program(text, name="p.py"):
    with tempfile.TemporaryDirectory() as d:
        return programs.Program(write(d, name, text))


def test_headers():
    p = program("#!/usr/bin/env python3\n# weft: needs=a,!b seconds=7 env=X=1=2 soft alone\n")
    assert p.listed and p.needs == ["a", "!b"] and p.seconds == 7
    assert p.env == {"X": "1=2"} and p.soft and p.alone
    row = compat.Row(program("# weft: refuses=table-a,slot-b\n"))
    compat.sort_refusals(row, ["table table-a x2", "function cuNew x1"])
    assert row.known == ["table table-a x2"] and row.refused == ["function cuNew x1"]
    p = program("/* SPDX */\n/* weft: libs=x,y */\n", "p.c")
    assert p.listed and p.libs == ["x", "y"] and not p.soft
    assert not program("# says weft: nothing\n").listed
    try:
        program("# weft: speed=9\n")
    except ValueError as e:
        assert "speed=9" in str(e)
    else:
        raise AssertionError("an unknown word passes")


def test_every_program_is_listed():
    shared = {"timing", "gpt2", "resnet"}
    for part, besides in (("compat", {"check"}), ("bench", {"first_kernel"} | shared)):
        files = {os.path.splitext(f)[0] for f in os.listdir(f"{HERE}/{part}")
                 if f.endswith(programs.SUFFIXES)}
        assert files - besides == {p.name for p in programs.find(f"{HERE}/{part}")}, part


def test_samples_that_are_built():
    """Two programs of a sample: the one with the static runtime runs, the other does not."""
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/Samples/0_Group/small/static")
        path = write(f"{d}/Samples/0_Group/small/static", "small", "#!/bin/sh\ntest -f datum\n")
        os.chmod(path, 0o755)
        write(f"{d}/Samples/0_Group/small", "datum", "")
        write(d, "samples.json", json.dumps([{"name": "small", "group": "0_Group", "runs": [[]],
                                              "managed": False, "why": {"shared": "no link"}}]))
        r = subprocess.run([sys.executable, "-B", f"{HERE}/samples", "--built", d, "--build", BUILD,
                            "--device", "soft", "--json", f"{d}/out.json"],
                           capture_output=True, text=True, check=False)
        assert r.returncode == 0, r.stdout + r.stderr
        assert "no link" in r.stdout and "1 ran" in r.stdout, r.stdout
        with open(f"{d}/out.json", encoding="utf-8") as f:
            assert json.load(f)["samples"][0]["static"] == "ok"


def test_comparison_of_profiles():
    """Pieces that were missed or not needed count, not those that nobody foretold."""
    head = f"{'pieces of 2 MiB, of kernel':40}  launches  reached  missed  extra\n"
    text = head + "one<int>  8 1000 {} {}\ntwo 3 50 0 700\nall that are foretold 8 1000 {} {}\n" \
        "all whose allocations count 3 50 0 700\n"
    for missed, extra, good in ((1, 10, True), (2, 0, False), (0, 11, False)):
        row = profile.row_of("p", text.format(missed, extra, missed, extra))
        assert (row.good, row.reached, row.missed, row.extra) == (good, 1000, missed, extra), row.text
        assert "2 kernels" in row.text and "3 launches, 50 pieces, 700 more" in row.text, row.text
    assert not profile.row_of("p", head).good
    nothing = "all that are foretold 0 0 0 0\nall whose allocations count 3 50 0 700\nx 1 1 1 1\n"
    assert not profile.row_of("p", nothing).good


def test_graphics():
    """A program that takes textures without end, and is killed."""
    if not os.path.exists(f"{BUILD}/hostd/weft-gl"):
        return "no weft-gl: built without virglrenderer"
    r = subprocess.run(RUN + ["--build", BUILD, "--device", "soft", "--only", "gl-limit"],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "1024 MiB of 1024, error 0x505" in r.stdout and "2 ran, 0 failed" in r.stdout, r.stdout
    return ""


def test_missing():
    python = programs.Python(sys.executable)
    assert programs.missing(program("# weft: needs=os,!sh\n"), python) is None
    assert "no_such_package" in programs.missing(program("# weft: needs=no_such_package\n"),
                                                 python)
    assert "no_such_command" in programs.missing(program("# weft: needs=!no_such_command\n"),
                                                 python)


def test_verdicts():
    line = execute.verdict_line
    assert line("ok", 0, "noise\nok p fine\nmore\n") == "ok p fine"
    assert line("fail", 1, "weft: lost\nTraceback (most recent call last):\n  File\n"
                "RuntimeError: deep\n") == "RuntimeError: deep"
    assert line("fail", 1, "Traceback (\nValueError: x\nFAIL p: y\n") == "FAIL p: y"
    assert line("fail", -11, "") == "SIGSEGV"
    assert line("fail", 139, "Fatal Python error: Segmentation fault\n\nThread 0x1\n"
                "  File \"a.py\", line 3 in f\n  File \"b.py\", line 4\n") == \
        'Fatal Python error: Segmentation fault File "a.py", line 3 in f'
    assert line("fail", 3, "") == "status 3"
    assert line("time", 124, "a\n") == "timed out; a"


def test_side_kills_what_hangs():
    r = execute.native().run(["sh", "-c", "echo begun; sleep 100 & sleep 100"], seconds=1)
    assert r.status == "time" and r.seconds < 5 and "begun" in r.output, r.line
    r = execute.native().run(["sh", "-c", "kill -SEGV $$"], seconds=5)
    assert r.status == "fail" and r.line == "SIGSEGV", r.line


def test_rows():
    row = compat.Row(program("# weft: soft\n"))
    good = execute.Result("ok", 0, 1.0, "ok p\n")
    bad = execute.Result("fail", 1, 1.0, "FAIL p: why\n")
    row.native, row.weft = good, good
    assert row.verdict == "ok"
    row.weft = bad
    assert row.verdict == "FAILED" and row.reason() == "FAIL p: why"
    row.native = bad
    assert row.verdict == "FAILS NATIVELY"


def test_table():
    text = table.render(("a", "bb"), [("x", 1), (None, 22)], right=(1,))
    assert text.splitlines() == ["a  bb", "-  --", "x   1", "-  22"], text
    assert table.spread([3, 1, 2]) == (2, 1, 3) and table.spread([4, 2]) == (3, 2, 4)


def test_targets():
    def judge(metric, native, weft):
        row = bench.Row(metric)
        row.native, row.weft = native, weft
        return row.judge(), row.ratio()
    assert judge("launch_call", [2.6], [0.3])[0] is True
    assert judge("launch_call", [2.6], [0.31])[0] is False
    assert judge("launch_sync", [7.0], [7.5])[0] is True
    assert judge("launch_sync", [7.0], [7.6])[0] is False
    # More is better of one, less of the other.
    assert judge("pinned_h2d", [50.0], [49.0]) == (True, 0.98)
    assert judge("pinned_h2d", [50.0], [48.0])[0] is False
    assert judge("decode_graph", [1.0], [1.05])[0] is False
    assert judge("decode_graph", [1.0], [0.5]) == (True, 2.0)
    assert judge("idle", [0.07], [0.08])[0] is True
    assert judge("idle", [0.0], [0.5])[0] is False
    assert judge("idle", [0.0], [])[0] is None


def test_bundle_that_is_none():
    try:
        build.unpack("/dev/null/none", "/dev/null/where")
    except (build.Error, OSError):
        return
    raise AssertionError("no error")


def run(*args, expect):
    r = subprocess.run([*RUN, *args], capture_output=True, text=True, check=False, timeout=200)
    assert r.returncode == expect, f"status {r.returncode}\n{r.stdout}\n{r.stderr}"
    return r.stdout


def test_skip():
    out = run("--build", BUILD, "--device", "soft", "--only", "fault_beside", "--only",
              "staged_results", "--skip", "fault_beside", expect=0)
    assert "staged_results" in out and "fault_beside" not in out, out


def test_unknown_name():
    run("--only", "no_such_thing", expect=1)


def test_soft_device():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.json")
        out = run("--build", BUILD, "--device", "soft", "--only", "fault_beside", "--only",
                  "launch", "--repeats", "2", "--swap", "64M", "--json", path, "--logs", d,
                  expect=0)
        assert "native side skipped" in out and "fault_beside" in out, out
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        (row,) = report["compat"]
        assert row["verdict"] == "ok" and row["native"] is None
        assert row["weft"]["line"].startswith("ok fault_beside")
        metrics = {r["metric"]: r for r in report["bench"]}
        assert len(metrics["launch_sync"]["weft"]["values"]) == 2
        assert metrics["launch_sync"]["ratio"] is None
        assert os.path.exists(os.path.join(d, "fault_beside.weft.log"))


def test_figures_of_a_mix():
    """Two that take twice as long side by side, and one that alone suffers."""
    stp, antt, jain, worst = mix.figures([1, 2], [2, 4])
    assert (stp, antt, jain, worst) == (1, 2, 1, 2)
    stp, antt, jain, worst = mix.figures([1, 1], [1, 4])
    assert (stp, antt, worst) == (1.25, 2.5, 4) and 0.73 < jain < 0.74
    assert mix.groups(list("abcdef")) == [["a", "b"], ["c", "d"], ["e", "f"], list("abcd"),
                                          list("cdef")]


def test_mix_on_the_soft_device():
    with tempfile.TemporaryDirectory() as d:
        run("--device", "soft", "--build", BUILD, "--only", "mix", "--mix",
            "green,staged_results", "--policies", "exclusive", "--json", f"{d}/out.json",
            expect=0)
        with open(f"{d}/out.json", encoding="utf-8") as f:
            rows = json.load(f)["mix"]
    assert [r["policy"] for r in rows] == ["exclusive"], rows
    assert all(r["numbers"][0] > 0.3 and r["numbers"][1] >= 0.5 for r in rows), rows


def test_memory_promised_twice():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.json")
        out = run("--build", BUILD, "--device", "soft", "--only", "swap", "--json", path, "--logs",
                  d, expect=0)
        assert "0 refused" in out and "of pinned copies" in out, out
        with open(path, encoding="utf-8") as f:
            rows = {r["name"]: r for r in json.load(f)["memory"]}
        assert set(rows) == {"move", "shares", "delay", "slowdown"}
        assert all(r["good"] and r["result"] for r in rows.values()), rows
        for name in rows:
            assert os.path.exists(os.path.join(d, f"{name}.svg")), os.listdir(d)


def test_ratio():
    """Ratios of two runs: what takes twice as long is at 0.5, what there is twice of at 2."""
    def report(rate, took, seconds):
        rows = [{"metric": m, "what": m, "unit": "u", "weft": {"values": [v, v]}}
                for m, v in (("launch_rate", rate), ("launch_sync", took))]
        return json.dumps({"bench": rows, "compat": [
            {"name": "p", "weft": {"status": "ok", "seconds": seconds}},
            {"name": "q", "weft": {"status": "fail", "seconds": 1}},
            {"name": "r", "weft": None}]})

    with tempfile.TemporaryDirectory() as d:
        a, b = write(d, "a", report(1, 4, 3)), write(d, "b", report(2, 8, 3))
        out = subprocess.run([sys.executable, "-B", os.path.join(HERE, "report"), "--ratio",
                              f"{a},{a}", b], capture_output=True, text=True, check=True).stdout
    lines = [[c.strip() for c in x.split("|")[1:-1]] for x in out.splitlines()[2:]]
    assert lines == [["launch_rate, u", "1", "2", "2.000"],
                     ["launch_sync, u", "4", "8", "0.500"],
                     ["p, s", "3", "3", "1.000"]], out


def test_page():
    """The page of current results has each table once, with the targets that hold now."""
    side = {"median": 9.0, "min": 8.0, "max": 10.0, "values": [8.0, 9.0, 10.0]}
    report = {"machine": {"gpu": "GPU", "driver": "1", "cores": 2}, "started": "2000-01-02T",
              "bench": [{"metric": "launch_sync", "what": "w", "unit": "us", "ratio": 0.9,
                         "target": "an old one", "met": True, "native": side,
                         "weft": side | {"median": 9.75}}],
              "compat": [{"name": "p", "skip": None, "native": None, "refused": [],
                          "weft": {"status": "ok", "seconds": 3}}]}
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run([sys.executable, "-B", os.path.join(HERE, "report"), "--page",
                              write(d, "a", json.dumps(report))],
                             capture_output=True, text=True, check=True).stdout
    assert out.count("GPU, driver 1, 2 cores; 2000-01-02") == 2, out
    assert "; 2000-01-02, 3 repeats." in out and "| `p` | - | 3 s |" in out, out
    assert "| <= native + 0.5 us | **not met** |" in out and "an old one" not in out, out


def test_nothing_to_run_is_no_success():
    out = run("--build", BUILD, "--device", "soft", "--only", "nvrtc_link", expect=1)
    assert "skipped: needs a GPU" in out, out


def main():
    tests = [(n, f) for n, f in sorted(globals().items()) if n.startswith("test_")]
    bad = 0
    for i, (name, fn) in enumerate(tests, 1):
        try:
            why = fn()
            print(f"ok {i} - {name}{f' # SKIP {why}' if why else ''}", flush=True)
        except Exception:  # pylint: disable=broad-except
            bad += 1
            print(f"not ok {i} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
    print(f"1..{len(tests)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

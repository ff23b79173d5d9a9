#!/usr/bin/env python3
"""bench.py - run agent runtimes against mockllm and tabulate.  Python 3 standard library only.

  bench.py [--reps N] [--peers a,b] [--json out.jsonl] SCENARIO...
Scenarios: version cold warm turns:N git:N read:N big par stream[:EVENTS] stream-each[:EVENTS]
Programs are found through the environment (TERRET, FLOOR) or PATH; peers.json says how they are started.
"""
import argparse, atexit, json, os, shutil, signal, statistics, subprocess, sys, tempfile, threading, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
CLK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def subreaper():
    """Orphans of what runs come to this process, so that their CPU is counted: in a pid namespace wait4 of the first process misses most of it."""
    import ctypes
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)     # PR_SET_CHILD_SUBREAPER


def reap_orphans(keep=(), patience=0.3):
    """CPU seconds of the orphans that have ended; pids in `keep` (servers still wanted) are left to their owner."""
    cpu, end = 0.0, time.time() + patience
    while time.time() < end:
        try:
            pid, _, ru = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0 or pid in keep:
            time.sleep(0.01)
            continue
        cpu += ru.ru_utime + ru.ru_stime
    return cpu


subreaper()


DEFAULT = {"TERRET": os.path.join("build", "terret")}


class Defaults(dict):
    """{NAME}: the environment variable NAME, a path made absolute; else the program of that name on PATH"""
    def __missing__(self, k):
        p = os.environ.get(k) or DEFAULT.get(k) or k.lower()
        return os.path.abspath(p) if os.sep in p else p


def fmt(o, v):
    if isinstance(o, str):
        return o.format_map(v)
    if isinstance(o, list):
        return [fmt(x, v) for x in o]
    return o


def deep(o, v):
    if isinstance(o, dict):
        return {k: deep(x, v) for k, x in o.items()}
    if isinstance(o, list):
        return [deep(x, v) for x in o]
    if isinstance(o, str):
        return o.replace("{port}", str(v["port"]))
    return o


def load_peers(path):
    p = json.load(open(path))
    for k, d in list(p.items()):
        if "like" in d:
            b = json.loads(json.dumps(p[d["like"]]))
            old, new = d["replace"]
            i = b["cmd"].index(old)
            b["cmd"][i:i + 1] = new
            b.update({x: y for x, y in d.items() if x not in ("like", "replace")})
            p[k] = b
    return p


def get(port, path, data=None):
    with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), data), timeout=300) as r:
        return json.loads(r.read())


def favour(pid):
    """BENCH_NICE=-15 (root): priority for the session of pid, against a noisy machine."""
    if os.environ.get("BENCH_NICE"):
        try:
            os.setpriority(os.PRIO_PROCESS, pid, int(os.environ["BENCH_NICE"]))
            with open("/proc/%d/autogroup" % pid, "w") as f:
                f.write(os.environ["BENCH_NICE"])
        except OSError:
            pass


class Server:
    def __init__(self):
        d = tempfile.mkdtemp(prefix="mockllm")
        pf = os.path.join(d, "port")
        self.p = subprocess.Popen([sys.executable, os.path.join(HERE, "mockllm.py"), "--portfile", pf], stdout=subprocess.DEVNULL, start_new_session=True)
        favour(self.p.pid)
        atexit.register(self.p.terminate)
        while not os.path.exists(pf):
            time.sleep(0.01)
        self.port = int(open(pf).read())
        shutil.rmtree(d)

    def close(self):
        self.p.terminate()
        self.p.wait()


def tree(root):
    kids = {}
    for e in os.listdir("/proc"):
        if e.isdigit():
            try:
                f = open("/proc/%s/stat" % e).read()
                r = f[f.rindex(")") + 2:].split()
                kids.setdefault(int(r[1]), []).append((int(e), int(r[21]) * PAGE))
                if int(e) == root:
                    rootrss = int(r[21]) * PAGE
            except (OSError, ValueError):
                pass
    tot, todo = 0, [root]
    try:
        tot += rootrss
    except NameError:
        return 0
    while todo:
        for pid, rss in kids.get(todo.pop(), []):
            tot += rss
            todo.append(pid)
    return tot


class Sampler(threading.Thread):
    """RSS of the whole process tree, every 200 ms (sum of RSS; shared pages counted per process), and the peak of the
    first process alone (VmHWM, every 20 ms): wait4's figure starts at the size of this driver."""
    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.stop, self.s, self.hwm = pid, False, [], 0

    def run(self):
        n = 0
        while not self.stop:
            if n % 10 == 0:
                self.s.append((time.monotonic(), tree(self.pid)))
            n += 1
            try:
                with open("/proc/%d/status" % self.pid) as f:
                    self.hwm = [int(x.split()[1]) for x in f if x.startswith("VmHWM")][0]      # the last reading: it only grows after exec
            except (OSError, IndexError):
                pass
            time.sleep(0.02)


def run_peer(peers, name, script, prompt="Do the task.", setup=None, timeout=300, srv=None, warm=False):
    d = peers[name]
    own = srv is None
    srv = srv or Server()
    base = tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("BENCH_TMP") or d.get("tmp"))
    home, cwd = base + "/home", base + "/project"
    os.makedirs(home), os.makedirs(cwd)
    v = Defaults(port=srv.port, home=home, cwd=cwd, prompt=prompt)
    for f, c in (d.get("files") or {}).items():
        fn = os.path.join(home, f)
        os.makedirs(os.path.dirname(fn), exist_ok=True)
        with open(fn, "w") as fh:
            fh.write(c if isinstance(c, str) else json.dumps(deep(c, v)))
    subprocess.run("git init -q -b main . && git config user.email a@b && git config user.name n && echo x > README.md && git add -A && git commit -qm init",
                   shell=True, cwd=cwd, env=dict(os.environ, HOME=home), check=True)
    if setup:
        setup(cwd)
    env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1",
           "XDG_CONFIG_HOME": home + "/.config", "XDG_DATA_HOME": home + "/.local/share", "XDG_CACHE_HOME": home + "/.cache", "XDG_STATE_HOME": home + "/.local/state"}
    env.update({k: fmt(x, v) for k, x in (d.get("env") or {}).items()})
    cmd = fmt(d["cmd"], v)
    rin = None
    if d.get("stdin"):
        rin = tempfile.TemporaryFile()
        rin.write(d["stdin"].encode() * 5000)
        rin.seek(0)
    if warm or d.get("warmup"):      # a first, unmeasured run in the same home: first-run installs, caches, migrations
        get(srv.port, "/__script", b'{"turns":0}')
        subprocess.run(cmd, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=max(timeout, 300))
    get(srv.port, "/__script", json.dumps(script).encode())
    err = open(base + "/err", "wb")
    out = open(base + "/out", "wb")
    t = time.monotonic()
    p = subprocess.Popen(cmd, cwd=cwd, env=env, stdin=rin or subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    favour(p.pid)
    smp = Sampler(p.pid)
    smp.start()
    done = threading.Event()

    def guard():
        if not done.wait(timeout):
            try:
                os.killpg(p.pid, signal.SIGKILL)   # only the group we started
            except OSError:
                pass
    threading.Thread(target=guard, daemon=True).start()
    _, st, ru = os.wait4(p.pid, 0)
    wall = time.monotonic() - t
    done.set()
    orphans = reap_orphans()
    smp.stop = True
    smp.join()
    p.returncode = st
    rep = get(srv.port, "/__report")
    m = [r for r in rep["requests"] if r["kind"] == "model"]
    res = {"peer": name, "rc": os.waitstatus_to_exitcode(st), "wall_s": round(wall, 3), "cpu_s": round(ru.ru_utime + ru.ru_stime + orphans, 3),
           "maxrss_mb": round(ru.ru_maxrss / 1024, 1), "tree_peak_mb": round(max((x for _, x in smp.s), default=0) / 1e6, 1), "hwm_mb": round(smp.hwm / 1024, 1),
           "out_bytes": os.path.getsize(base + "/out"), "load": open("/proc/loadavg").read().split()[0]}
    first = [r for r in rep["requests"] if r["kind"] in ("model", "aux")]
    if first:
        res["first_req_ms"] = round((rep["t0_monotonic"] - t) * 1e3 + first[0]["t_ms"], 1)
    if m:
        res["first_model_req_ms"] = round((rep["t0_monotonic"] - t) * 1e3 + m[0]["t_ms"], 1)
        res["exit_after_last_ms"] = round(wall * 1e3 - ((rep["t0_monotonic"] - t) * 1e3 + m[-1]["t_ms"]), 1)
        ts = [rep["t0_monotonic"] + r["t_ms"] / 1e3 for r in m]

        def rss_at(when):
            c = [x for q, x in smp.s if q <= when + 0.2]
            return round(c[-1] / 1e6, 1) if c else None
        res["rss_first_mb"], res["rss_last_mb"] = rss_at(ts[min(10, len(ts) - 1)]), rss_at(ts[-1])
    res["sum"] = rep["summary"]
    res["session_disk"] = sum(os.path.getsize(os.path.join(dp, f)) for dp, _, fs in os.walk(home) for f in fs if not os.path.islink(os.path.join(dp, f)))
    if res["rc"] or not m:
        res["err"] = open(base + "/err", errors="replace").read()[-1500:] + open(base + "/out", errors="replace").read()[-500:]
    res["_rep"] = rep
    if os.environ.get("BENCH_KEEP"):
        res["dir"] = base
    else:
        shutil.rmtree(base, ignore_errors=True)
    if own:
        srv.close()
    return res


def call(d, cmd):
    return {"name": d["tool"], "args": dict(d.get("extra") or {}, **{d["arg"]: cmd})}


def big(cwd, n=10_000_000):
    line = b"the quick brown fox jumps over the lazy dog 0123456789 abcdefgh\n"
    with open(cwd + "/big.txt", "wb") as f:
        f.write((line * (n // len(line) + 1))[:n])


def small(cwd):
    with open(cwd + "/small.txt", "w") as f:
        f.write("line of a small file\n" * 10)


def scenario(peers, name, sc):
    d = peers[name]
    k, _, n = sc.partition(":")
    n = int(n or 0)
    if k == "cold":
        d.pop("warmup", None)
        return run_peer(peers, name, {"turns": 0})
    if k == "warm":
        return run_peer(peers, name, {"turns": 0}, warm=True)
    if k == "turns":
        return run_peer(peers, name, {"turns": n, "calls": [call(d, "echo hi")]}, timeout=max(120, n))
    if k == "read":
        if "read_tool" not in d:
            return None
        return run_peer(peers, name, {"turns": n, "calls": [{"name": d["read_tool"], "args": {d["read_arg"]: "small.txt"}}]}, setup=small, timeout=max(120, n))
    if k == "git":
        return run_peer(peers, name, {"turns": n, "calls": [call(d, "echo line {i} of the change, with some more words to it > g{i%7}.txt")]}, timeout=max(120, n))
    if k == "big":
        return run_peer(peers, name, {"turns": 1, "calls": [call(d, "cat big.txt")]}, setup=big)
    if k == "par":
        return run_peer(peers, name, {"turns": 1, "calls": [call(d, "sleep 0.2")] * 20})
    if k in ("stream", "stream-each"):
        return run_peer(peers, name, {"turns": 0, "final_chunks": n or 50000, "chunk_send": "each" if k == "stream-each" else "blob"}, timeout=300)
    raise SystemExit("unknown scenario " + sc)


def version(peers, name):
    d = peers[name]
    base = tempfile.mkdtemp(prefix="bench-")
    v = Defaults(port=1, home=base, cwd=base, prompt="x")
    env = {"PATH": os.environ["PATH"], "HOME": base, "TERM": "dumb", "PI_OFFLINE": "1"}
    env.update({k: fmt(x, v) for k, x in (d.get("env") or {}).items()})
    t = time.monotonic()
    p = subprocess.Popen(fmt(d["version"], v), env=env, cwd=base, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, st, ru = os.wait4(p.pid, 0)
    p.returncode = st
    w = time.monotonic() - t
    shutil.rmtree(base, ignore_errors=True)
    return {"peer": name, "rc": os.waitstatus_to_exitcode(st), "wall_s": round(w, 4), "cpu_s": round(ru.ru_utime + ru.ru_stime, 3), "maxrss_mb": round(ru.ru_maxrss / 1024, 1)}


COLS = ["rc", "wall_s", "cpu_s", "maxrss_mb", "hwm_mb", "tree_peak_mb", "first_model_req_ms", "exit_after_last_ms", "rss_first_mb", "rss_last_mb", "session_disk"]
SUM = ["model_requests", "aux", "overhead_min", "overhead_p50", "overhead_p99", "w10", "w100", "w500", "w1000", "first_body", "last_body", "bytes_up", "biggest_message_last", "prefix_of_prev_mean", "prefix_bytes_share", "not_append_only"]


def med(xs):
    xs = [x for x in xs if isinstance(x, (int, float))]
    return round(statistics.median(xs), 5) if xs else None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("scenario", nargs="+")
    ap.add_argument("--peers")
    ap.add_argument("--config", default=os.path.join(HERE, "peers.json"))
    ap.add_argument("--reps", type=int, default=1)
    ap.add_argument("--json", help="append full results here, one JSON object a line")
    a = ap.parse_args()
    peers = load_peers(a.config)
    names = a.peers.split(",") if a.peers else list(peers)
    v = Defaults(port=1, home="", cwd="", prompt="")
    for n in [n for n in names if not shutil.which(fmt(peers[n]["cmd"][0], v))]:
        print("skip %s: %s not found" % (n, fmt(peers[n]["cmd"][0], v)), file=sys.stderr)
        names.remove(n)
    for sc in a.scenario:
        acc = {n: [] for n in names}
        for _ in range(a.reps):                 # alternate between peers
            for n in names:
                r = version(peers, n) if sc == "version" else scenario(peers, n, sc)
                if r is None:
                    continue
                rep = r.pop("_rep", None)
                acc[n].append(r)
                if a.json:
                    with open(a.json, "a") as f:
                        f.write(json.dumps(dict(r, scenario=sc)) + "\n")
                if r.get("err"):
                    print("!", n, r["err"][-700:], file=sys.stderr)
        for n in names:
            if not acc[n]:
                continue
            row = {c: med([r.get(c) for r in acc[n]]) for c in COLS}
            row.update({c: med([r["sum"].get(c) for r in acc[n]]) for c in SUM if "sum" in acc[n][0]})
            print("%-9s %-14s n=%d " % (sc, n, len(acc[n])) + " ".join("%s=%s" % (k, x) for k, x in row.items() if x is not None), "load=" + "/".join(r.get("load", "") for r in acc[n]), flush=True)


if __name__ == "__main__":
    main()

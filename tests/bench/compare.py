#!/usr/bin/env python3
"""Measures peers in turn with a floor, in one run, and prints ratios.

  compare.py [--peers terret,pi] [--base floor-bwrap] [--turns 100] [--reps 3] [--growth [100,1000]] [--limits first=1.5,cpu=1.5,rss=16,growth=1.1]

  first   ms from exec to the first request
  cpu     CPU ms a tool-call turn (`echo hi`), start subtracted: (CPU of N turns - CPU of none) / N
  rss     peak resident MB of the peer's own process after N turns
  growth  CPU a turn over many turns / CPU a turn over few (only with --growth): 1.0 is flat

Medians over --reps; the peers alternate within each repetition. A limit on first and cpu is on the ratio to the base, on rss
in MB; with --limits the exit status is 1 if the first peer exceeds one. The floor is compiled here unless FLOOR names it.
"""
import argparse, os, shutil, statistics, subprocess, sys, tempfile

import bench


def floor(tmp):
    if not os.environ.get('FLOOR'):
        exe = os.path.join(tmp, 'floor_agent')
        subprocess.run(['cc', '-O2', '-o', exe, os.path.join(bench.HERE, 'floor_agent.c'), '-lcurl'], check=True)
        os.environ['FLOOR'] = exe


def measure(peers, name, turns, fails):
    r = bench.run_peer(peers, name, {'turns': turns, 'calls': [bench.call(peers[name], 'echo hi')]}, timeout=max(120, turns))
    want = turns + 1
    if r['rc'] or r['sum']['model_requests'] != want:
        fails.append(f"{name}: exit status {r['rc']}, {r['sum']['model_requests']} of {want} requests; {r.get('err', '')[-300:]}")
    return r


def median(rows, key):
    xs = [r[key] for r in rows if r.get(key) is not None]
    return statistics.median(xs) if xs else float('nan')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--peers', default='terret')
    ap.add_argument('--base', default='floor-bwrap')
    ap.add_argument('--turns', type=int, default=100)
    ap.add_argument('--reps', type=int, default=3)
    ap.add_argument('--growth', nargs='?', const='100,1000')
    ap.add_argument('--limits', default='')
    a = ap.parse_args()
    tmp = tempfile.mkdtemp(prefix='bench-')
    try:
        floor(tmp)
        peers = bench.load_peers(os.path.join(bench.HERE, 'peers.json'))
        names = [n for n in a.peers.split(',') if n != a.base] + [a.base]
        v = bench.Defaults(port=1, home='', cwd='', prompt='')
        for n in names:
            exe = bench.fmt(peers[n]['cmd'][0], v)
            if not shutil.which(exe):
                sys.exit(f'{n}: {exe} not found')
        few, many = map(int, a.growth.split(',')) if a.growth else (None, None)
        counts = sorted({0, a.turns} | ({few, many} if few else set()))
        rows, fails = {(n, t): [] for n in names for t in counts}, []
        for n in names:
            if peers[n].pop('warmup', None):
                bench.run_peer(peers, n, {'turns': 0}, warm=True)
        for _ in range(a.reps):
            for t in counts:
                for n in names:
                    rows[n, t].append(measure(peers, n, t, fails))
    finally:
        shutil.rmtree(tmp, ignore_errors=True)

    def per_turn(n, t):
        return (median(rows[n, t], 'cpu_s') - median(rows[n, 0], 'cpu_s')) / t * 1e3
    res = {n: dict(first=median(rows[n, 0], 'first_model_req_ms'), cpu=per_turn(n, a.turns), rss=median(rows[n, a.turns], 'hwm_mb'),
                   **({'growth': per_turn(n, many) / per_turn(n, few)} if few else {})) for n in names}
    b = res[a.base]
    print(f"{'':14} {'first ms':>9} {'ratio':>6} {'cpu ms/turn':>12} {'ratio':>6} {'rss MB':>7} {'ratio':>6}" + (f" {f'growth {few}..{many}':>18}" if few else ''))
    for n, r in res.items():
        print(f"{n:14} {r['first']:9.1f} {r['first'] / b['first']:6.2f} {r['cpu']:12.2f} {r['cpu'] / b['cpu']:6.2f} {r['rss']:7.1f} {r['rss'] / b['rss']:6.2f}" + (f" {r['growth']:18.2f}" if few else ''))
    print(f"turns {a.turns} reps {a.reps} load {open('/proc/loadavg').read().split()[0]}")
    top, over = res[names[0]], []
    for k, lim in (x.split('=') for x in a.limits.split(',') if x):
        got = top[k] / b[k] if k in ('first', 'cpu') else top.get(k, float('nan'))
        if not got <= float(lim):
            over.append(f'{names[0]}: {k} {got:.2f}, limit {lim}')
    for x in fails + over:
        print(x)
    sys.exit(1 if fails or over else 0)


if __name__ == '__main__':
    main()

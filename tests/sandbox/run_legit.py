#!/usr/bin/env python3
"""Runs ordinary development work in a sandbox and checks that it works there as it does outside.

  run_legit.py [bare|bwrap|terret] [--user NAME|root] [--ids A,B] [--out FILE] [--cases DIR]

The tool defaults to terret, its executable to $TERRET or build/terret. Started as root, the tool is run as --user.
"""
import argparse, json, os, re, shutil, statistics, subprocess, sys, time

import adapters, fixture

INIT = 'git init -q . && echo a > a.txt && git add a.txt && git commit -qm one'


class Fixture:
    def __init__(self, case, work, user, plugin):
        self.case, self.user, self.work, self.timeout = case, user, work, 40
        self.token = fixture.token('L')
        self.dir = work.dir + '/' + self.token
        self.home, self.project, self.prefix = self.dir + '/home', self.dir + '/project', ''
        s = case['setup']
        known = {**globals(), **plugin}
        known.get('paths_' + s, lambda f: None)(self)
        self.real = self.project
        os.makedirs(self.real)
        os.makedirs(self.home + '/.ssh')
        if s != 'plain' and 'paths_' + s not in known and 'fill_' + s not in known:
            sys.exit(f"{case['id']}: unknown setup {s}")
        known.get('fill_' + s, lambda f: f.sh(INIT, f.real))(self)
        if 'paths_' + s in known and 'fill_' + s in known and not os.path.exists(self.real + '/a.txt'):
            self.sh(INIT, self.real)
        shutil.copy(os.path.join(case['dir'], case['file']), self.home + '/cmd.sh')
        user.own(*{self.dir, os.path.dirname(self.real), self.home} if self.real.startswith(self.dir) else {self.dir, self.real, self.home})
        self.before = set(os.listdir(self.real))

    def sh(self, command, cwd):
        fixture.shell(command, cwd, self.home)

    def close(self):
        fixture.kill_below(self.dir)
        fixture.kill_below(self.real)
        fixture.remove(self.dir, self.real)


def paths_newline(f):
    f.project = f.dir + '/a\nb'


def fill_nogit(f):
    f.sh('echo a > a.txt', f.real)


def fill_worktree(f):
    os.makedirs(f.dir + '/main')
    f.sh(INIT, f.dir + '/main')
    os.rmdir(f.real)
    f.sh(f'git worktree add -q -b wt {f.real}', f.dir + '/main')


def fill_submodule(f):
    os.makedirs(f.dir + '/lib')
    f.sh(INIT, f.dir + '/lib')
    f.sh(INIT + f' && git -c protocol.file.allow=always submodule add -q {f.dir}/lib sub && git commit -qm sub', f.real)


def fill_hookssymlink(f):
    f.sh(INIT, f.real)
    f.sh('mkdir h && touch h/.keep && git add h && git commit -q --amend -m one && rm -rf .git/hooks && ln -s ../h .git/hooks', f.real)


def fill_symlinkproj(f):
    f.sh(INIT, f.real)
    os.symlink(f.real, f.dir + '/link')
    f.project = f.dir + '/link'


def once(argv, f, user):
    env = {'PATH': fixture.PATH, 'HOME': f.home, 'USER': user.name, 'LANG': 'C.UTF-8', 'TERM': 'dumb', 'MYVAR': 'hello', **fixture.GIT}
    (ro, wo), (re_, we) = os.pipe(), os.pipe()
    if user.root:                           # so that the user may open /dev/stdout
        os.fchown(wo, user.uid, user.gid)
        os.fchown(we, user.uid, user.gid)
    t0 = time.time()
    p = subprocess.Popen(argv, cwd=f.project, env=env, stdin=subprocess.DEVNULL, stdout=wo, stderr=we, preexec_fn=user.drop)
    os.close(wo)
    os.close(we)
    p.stdout, p.stderr = os.fdopen(ro, 'rb'), os.fdopen(re_, 'rb')
    try:
        o, e = p.communicate(timeout=f.timeout + 5)
        rc = p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        o, e, rc = b'', b'does not end', -999
        p.wait()
        p.stdout.close()
        p.stderr.close()
    return 128 - rc if rc < 0 else rc, o.decode('utf8', 'replace'), e.decode('utf8', 'replace'), time.time() - t0


def check(m, f, user, rc, o):
    why = []
    if rc != m['expect_rc']:
        why.append(f"exit status {rc}, want {m['expect_rc']}")
    rx = m.get('expect_stdout_regex')
    if rx:
        rx = rx.replace('$UID', str(user.uid)).replace('$USER', user.name)
        if not re.search(rx, o if rx.startswith(r'\A') else o.strip(), re.M):
            why.append(f'stdout does not match {rx!r}')
    for c in m.get('expect_host', []):
        k, _, a = c.partition(':')
        p = os.path.join(f.real, a)
        if k == 'clean':
            new = set(os.listdir(f.real)) - f.before
            if new:
                why.append('left in the project: ' + ' '.join(sorted(new)))
        if k == 'nofile' and os.path.lexists(p):
            why.append('left ' + a)
        if k in ('file', 'owner') and not os.path.exists(p):
            why.append('no ' + a)
        elif k == 'owner' and os.stat(p).st_uid != user.uid:
            why.append(a + ' belongs to someone else')
    return why


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('tool', nargs='?', default='terret', choices=list(adapters.TOOLS))
    ap.add_argument('--user', help='default: the user who starts this')
    ap.add_argument('--ids')
    ap.add_argument('--out', help='results as JSON')
    ap.add_argument('--cases', default=os.path.join(fixture.HERE, 'legit'))
    a = ap.parse_args()
    user = fixture.User(a.user)
    cases = fixture.pick(fixture.load(a.cases), a.ids)
    work, results, skipped, plugin = fixture.Work(user), [], 0, fixture.setups(a.cases)
    try:
        for m in cases:
            miss = fixture.missing(m)
            if miss:
                skipped += 1
                print(f"skip {m['id']}: lacks {miss}", flush=True)
                continue
            m['dir'] = a.cases
            f = Fixture(m, work, user, plugin)
            try:
                argv = adapters.TOOLS[a.tool]['argv'](f, f.prefix + f"exec bash {f.home}/cmd.sh")
                runs = [once(argv, f, user) for _ in range(m.get('repeat', 1))]
                rc, o, e, _ = runs[-1]
                sec = statistics.median(r[3] for r in runs)
                why = check(m, f, user, rc, o)
                if sec > m.get('each_s', 1e9):
                    why.append(f'{sec:.2f} s each')
            finally:
                f.close()
            results.append(dict(id=m['id'], ok=not why, why=why, rc=rc, out=o[-200:], err=e[-300:], sec=round(sec, 2)))
            print(f"{'FAIL' if why else 'ok  '} {m['id']} {'; '.join(why)} {(o[-100:] + ' / ' + e[-200:]).replace(chr(10), ' | ') if why else ''}".rstrip(), flush=True)
            if a.out:
                json.dump(results, open(a.out, 'w'), indent=0)
    finally:
        work.close()
    good = sum(r['ok'] for r in results)
    if skipped:
        print(f'skipped {skipped}')
    print(f'legit: passed {good}/{len(results)} (user {user.name})')
    sys.exit(0 if results and good == len(results) else 1)


if __name__ == '__main__':
    main()

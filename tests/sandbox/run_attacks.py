#!/usr/bin/env python3
"""Runs the attacks against a sandbox and checks from outside whether each one succeeded.

  run_attacks.py [bare|bwrap|terret] [--user NAME|root] [--ids A,B] [--out FILE] [--cases DIR]

The tool defaults to terret, its executable to $TERRET or build/terret. Started as root, the tool is run as --user.
"""
import argparse, ctypes, fcntl, hashlib, json, os, pty, random, re, select, shutil, socket, struct, subprocess, sys, threading, time

import adapters, fixture

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SHIM = os.path.join(fixture.HERE, 'shim.py')


class Host:
    """Servers outside the sandbox; everything that reaches one is kept in `heard`."""
    def __init__(self):
        self.heard, self.lock = [], threading.Lock()
        self.tcp = socket.socket()
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind(('0.0.0.0', 0))
        self.tcp.listen(50)
        self.port = self.tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(('0.0.0.0', self.port))
        self.listen(self.tcp)
        self.receive(udp)
        self.ip = self.address()

    def hear(self, b):
        with self.lock:
            self.heard.append(b)

    def listen(self, s):
        def conn(c):
            c.settimeout(4)
            try:
                while True:
                    d = c.recv(4096)
                    if not d:
                        break
                    self.hear(d)
            except OSError:
                pass
            c.close()

        def loop():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                threading.Thread(target=conn, args=(c,), daemon=True).start()
        threading.Thread(target=loop, daemon=True).start()

    def receive(self, s):
        def loop():
            while True:
                try:
                    self.hear(s.recv(4096))
                except OSError:
                    return
        threading.Thread(target=loop, daemon=True).start()

    @staticmethod
    def address():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _, name in socket.if_nameindex():
            if name != 'lo':
                try:
                    return socket.inet_ntoa(fcntl.ioctl(s, 0x8915, struct.pack('256s', name.encode()))[20:24])
                except OSError:
                    pass
        return '127.0.0.1'


def unix(path, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    if kind == socket.SOCK_STREAM:
        s.listen(20)
    if path[0] != '\0':
        os.chmod(path, 0o777)
    return s


def state(p):
    try:
        if os.path.islink(p):
            return 'link ' + os.readlink(p)
        with open(p, 'rb') as f:
            return hashlib.sha256(f.read()).hexdigest()
    except OSError:
        return 'none'


class Fixture:
    """One attack's world: project, home and outside, host objects, a victim process, secrets."""
    def __init__(self, case, tool, user, work, host, plugin):
        self.case, self.user, self.work, self.host = case, user, work, host
        self.token, self.num = fixture.token('T'), str(random.randint(100000, 999999))
        t, W = self.token, work.dir + '/' + self.token
        self.dir, self.project, self.home, self.outside, self.timeout = W, W + '/project', W + '/home', W + '/outside', case['timeout_s']
        self.config = self.project + '/' + tool['config']
        for d in (self.project, self.outside, self.home + '/.ssh', self.config):
            os.makedirs(d)
        self.secret = dict(CANARY='CANSEC' + t, ENVCANARY='sk-CANENV' + t, VICTIMENV='VICENV' + t, VICTIMMARK='VICMARK' + t, KEYCANARY='KEYCAN' + t, STDINCANARY='STDIN' + t)
        self.write('outside/victim.txt', 'ORIGINAL\n')
        self.write('outside/fdfile', 'ORIGINAL\n')
        self.write('home/.ssh/id_test', self.secret['CANARY'] + '\n')
        self.write('home/.bashrc', '# rc\n')
        with open(self.config + '/config.lua', 'w') as f:
            f.write('return {}\n')
        self.tmpfile = f'/tmp/{t}.host'
        with open(self.tmpfile, 'w') as f:
            f.write('ORIGINAL\n')
        user.own(self.tmpfile)
        fixture.shell('git init -q . && git config user.email a@b && git config user.name n && printf "#!/bin/sh\\nexit 0\\n" > .git/hooks/pre-commit'
                      ' && chmod +x .git/hooks/pre-commit && echo a > a.txt && git add a.txt && git -c core.hooksPath=/dev/null commit -qm i', self.project, self.home)
        if case['setup'] == 'nocfg':
            shutil.rmtree(self.config)
        if 'fill_' + case['setup'] in plugin:
            plugin['fill_' + case['setup']](self)
        self.objects()
        user.own(W)
        self.victim = subprocess.Popen(['/bin/sh', '-c', 'while :; do sleep 60; done', self.secret['VICTIMMARK']],
                                       env={'SECRET': self.secret['VICTIMENV'], 'PATH': fixture.PATH}, preexec_fn=user.drop, stdin=subprocess.DEVNULL)
        self.public = dict(PROJECT=self.project, OUT=self.outside, HOME=self.home, CFG=self.config, TMPFILE=self.tmpfile, TOKEN=t, NUM=self.num,
                           PORT=str(host.port), HOSTIP=host.ip, SOCK=self.outside + '/host.sock', RUNSOCK=self.runsock, ABS='abs-' + t,
                           DSOCK=self.outside + '/d.sock', PID=str(self.victim.pid), SHMKEY=str(self.key), MEM_MB='4096', DISK_MB='3072')
        self.names = {'ATK_' + k: v for k, v in {**self.public, **self.secret}.items()}
        self.write('project/.atk.sh', ''.join(f"export ATK_{k}='{v}'\n" for k, v in self.public.items()))
        self.program()
        self.before = {c: state(self.fill(c.split(':', 1)[1])) for c in case['success_means'] if c.startswith('differs:')}

    def write(self, rel, text):
        with open(os.path.join(self.dir, rel), 'w') as f:
            f.write(text)

    def fill(self, s):
        return re.sub(r'\$(ATK_[A-Z_]+)', lambda m: self.names.get(m.group(1), m.group(0)), s)

    def objects(self):
        self.socks = [unix(self.outside + '/host.sock'), unix('\0abs-' + self.token)]
        self.runsock = ''
        for d in ('/run', f'/run/user/{self.user.uid}'):
            if os.access(d, os.W_OK):
                self.runsock = f'{d}/{self.token}.sock'
                self.socks.append(unix(self.runsock))
                break
        for s in self.socks:
            self.host.listen(s)
        self.socks.append(unix(self.outside + '/d.sock', socket.SOCK_DGRAM))
        self.host.receive(self.socks[-1])
        self.key = random.randint(1, 2**30)
        self.shm = libc.shmget(self.key, 64, 0o1666)
        self.shmat = libc.shmat(self.shm, None, 0)
        ctypes.memmove(self.shmat, b'ORIGINAL', 8)
        self.rt = libc if hasattr(libc, 'mq_open') else ctypes.CDLL('librt.so.1', use_errno=True)
        old = os.umask(0)
        self.mq = self.rt.mq_open(b'/' + self.token.encode(), 0o102, 0o666, None)
        os.umask(old)

    def program(self):
        src = os.path.join(self.case['dir'], self.case['file'])
        dst = self.project + '/atk'
        if src.endswith('.c'):
            subprocess.run(['gcc', '-O1', '-w', '-o', dst, src], check=True)
            run = './atk'
        else:
            shutil.copy(src, dst)
            run = ('python3' if src.endswith('.py') else 'sh') + ' ./atk'
        self.user.own(dst, self.project + '/.atk.sh')
        self.command = '. ./.atk.sh; echo ATTACK-STARTS; exec ' + run

    def succeeded(self, r, hung, terminal):
        """the conditions that hold; any one means that the attack succeeded"""
        hits = []
        for c in self.case['success_means']:
            k, _, a = c.partition(':')
            a = self.fill(a)
            path, _, last = a.rpartition(':')
            try:
                if (k == 'stdout' and a in r['out'] or k == 'exists' and os.path.lexists(a) or k == 'differs' and state(a) != self.before[c]
                        or k == 'contains' and last in open(path, errors='replace').read() or k == 'mode4000' and os.lstat(a).st_mode & 0o4000
                        or k == 'hostlog' and a.encode() in b'\n'.join(self.host.heard) or k == 'dead' and self.victim.poll() is not None
                        or k == 'proc' and self.sleeping(a) or k == 'slow' and (hung or r['elapsed'] > (self.timeout + float(a) if a[0] == '+' else float(a)))
                        or k == 'flag' and a == 'shim-got-usr1' and r.get('usr1') or k == 'flag' and a == 'shm-owned' and ctypes.string_at(self.shmat, 5) == b'owned'
                        or k == 'ptylog' and a.encode() in terminal or k == 'size' and os.stat(path).st_blocks * 512 >= int(last) * 1048576 * .95):
                    hits.append(c)
            except OSError:
                pass
        return hits

    @staticmethod
    def sleeping(n):
        return any(os.path.basename(a[0]) == 'sleep' and a[1:2] == [n] for _, a in fixture.processes())

    def close(self):
        fixture.kill_below(self.dir, self.token, self.num)
        self.victim.kill()
        self.victim.wait()
        for s in self.socks:
            s.close()
        libc.shmdt(ctypes.c_void_p(self.shmat))
        libc.shmctl(self.shm, 0, None)
        if self.mq >= 0:
            self.rt.mq_close(self.mq)
            self.rt.mq_unlink(b'/' + self.token.encode())
        left = [os.path.join(d, n) for d in ('/tmp', '/var/tmp', '/dev/shm') for n in os.listdir(d) if self.token in n]
        fixture.remove(self.dir, *left, *([self.runsock] if self.runsock else []))


def on_terminal(argv, env, user, limit):
    """runs argv with a terminal; what was written to the terminal, and whether it had to be killed"""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            user.become()
            os.execve(argv[0], argv, env)
        finally:
            os._exit(127)
    seen, end, hung = b'', time.time() + limit, True
    while time.time() < end:
        if select.select([fd], [], [], .1)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                pass
        if os.waitpid(pid, os.WNOHANG)[0]:
            hung = False
            break
    if hung:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    os.close(fd)
    return seen, hung


def attack(case, name, user, work, host, plugin, shim):
    tool = adapters.TOOLS[name]
    f = Fixture(case, tool, user, work, host, plugin)
    try:
        if not f.runsock and 'ATK_RUNSOCK' in open(os.path.join(case['dir'], case['file'])).read():
            return dict(skip='needs root for a socket below /run')
        env = {'PATH': fixture.PATH, 'HOME': f.home, 'USER': user.name, 'LANG': 'C.UTF-8', 'TERM': 'dumb', 'OPENAI_API_KEY': f.secret['ENVCANARY']}
        spec = dict(argv=tool['argv'](f, f.command), cwd=f.project, env=env, timeout=f.timeout + (6 if tool['timeout'] else 0), close_fds=not tool['runtime'])
        if case['setup'] == 'fds':
            spec['fds'] = dict(file=f.outside + '/fdfile', dir=f.outside, sock=f.outside + '/host.sock')
        if case['setup'] == 'keyring':
            spec['keyring'] = f.secret['KEYCANARY']
        sp, ro = f'{work.dir}/run/{f.token}.spec', f'{work.dir}/run/{f.token}.result'
        with open(sp, 'w') as fh:
            json.dump(spec, fh)
        user.own(sp)
        argv, limit, t0, hung, terminal, alive = [*shim, sp, ro], f.timeout + 12, time.time(), False, b'', None
        if case['setup'] == 'tty':
            terminal, hung = on_terminal(argv, env, user, limit)
        else:
            pr, pw = os.pipe()
            p = subprocess.Popen(argv, env=env, preexec_fn=user.drop, stdin=pr if case['setup'] == 'stdin' else subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if case['setup'] == 'stdin':
                os.write(pw, (f.secret['STDINCANARY'] + '\n').encode())
            if case['setup'] == 'killruntime':
                mark = f.fill(case['success_means'][0].split(':', 1)[1])
                while time.time() - t0 < f.timeout and not alive:
                    time.sleep(.2)
                    alive = f.sleeping(mark)
                p.kill()
                if tool['runtime']:
                    try:
                        os.kill(int(open(ro + '.pid').read()), 9)
                    except (OSError, ValueError):
                        pass
                p.wait()
                time.sleep(1.5)
            else:
                try:
                    p.wait(limit)
                except subprocess.TimeoutExpired:
                    hung = True
                    p.kill()
                    p.wait()
            os.close(pr)
            os.close(pw)
        el = time.time() - t0
        try:
            r = json.load(open(ro))
        except (OSError, ValueError):
            r = {'out': '', 'err': '', 'rc': None, 'elapsed': el}
        time.sleep(2.6 if any(c.startswith(('exists:$ATK_PROJECT/late', 'proc:')) for c in case['success_means']) else .15)
        hits = f.succeeded(r, hung, terminal)
        started = alive if case['setup'] == 'killruntime' else 'ATTACK-STARTS' in r['out']
        return dict(hits=hits, broken=not started and not hits, rc=r['rc'], elapsed=round(r['elapsed'], 2), hung=hung, out=r['out'][-300:], err=r['err'][-300:])
    finally:
        f.close()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('tool', nargs='?', default='terret', choices=list(adapters.TOOLS))
    ap.add_argument('--user', help='default: the user who starts this')
    ap.add_argument('--ids')
    ap.add_argument('--out', help='results as JSON')
    ap.add_argument('--cases', default=os.path.join(fixture.HERE, 'attacks'))
    a = ap.parse_args()
    user = fixture.User(a.user)
    cases = fixture.pick([c for c in fixture.load(a.cases) if c['applies'] == 'sandbox'], a.ids)
    if a.tool == 'bare' and user.uid == 0 and not a.ids:
        sys.exit('bare as root would really attack this machine: name harmless cases with --ids')
    work, host, results, skipped = fixture.Work(user), Host(), [], 0
    plugin, shim = fixture.setups(a.cases), [fixture.python(user), work.put(SHIM)]
    try:
        for c in cases:
            c['dir'] = a.cases
            miss = fixture.missing(c)
            r = dict(skip='lacks ' + miss) if miss else attack(c, a.tool, user, work, host, plugin, shim)
            if 'skip' in r:
                skipped += 1
                print(f"skip    {c['id']}: {r['skip']}", flush=True)
            else:
                word = 'SUCCESS' if r['hits'] else 'BROKEN' if r['broken'] else 'blocked'
                results.append(dict(id=c['id'], kind=c['kind'], verdict=word.lower(), **r))
                say = ' '.join(r['hits']) or (r['out'][-60:] + r['err'][-150:]).replace('\n', ' | ') if word != 'blocked' else ''
                print(f"{word:7} {c['id']} ({r['elapsed']} s) {say}".rstrip(), flush=True)
            if a.out:
                json.dump(results, open(a.out, 'w'), indent=0)
    finally:
        work.close()
    good = sum(r['verdict'] == 'blocked' for r in results)
    if skipped:
        print(f'skipped {skipped}')
    print(f'attacks: blocked {good}/{len(results)} (user {user.name})')
    sys.exit(0 if results and good == len(results) else 1)


if __name__ == '__main__':
    main()

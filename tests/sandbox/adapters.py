"""How each tool runs one command. An adapter is a function of (case, command) that returns argv.

case.project is the project (also the working directory), case.timeout the command's time limit in seconds, case.work the
runner's directory. What the tool itself is like stands in TOOLS:
  timeout   the tool ends the command by itself (the stand-in runtime then waits longer before it gives up)
  runtime   the tool is the runtime: it keeps descriptors and stdin as a runtime would, and is the one that is killed
  config    the project directory of settings that the sandbox must protect
"""
import os
import fixture


def bare(case, command):
    return ['/bin/sh', '-c', command]


def bwrap(case, command):
    p = os.path.realpath(case.project)
    return ['bwrap', '--ro-bind', '/', '/', '--bind', p, p, '--dev', '/dev', '--proc', '/proc', '--unshare-net', '--die-with-parent',
            '/bin/sh', '-c', command]


def terret(case, command):
    if not hasattr(case.work, 'terret'):
        case.work.terret = fixture.terret(case.work)
    return [case.work.terret, 'sandbox', '--backend', os.environ.get('TERRET_BACKEND', 'auto'), '--timeout', str(case.timeout), '--', '/bin/sh', '-c', command]


TOOLS = {
    'bare': dict(argv=bare, timeout=False, runtime=False, config='.terret'),
    'bwrap': dict(argv=bwrap, timeout=False, runtime=False, config='.terret'),
    'terret': dict(argv=terret, timeout=True, runtime=True, config='.terret'),
}

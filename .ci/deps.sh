#!/bin/sh
# .ci/deps.sh [run|test] - installs what is missing, or says what to install and stops.
#
# `run` is what terret itself needs, `test` adds what the tests need.  With apt as root it
# installs; everywhere else it names the packages and the exact command.
set -u
want=${1:-run}

run_debs="gcc libc6-dev pkg-config liblua5.4-dev lua5.4 libcurl4-openssl-dev libbsd-dev lua-cjson bubblewrap libseccomp-dev"
test_debs="lua-busted lua-check ripgrep procps"
brew_names="lua pkg-config curl luarocks ripgrep (then: luarocks install lua-cjson busted luacheck)"

say() { printf '%s\n' "$*" >&2; }

if [ "$(uname -s)" = Darwin ]; then
    if pkg-config --exists lua5.4 2>/dev/null || pkg-config --exists lua-5.4 2>/dev/null || pkg-config --exists lua 2>/dev/null; then
        exit 0
    fi
    say "terret needs: brew install $brew_names"
    exit 1
fi

debs=$run_debs
[ "$want" = test ] && debs="$debs $test_debs"

missing=""
for d in $debs; do
    case "$(dpkg-query -W -f='${Status}' "$d" 2>/dev/null)" in
    *"install ok installed"*) ;;
    *) missing="$missing $d" ;;
    esac
done

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        say "terret needs the equivalents of these Debian packages:$missing"
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        say "missing packages; install them with:"
        say "    sudo apt-get install -y$missing"
        exit 1
    fi
    say "installing:$missing"
    apt-get update -q >/dev/null || say "apt-get update failed; trying with the lists that are there"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2 || exit 1
fi

# The sandbox has to start; where user namespaces are restricted, the step that allows it is named.
if ! bwrap --ro-bind / / --unshare-user --unshare-pid true 2>/dev/null; then
    say "note: bubblewrap can't make a namespace here, so terret would refuse commands."
    if [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ]; then
        say "  AppArmor restricts user namespaces (Ubuntu 23.10 and later).  Allow bubblewrap with a profile:"
        say "    printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap"
        say "    sudo apparmor_parser -r /etc/apparmor.d/bwrap"
        say "  or for all programs:  sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    elif [ "$(cat /proc/sys/kernel/unprivileged_userns_clone 2>/dev/null)" = 0 ]; then
        say "    sudo sysctl kernel.unprivileged_userns_clone=1"
    elif [ "$(cat /proc/sys/user/max_user_namespaces 2>/dev/null)" = 0 ]; then
        say "    sudo sysctl user.max_user_namespaces=15000"
    else
        say "  in a container, start it with a seccomp profile that allows user namespaces"
    fi
fi
exit 0

-- scripts/permissions/tables.lua - terret.permissions.tables: what terret knows about programs, as plain data.
--
-- Everything here may be extended or replaced: by a file of this name in the user's directory, or at start by
--   local t = require "terret.permissions.tables"; t.wrappers.mywrap = "n: --num= +1"; t.harmless = t.harmless .. ";
-- mytool *"
--
-- A specification of options is one string of blank-separated tokens:
--   x     a short option without argument (only needed where options are a closed list: wrappers, `only`)
--   x:    takes an argument, attached or the next word        x?   takes an attached argument only
--   x!    executes or writes: at least ask                     --name  --name=  --name?  --name!  the same, long
--   +N    N operands come before the inner command            #     -5 and --5 are options too
--   x~    its value is a pattern, which then is no operand      x<   its value is a file that is read
--   x^    a file of patterns or code: both                      x/   reads what is below its operands; // always does
--   only  every option that is not named is refused           <N   at most N operands (the next one is written to)
--   Long options may be abbreviated, as getopt_long allows.
local M = {}

-- Wrappers that count only as the command inside.
M.wrappers = {
  env = "i 0 v u: C! S! P! --ignore-environment --null --debug --unset= --chdir! --split-string! --block-signal? "
    .. "--default-signal? --ignore-signal? --list-signal-handling",
  timeout = "k: s: v f p --kill-after= --signal= --foreground --preserve-status --verbose +1",
  nice = "n: --adjustment= #",
  nohup = "",
  setsid = "c f w --ctty --fork --wait",
  stdbuf = "i: o: e: --input= --output= --error=",
  ionice = "c: n: t --class= --classdata= --ignore",
  chrt = "a b d f i m o r R v T: P: D: --all-tasks --batch --deadline --fifo --idle --other --rr --reset-on-fork +1",
  taskset = "a c --all-tasks --cpu-list +1",
  setarch = "B F I L R S T X Z 3 v --32bit --addr-no-randomize --verbose +1",
  time = "a! p v q f: o! --append! --portability --verbose --quiet --format= --output!",
  gtime = "a! p v q f: o! --append! --portability --verbose --quiet --format= --output!",
  xargs = "0 r t p x o a: d: E: e? I: i? L: l? n: P: s: --null --no-run-if-empty --verbose --interactive --exit "
    .. "--open-tty --arg-file= --delimiter= --eof? --replace? --max-lines? --max-args= --max-procs= --max-chars= "
    .. "--process-slot-var! --show-limits",
  busybox = "", toybox = "",
  unbuffer = "p",
  chronic = "e v",
  caffeinate = "d i m s u t:",
  eatmydata = "",
  linux32 = "", linux64 = "",
}

-- Wrappers that need a rule themselves; the command inside must not be forbidden either.  A specification finds
-- the command; where there is none ("?"), every word is tried as one.
M.opaque = {
  sudo = "A b E e H K k n P S C: D: g: h: p: R: r: t: T: U: u: i s --askpass --background --preserve-env? --edit "
    .. "--set-home --login --non-interactive --shell --stdin --user= --group= --host= --prompt= --chdir=",
  doas = "n s C: u: L", prlimit = "?", unshare = "?", nsenter = "?", chroot = "?", runuser = "?", su = "?",
  pkexec = "?", ["systemd-run"] = "?", ["systemd-nspawn"] = "?", bwrap = "?", firejail = "?", fakeroot = "?",
  parallel = "?", ssh = "?", docker = "?", podman = "?", nerdctl = "?", kubectl = "?", npx = "?", bunx = "?",
  uvx = "?", uv = "?", pipx = "?", poetry = "?", pipenv = "?", bundle = "?", conda = "?", mise = "?", direnv = "?",
  ["nix-shell"] = "?", nix = "?", script = "?", expect = "?", gdb = "?", lldb = "?", strace = "?", ltrace = "?",
  perf = "?", valgrind = "?", hyperfine = "?", entr = "?", watchexec = "?", nodemon = "?", rtk = "?", numactl = "?",
  cgexec = "?", faketime = "?", proot = "?", rlwrap = "?", screen = "?", tmux = "?", at = "?", batch = "?",
  ["xvfb-run"] = "?", ["dbus-run-session"] = "?", ["start-stop-daemon"] = "?", ["run-parts"] = "?", setpriv = "?",
  capsh = "?", ["flatpak-spawn"] = "?", catchsegv = "?", torsocks = "?", proxychains = "?", rr = "?",
  multipass = "?", vagrant = "?", lxc = "?", sg = "?", ["ld.so"] = "?", ["ld-linux-x86-64.so.2"] = "?",
  ["ld-linux-aarch64.so.1"] = "?", parset = "?", sem = "?", dtach = "?", ["run-one"] = "?", ts = "?", task = "?",
}

-- Options that execute or write, of commands that people allow.
M.flags = {
  sort = "k: t: S: T: o! --output! --compress-program! --temporary-directory= --key= --field-separator= "
    .. "--buffer-size= --batch-size= --parallel= --files0-from= --random-source=",
  uniq = "f: s: w: --skip-fields= --skip-chars= --check-chars= <1",
  xxd = "c: g: l: o: s: n: R: <1 ",
  tree = "L: P: I: H: T: o! R! --filelimit= --gitfile= --infofile= --charset= --sort=",
  split = "a: b: C: l: n: t: --filter! --suffix-length= --bytes= --line-bytes= --lines= --number= --separator=",
  rg = "e: f: g: t: T: A: B: C: m: M: r: j: E: d: --pre! --hostname-bin! --regexp= --file= --glob= --iglob= "
    .. "--type= --type-not= --after-context= --before-context= --context= --max-count= --max-columns= --replace= "
    .. "--threads= --encoding= --max-depth= --sort= --sortr= --color= --colors= --ignore-file= --pre-glob= "
    .. "--path-separator= --context-separator= --field-match-separator= --max-filesize= --type-add= --engine=",
  ag = "A: B: C: G: m: p: W: --pager! --path-to-ignore=",
  ack = "A: B: C: g: m: --pager! --output= --ackrc!",
  bat = "l: H: r: m: --pager! --config-file! --map-syntax= --theme= --style= --language= --line-range=",
  file = "e: F: f: m: P: C! --compile! --exclude= --separator= --files-from= --magic-file= --parameter=",
  date = "d: f: r: s! --set! --date= --file= --reference=",
  man = "only a f k w W K s: S: L: 7 --all --whatis --apropos --where --path --location --sections= --locale= --ascii",
  less = "b: h: j: k! o! O! p: P: t! T! x: y: z: D: #: --log-file! --LOG-FILE! --lesskey-file! --lesskey-src! "
    .. "--lesskey-content! --tag! --tag-file! --pattern= --prompt= --tabs= --shift= --jump-target=",
  more = "n: #",
  npm = "--script-shell! --node-options! --prefix! --globalconfig! --userconfig! --git! --shell! --editor! "
    .. "--viewer! --init-module! --cache! --global-style --location! --workspace=",
  cargo = "Z! C! --config! --manifest-path! --target-dir! --artifact-dir! --out-dir! --lockfile-path! --package= "
    .. "--features= --bin= --test= --example= --jobs= --profile= --target= --message-format= --color=",
  pytest = "p! c! o! k: m: n: W: r: --basetemp! --override-ini! --rootdir! --config-file! --confcutdir! --pdbcls! "
    .. "--junitxml! --junit-xml! --log-file! --pastebin! --debug! --cov-config! --cov-report! --html! "
    .. "--report-log! --result-log! --import-mode= --maxfail= --tb= --durations= --cov= --ignore= --deselect= "
    .. "--color= --capture=",
  curl = "o! O! K! T! D! c! J! --output! --remote-name! --remote-name-all! --output-dir! --config! --upload-file! "
    .. "--dump-header! --cookie-jar! --trace! --trace-ascii! --stderr! --libcurl! --etag-save! --hsts! --alt-svc! "
    .. "--engine! H: X: d: u: A: e: b: m: w: x: --proto-default= --netrc-file!",
  wget = "only q nv S T: t: U: --quiet --spider --server-response --timeout= --tries= --user-agent= --header=",
  rsync = "e! f: B: M! T! --rsh! --rsync-path! --remote-option! --log-file! --partial-dir! --backup-dir! "
    .. "--temp-dir! --write-batch! --only-write-batch! --read-batch! --daemon! --password-file! --delete! "
    .. "--delete-before! --delete-after! --delete-during! --delete-excluded! --remove-source-files! --exclude= "
    .. "--include= --filter= --files-from= --exclude-from= --include-from=",
  scp = "S! o! F! i: P: c: l: J! D!", sftp = "only",
  zip = "T! TT! m! O! b! --unzip-command! --test! --move! --output-file! --temp-path! i: x: n: t:",
  unzip = "only l t v Z p c q", zipinfo = "",
  jq = "--arg= --argjson= --slurpfile= --rawfile= --indent= f: L: --from-file= --library-path=",
  yq = "i! --inplace! --in-place! s! --split-exp!",
  sdiff = "o! --output! --diff-program! w: I: W:",
  dmesg = "only T H L k u t l: f: --level= --facility= --human --kernel",
  hexdump = "e: f: n: s:", od = "A: j: N: t: w:",
  shuf = "o! n: i: e r z --output! --head-count= --input-range= --random-source=",
  csplit = "f! b! n:", patch = "only dry-run --dry-run p:", ex = "only", ed = "only",
  ip = "only 4 6 o j br d s", hostname = "only f d i I s A y <0",
  nm = "", objdump = "", strings = "", readelf = "", ps = "", cmp = "", comm = "",
  mktemp = "", tput = "", ncal = "", base64 = "", column = "",
  journalctl = "only u: n: b? k e x r o: p: S: U: t: g: --unit= --lines= --no-pager --since= --until= --grep= "
    .. "--output=",
  systemctl = "only l n: o: --no-pager --all --type= --state= --lines= --user --full --plain",
}
for alias, name in pairs { gsort = "sort", zless = "less", ["py.test"] = "pytest", pnpm = "npm", yarn = "npm",
  batcat = "bat" } do
  M.flags[alias] = M.flags[name]
end

-- Where an allow rule reaches code in the text of an argument or in a file: these options run it.
M.interpreters = {
  python = "c", python2 = "c", python3 = "c", perl = "eEnpisM", ruby = "enpiIrs", node = "ep", nodejs = "ep",
  php = "rBRE", lua = "eil", ["lua5.4"] = "eil", luajit = "eilbj", deno = "", bun = "ep", tclsh = "", Rscript = "e",
    R = "ef",
  julia = "eEL", ghc = "e", osascript = "e", gawk = "", swipl = "gt", sqlite3 = "", elixir = "er", groovy = "e",
  scala = "e", racket = "e", guile = "ce", octave = "", erl = "",
}
-- Programs whose commands or scripts can do anything: at least ask.
M.always_ask = "vi vim nvim view vimdiff ex ed emacs nano pico joe micro kak hx source . fc history enable bind "
  .. "complete compgen compopt crontab at batch osascript xdg-open open debugfs ftp tftp telnet nc ncat netcat "
  .. "socat m4 dc gdb expect"

-- Operands of these are written.
M.writers = "tee cp mv ln install rsync truncate shred dd sponge"

-- Which files a command names and reads; only looked at when a rule denies read(PATH) or asks about it.  Of a program
-- that is in none of these tables, words that plainly name such a file count.
M.reads = {
  grep = "+1 e~ f^ A: B: C: m: d: D: r/ R/ --regexp~ --file^ --exclude-from< --recursive/ --dereference-recursive/ "
    .. "--after-context= --before-context= --context= --max-count= --directories= --devices= --include= --exclude= "
    .. "--exclude-dir= --label= --binary-files= --color? --colour?",
  rg = "// +1 e~ f^ g: t: T: A: B: C: m: M: r: j: E: d: --regexp~ --file^ --ignore-file< --glob= --iglob= --type= "
    .. "--type-not= --after-context= --before-context= --context= --max-count= --max-columns= --replace= --threads= "
    .. "--encoding= --max-depth= --sort= --sortr= --color= --colors= --pre= --pre-glob= --path-separator= "
    .. "--context-separator= --field-match-separator= --max-filesize= --type-add= --engine=",
  ag = "// +1 A: B: C: G: m: p< W: --path-to-ignore<", ack = "// +1 A: B: C: g: m: --output= --ackrc<",
  sed = "+1 e~ f^ l: i? --expression~ --file^ --line-length= --in-place?",
  awk = "+1 f^ F: v: e~ i< E^ l: --file^ --source~ --include< --exec^ --assign= --field-separator= --load=",
  jq = "+1 f^ L: --from-file^ --indent= --library-path=", yq = "+1",
  diff = "r/ --recursive/ x: X< I: L: U: C: W: F: S: --exclude= --exclude-from< --from-file< --to-file< --label= "
    .. "--unified? --context? --width= --starting-file= --ignore-matching-lines=",
  cp = "t: S: r/ R/ a/ --recursive/ --archive/ --target-directory= --suffix=",
  ln = "t: S: --target-directory= --suffix=", mv = "// t: S: --target-directory= --suffix=",
  install = "t: S: m: o: g: --target-directory= --suffix= --mode= --owner= --group=",
  rsync = "r/ a/ e: f: --recursive/ --archive/ --exclude= --include= --filter= --rsh= --files-from< --exclude-from< "
    .. "--include-from<",
  scp = "r/ S: o: F< i< P: c: l: J:", zip = "+1 r/ R/ b: n: t: x: i: --recurse-paths/",
  dd = "", shuf = "o: i: n: e --output= --input-range= --head-count= --random-source<",
}
for alias, name in pairs { egrep = "grep", fgrep = "grep", zgrep = "grep", zegrep = "grep", zfgrep = "grep",
  bzgrep = "grep", xzgrep = "grep", ggrep = "grep", ugrep = "grep", gsed = "sed", gawk = "awk", mawk = "awk",
  nawk = "awk", sdiff = "diff", colordiff = "diff", gcp = "cp", gmv = "mv" } do
  M.reads[alias] = M.reads[name]
end
-- Every word of these is a file that is read.
M.reads_all = "cat tac head tail less zless more zmore bat batcat view nl wc sort gsort uniq cut paste join comm cmp "
  .. "column fold fmt pr expand unexpand rev od xxd hexdump hd strings file base32 base64 basenc md5sum sha1sum "
  .. "sha224sum sha256sum sha384sum sha512sum b2sum cksum sum zcat bzcat xzcat zstdcat lz4cat gunzip gzip bzip2 "
  .. "bunzip2 xz unxz zstd split csplit iconv tsort ptx look nm objdump readelf size ldd wdiff numfmt factor"
-- These only name files, or write to them.
M.reads_nothing = "echo printf ls dir vdir cd pushd popd test [ [[ stat basename dirname realpath readlink pwd mkdir "
  .. "rmdir rm unlink touch truncate shred chmod chown chgrp which whereis type command builtin exec eval kill sleep "
  .. "seq date true false : du df tree find gfind fd fdfind id uname hostname ps tee sponge tr export declare typeset "
  .. "local readonly read unset set shopt trap alias let shift return exit wait expr mktemp sync"
-- Subcommands of git whose words may name what they show.
M.git_reads = "show diff log blame annotate grep cat-file archive format-patch whatchanged diff-tree diff-index "
  .. "diff-files hash-object difftool range-diff"
M.git_writes = "checkout restore rm mv clean"

-- Which of its operands a command writes: every one, or the last (into it, where it is a directory).
M.writes_all = "tee truncate shred sponge touch rm rmdir unlink mkdir chmod chown chgrp mv gmv"
M.writes_last = "cp gcp mv gmv ln install rsync scp"

-- Variables that change what later programs execute or load.
M.variables = [[
PATH IFS ENV BASH_ENV SHELL EDITOR VISUAL BROWSER HOME CDPATH GLOBIGNORE SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2
PS3 PS4 EXECIGNORE FCEDIT HISTFILE INPUTRC OLDPWD PWD TERMINFO TERMCAP TERMINFO_DIRS FPATH ZDOTDIR histchars MAIL
MAILPATH MAILCHECK POSIXLY_CORRECT TMPDIR CC CXX CPP LD AR AS FC F77 MAKE RUSTC RUSTDOC RUSTFLAGS RUSTDOCFLAGS RUSTC_*
CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS ARFLAGS LEX YACC CLASSPATH LESS LESS* MORE LV MANOPT MANPATH MANROFFOPT
GROFF_* LPDEST
LD_* DYLD_* BASH_* *PAGER *EDITOR GIT_* NODE_OPTIONS NODE_PATH NODE_REPL_* NODE_EXTRA_CA_CERTS PYTHON* PERL* RUBYOPT
RUBYLIB RUBYSHELL TAR_OPTIONS TAPE *MAKEFLAGS MFLAGS MAKEFILES RIPGREP_CONFIG_PATH FZF_* BAT_* ACK* GREP_OPTIONS
GCONV_PATH
LOCPATH NLSPATH HOSTALIASES MALLOC_* GLIBC_TUNABLES JAVA_* _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_TOOL_OPTIONS MAVEN_*
GRADLE_*
ANT_* SBT_* CARGO_BUILD_* CARGO_TARGET_* CARGO_HOME CARGO CARGO_ALIAS_* RUSTUP_* npm_* NPM_* YARN_* PIP_* UV_*
*_ASKPASS *_RSH
RSYNC_* AWKPATH AWKLIBPATH GAWK_* GCC_* COMPILER_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
OBJC_INCLUDE_PATH
DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES CCC_* CCACHE_* PYTEST_* COVERAGE_* TOX_* *_proxy *_PROXY OPENSSL_* SSL_CERT_*
SSLKEYLOGFILE CURL_*
WGETRC NETRC SYSTEM_WGETRC DOCKER_* KUBECONFIG KUBECTL_* VIMINIT VIM VIMRUNTIME MYVIMRC EXINIT NVIM* XDG_* TEXINPUTS
GOFLAGS GOROOT GOPATH
GOENV GOTOOL* CGO_* BUNDLE_* GEM_* LUA_* PHPRC PHP_* R_* JULIA_* ERL_* ELIXIR_* DOTNET_* DENO_* BUN_* SUDO_* SSH_* NIX_*
JQ_* MYSQL_* PGSERVICE* PGPASSFILE SQLITE_* PSQLRC MSYS* COMSPEC QT_* GTK_* GDK_* GIO_* DBUS_* WINEDEBUG PKG_CONFIG*
CMAKE_* CONFIG_SITE
CONFIG_SHELL LIBTOOL* ACLOCAL* AUTOM4TE* CVS_* SVN_* HGRCPATH HG* P4* EMACS* ALTERNATE_* SYSTEMD_* TZDIR LESSOPEN
FUNCNEST auto_resume TIMEFORMAT READLINE_* COMP_* OPENBLAS_* ASAN_* UBSAN_* LSAN_* TSAN_* MSAN_* LLVM_* G_SLICE GEDIT
]]
M.variables_fine = "CARGO_TERM_COLOR CARGO_INCREMENTAL SSH_TTY PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE "
  .. "PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PERL_BADLANG XDG_SESSION_TYPE BASH_REMATCH NPM_CONFIG_COLOR"

-- Harmless commands (rules, as a user would write them): allowed without a rule of the user's.  Options that
-- execute or write are caught by the tables above; so are paths outside the project.
M.harmless = [[
cat *; head *; tail *; wc *; ls *; grep *; egrep *; fgrep *; zgrep *; rg *; find *; fd *; sort *; uniq *; cut *; tr *;
diff *; cmp *;
comm *; echo *; printf *; pwd; date *; file *; stat *; du *; df *; basename *; dirname *; realpath *; readlink *;
which *;
whereis *; type *; whoami; id; id -*; groups; uname *; hostname; tree *; seq *; sleep *; true; false; jq *; awk *;
sed *; column *; nl *;
od *; xxd *; hexdump *; strings *; md5sum *; sha1sum *; sha256sum *; sha512sum *; cksum *; b2sum *; tac *; rev *;
paste *; join *;
fold *; fmt *; expand *; unexpand *; expr *; nproc; arch; uptime; free *; ps *; cd *; test *; [ *; nm *; objdump *;
readelf *;
size *; ldd *; tput *; getconf *; locale; less *; zcat *; tar t*; tar -t*; env; printenv *; yes; cal *; numfmt *;
factor *; base64 *;
git status *; git log *; git diff *; git show *; git ls-files *; git grep *; git rev-parse *; git blame *;
git describe *;
git shortlog *; git ls-tree *; git cat-file *; git rev-list *; git merge-base *; git name-rev *; git for-each-ref *;
git branch; git branch -a; git branch -v; git branch -vv; git branch -r; git branch --show-current;
git branch --list *; git tag; git tag -l *;
git tag --list *; git remote; git remote -v; git stash list *; git reflog; git show-ref *; git check-ignore *;
git count-objects *;
git diff-tree *; git diff-index *; git diff-files *; git whatchanged *; git version; git --version;
* --version; * --help; node -v; npm -v; npm ls *; go version; java -version; python3 -V; python -V; cargo tree *;
rustc -V
]]

-- Tools with subcommands: their global options are skipped when a deny or ask rule is tried, and a
-- proposed rule names the subcommand.
M.subcommands = "git npm yarn pnpm bun cargo go pip pip3 docker podman kubectl gh apt apt-get dnf yum brew "
  .. "systemctl helm terraform aws gcloud az svn hg make uv poetry rustup dotnet gradle mvn conda nix flatpak "
  .. "snap pacman bundle gem"

-- These run code or configuration of the directory that they start in.
M.directory_code = "git make gmake npm npx yarn pnpm bun cargo pytest python python3 node ruby go gradle mvn "
  .. "ninja cmake rake bundle tox nox just task meson bazel sbt ant composer php dotnet"

return M

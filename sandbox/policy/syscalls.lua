-- sandbox/policy/syscalls.lua - the system calls that no command needs, for backends that filter.
--
-- Refused are: new namespaces and mounts, which could uncover what is hidden; ways past the filter and
-- the namespaces (io_uring, vsock, other architectures); keys; what only loads or changes the kernel; typing
-- into a terminal; and setuid bits, which would outlive the sandbox on the host's disk.  Debuggers,
-- Landlock, filters of the command's own and every ordinary socket work.
--
-- Filters see numbers, not memory: where flags are in memory the whole call is ENOSYS, and libraries
-- fall back on the older one.

local M = {}

-- CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME
local NEW_NAMESPACES = 0x7e020080
local NEWTIME = 0x80 -- for clone these bits are the signal's number
local SET_ID = tonumber("6000", 8)

local TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541c, 0x5423

-- unix, IPv4, IPv6, netlink
local FAMILIES = { 1, 2, 10, 16 }
-- Of netlink: what reaches beyond the network namespace or serves its administrator.  The numbers stay
-- clear of the protocols of the other families (0, 1, 6, 17, 58, 132, 136, 262).
local NETLINK = { 5, 7, 8, 9, 10, 11, 12, 14, 15, 16, 18, 19, 20, 21, 22 }

M.REFUSED = {
  "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen",
  "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "add_key", "request_key", "keyctl", "bpf",
  "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "kexec_load",
  "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "open_by_handle_at",
  "acct", "swapon", "swapoff", "reboot", "syslog", "quotactl", "quotactl_fd", "nfsservctl", "lookup_dcookie",
  "fanotify_init", "iopl", "ioperm", "vm86", "vm86old", "settimeofday", "clock_settime", "stime", "sethostname",
  "setdomainname", "vhangup", "uselib", "_sysctl",
  { "unshare", arg = 0, bits = NEW_NAMESPACES },
  { "clone", arg = 0, bits = NEW_NAMESPACES & ~NEWTIME },
  { "clone3", action = "ENOSYS" },
  { "openat2", action = "ENOSYS" },
  { "ioctl", arg = 1, equals = TIOCSTI }, { "ioctl", arg = 1, equals = TIOCLINUX },
  { "ioctl", arg = 1, equals = TIOCSETD },
  { "socket", arg = 0, except = FAMILIES, action = "EAFNOSUPPORT" },
  { "socketpair", arg = 0, except = FAMILIES, action = "EAFNOSUPPORT" },
  { "chmod", arg = 1, bits = SET_ID }, { "fchmod", arg = 1, bits = SET_ID },
  { "fchmodat", arg = 2, bits = SET_ID }, { "fchmodat2", arg = 2, bits = SET_ID },
  { "creat", arg = 1, bits = SET_ID }, { "open", arg = 2, bits = SET_ID }, { "openat", arg = 3, bits = SET_ID },
  { "mknod", arg = 1, bits = SET_ID }, { "mknodat", arg = 2, bits = SET_ID },
}
for _, protocol in ipairs(NETLINK) do
  M.REFUSED[#M.REFUSED + 1] = { "socket", arg = 2, equals = protocol, action = "EAFNOSUPPORT" }
end

local filters = {}

---The filter, made once.
---@param more table? further rules, the same table each time
---@return string? filter for exec.spawn
---@return string? message
---@return terret.code? code
function M.filter(more)
  local key = more or M
  if filters[key] then return filters[key] end
  local rules = table.move(M.REFUSED, 1, #M.REFUSED, 1, {})
  table.move(more or {}, 1, #(more or {}), #rules + 1, rules)
  local ok, seccomp = pcall(require, "terret.seccomp")
  if not ok then return nil, "terret was built without seccomp", "unsupported" end
  local filter, message, code = seccomp.filter { rules = rules, action = "EPERM", foreign = "kill" }
  if not filter then return nil, message, code end
  filters[key] = filter
  return filter
end

return M

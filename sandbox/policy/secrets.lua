-- sandbox/policy/secrets.lua - what no command may read, wherever the project is.
--
-- Names below the home directory; a directory is hidden whole.  Config adds to the list (the
-- option `hide` of policy.new), nothing takes away from it: a command that needs a credential
-- gets it from the user, not from the disk.

local M = {}

-- Below the home directory.
M.home = {
  -- keys and password stores
  ".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
  ".config/op", ".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc",
  ".config/sops", ".config/age", ".vault-token", "Library/Keychains",
  -- clouds
  ".aws", ".azure", ".config/gcloud", ".kube", ".docker/config.json", ".config/containers/auth.json",
  ".terraform.d/credentials.tfrc.json", ".terraformrc", ".pulumi/credentials.json", ".oci", ".ibmcloud",
  ".config/doctl", ".config/hcloud", ".fly", ".config/netlify", ".config/rclone", ".s3cfg", ".boto",
  ".config/helm", ".config/flyctl", ".config/heroku", ".wrangler", ".config/.wrangler",
  -- code hosts and package registries
  ".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub",
  ".config/glab-cli", ".npmrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml",
  ".gem/credentials", ".local/share/gem/credentials", ".bundle/config", ".composer/auth.json",
  ".config/composer/auth.json", ".m2/settings.xml", ".m2/settings-security.xml",
  ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".config/NuGet", ".hex/hex.config",
  ".config/pypoetry/auth.toml",
  -- databases
  ".pgpass", ".my.cnf", ".mylogin.cnf",
  -- other agents and model hosts
  ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
  ".config/github-copilot", ".local/share/opencode/auth.json", ".pi/agent/auth.json", ".openai",
  ".config/openai", ".config/anthropic", ".huggingface", ".cache/huggingface/token", ".kaggle",
  ".agents/env",
  -- browsers and mail
  ".mozilla", ".thunderbird", ".config/chromium", ".config/google-chrome", ".config/BraveSoftware",
  ".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap/firefox", "snap/chromium",
  ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", "Library/Cookies", "Library/Mail",
  "Library/Messages", "Library/Safari", "Library/Application Support/Firefox",
  "Library/Application Support/Google/Chrome",
  -- what was typed
  ".bash_history", ".zsh_history", ".histfile", ".local/share/fish/fish_history", ".python_history",
  ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history",
}

-- Only root could read these anyway.
M.system = {
  "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
  "/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/var/lib/kubelet", "/var/lib/cloud",
  "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
  "/var/lib/NetworkManager", "/etc/NetworkManager/system-connections",
}

return M

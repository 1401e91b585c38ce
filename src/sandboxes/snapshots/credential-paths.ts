/**
 * The paths of logins in a home. Snapshots never contain them, because a snapshot may be exported. A sandbox from a
 * snapshot is a new one, which gets its own logins.
 */

/** Relative to the home. Each is a file, or a folder with everything below it. */
const CREDENTIAL_PATHS: readonly string[] = [
  '.anthropic',
  '.aws',
  '.azure',
  '.cargo/credentials',
  '.cargo/credentials.toml',
  '.claude.json',
  '.claude/.credentials.json',
  '.codex/auth.json',
  '.composer/auth.json',
  '.config/composer/auth.json',
  '.config/containers/auth.json',
  '.config/gcloud',
  '.config/gemini/credentials.json',
  '.config/gh/hosts.yml',
  '.config/git/credentials',
  '.config/github-copilot',
  '.config/glab-cli/config.yml',
  '.config/hub',
  '.config/op',
  '.config/rclone/rclone.conf',
  '.config/sops',
  '.docker/config.json',
  '.gem/credentials',
  '.gemini/google_accounts.json',
  '.gemini/oauth_creds.json',
  '.git-credentials',
  '.gnupg',
  '.kimi-code/credentials',
  '.kimi/credentials',
  '.kube/config',
  '.local/share/keyrings',
  '.local/share/opencode/auth.json',
  '.m2/settings.xml',
  '.netrc',
  '.npmrc',
  '.password-store',
  '.pgpass',
  '.pypirc',
  '.ssh',
  '.terraform.d/credentials.tfrc.json',
  '.vault-token',
  '.yarnrc.yml',
]

const KNOWN = new Set(CREDENTIAL_PATHS)

/** Checks one entry of a walk from the top. Entries below an excluded folder are never checked. */
export function isCredentialPath(path: string): boolean {
  return KNOWN.has(path)
}

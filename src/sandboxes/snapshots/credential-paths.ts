/**
 * Where programs keep logins in a home. They are never part of a snapshot: it may be exported, and a sandbox that is
 * made from it is another one, which gets logins of its own.
 */

/** Relative to the home; each a file, or a folder with everything below it. */
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

/** Asked of each entry on the way down: what is below one that is left out is never asked about. */
export function isCredentialPath(path: string): boolean {
  return KNOWN.has(path)
}

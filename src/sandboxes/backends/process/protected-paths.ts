/**
 * The names in a workspace that a sandbox in place must not change. Programs of the host execute or trust them as soon
 * as the user opens the folder, runs git in it, or starts an agent there. Craik first creates each missing name, as an
 * empty folder or a neutral file.
 */

export interface ProtectedPath {
  /** Relative to the workspace. A path has at most two names, and the first of two is protected itself. */
  readonly path: string
  readonly kind: 'folder' | 'file'
  /** The content of the file that Craik creates for a missing name. It has no effect. */
  readonly neutral?: string
  /** Only the named entries in the folder are protected. The folder itself cannot be replaced. */
  readonly writable?: boolean
}

const folder = (path: string): ProtectedPath => ({ path, kind: 'folder' })
const file = (path: string, neutral = ''): ProtectedPath => ({ path, kind: 'file', neutral })

/** Commits write here. When it is not a folder, Craik checks nothing below it. */
export const REPOSITORY: ProtectedPath = { path: '.git', kind: 'folder', writable: true }

/** Git runs hooks and the programs that its configuration names. It can be configured to read both from elsewhere. */
export const IN_REPOSITORY: readonly ProtectedPath[] = [
  ...['.git/hooks', '.git/info', '.git/modules', '.git/worktrees'].map(folder),
  ...['.git/config', '.git/config.worktree'].map((path) => file(path)),
  // Git treats an empty file as damage. This content states the default.
  file('.git/commondir', '.\n'),
]

export const IN_WORKSPACE: readonly ProtectedPath[] = [
  // Settings of agents: hooks, servers to start, permissions.
  ...['.claude', '.codex', '.gemini', '.opencode', '.kimi-code', '.cursor', '.craik'].map(folder),
  // OpenCode does not start when this file is missing from its folder and it cannot write it. The content is what
  // OpenCode would write.
  file('.opencode/.gitignore', 'node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore'),
  file('.mcp.json', '{"mcpServers":{}}\n'),
  ...['opencode.json', 'opencode.jsonc'].map((path) => file(path, '{}\n')),
  // Settings of editors: tasks that start when the folder is opened.
  ...['.vscode', '.idea', '.devcontainer', '.zed'].map(folder),
  // A shell prompt, a package manager or git's hooks run these.
  ...['.envrc', '.npmrc', '.yarnrc.yml'].map((path) => file(path)),
  file('.pre-commit-config.yaml', 'repos: []\n'),
  folder('.husky'),
]

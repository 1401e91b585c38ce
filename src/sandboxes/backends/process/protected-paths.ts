/**
 * What a sandbox that works in place may not change: names in the workspace that programs of the host execute or trust
 * as soon as somebody opens the folder, runs git in it, or starts an agent there. A name that is free is taken first.
 */

export interface ProtectedPath {
  /** Relative to the workspace; at most two names deep, and the first of two is protected itself. */
  readonly path: string
  readonly kind: 'folder' | 'file'
  /** What a file that takes a free name says: nothing happens by it. */
  readonly neutral?: string
  /** Only what is in it by name is protected, besides that it cannot be replaced as a whole. */
  readonly writable?: boolean
}

const folder = (path: string): ProtectedPath => ({ path, kind: 'folder' })
const file = (path: string, neutral = ''): ProtectedPath => ({ path, kind: 'file', neutral })

/** Where commits go; nothing below it is looked at when it is not a folder. */
export const REPOSITORY: ProtectedPath = { path: '.git', kind: 'folder', writable: true }

/** Git runs hooks and what its configuration names, and looks elsewhere for both when told to. */
export const IN_REPOSITORY: readonly ProtectedPath[] = [
  ...['.git/hooks', '.git/info', '.git/modules', '.git/worktrees'].map(folder),
  ...['.git/config', '.git/config.worktree'].map((path) => file(path)),
  // Git takes an empty one for damage; this one says what is so anyway.
  file('.git/commondir', '.\n'),
]

export const IN_WORKSPACE: readonly ProtectedPath[] = [
  // Settings of agents: hooks, servers to start, permissions.
  ...['.claude', '.codex', '.gemini', '.opencode', '.kimi-code', '.cursor', '.craik'].map(folder),
  // OpenCode does not start where it finds its folder without this and cannot write it; this is what it would write.
  file('.opencode/.gitignore', 'node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore'),
  file('.mcp.json', '{"mcpServers":{}}\n'),
  ...['opencode.json', 'opencode.jsonc'].map((path) => file(path, '{}\n')),
  // Settings of editors: tasks that start when the folder is opened.
  ...['.vscode', '.idea', '.devcontainer', '.zed'].map(folder),
  // Run by a shell prompt, a package manager or git's hooks.
  ...['.envrc', '.npmrc', '.yarnrc.yml'].map((path) => file(path)),
  file('.pre-commit-config.yaml', 'repos: []\n'),
  folder('.husky'),
]

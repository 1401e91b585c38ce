/**
 * What agents keep in a home, and where it is in the volume that outlives the home. The set-up script makes the links by this
 * table, and transcripts are read by it. Logins are no part of it: they stay in the home.
 */

/** Where the volume is mounted, relative to the home. */
export const LLM_STATE = '.config/llm-state'

export interface Mirror {
  /** The link, relative to the home. */
  readonly home: string
  /** What it leads to, relative to the volume. */
  readonly volume: string
  readonly kind: 'folder' | 'file'
  /** Of a file: what is put behind its name to name those that belong to it, which its program makes beside the link's target. */
  readonly companions?: readonly string[]
}

export const MIRRORS: readonly Mirror[] = [
  { home: '.claude/projects', volume: 'claude/projects', kind: 'folder' },
  { home: '.claude/cache', volume: 'claude/cache', kind: 'folder' },
  { home: '.claude/agents', volume: 'claude/agents', kind: 'folder' },
  { home: '.codex/sessions', volume: 'codex/sessions', kind: 'folder' },
  { home: '.gemini/tmp', volume: 'gemini/tmp', kind: 'folder' },
  { home: '.kimi-code/sessions', volume: 'kimi/sessions', kind: 'folder' },
  {
    home: '.local/share/opencode/opencode.db',
    volume: 'opencode/opencode.db',
    kind: 'file',
    companions: ['-wal', '-shm'],
  },
  // Where a user's MCP servers are. Each program writes through the link and leaves it a link.
  { home: '.claude.json', volume: 'claude/claude.json', kind: 'file' },
  { home: '.codex/config.toml', volume: 'codex/config.toml', kind: 'file' },
  { home: '.gemini/settings.json', volume: 'gemini/settings.json', kind: 'file' },
  { home: '.kimi-code/mcp.json', volume: 'kimi/mcp.json', kind: 'file' },
  { home: '.config/opencode', volume: 'opencode/config', kind: 'folder' },
]

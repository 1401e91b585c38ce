/**
 * The files of the agents that are stored in a volume, because the volume outlives the sandbox home, and their paths in
 * both. The set-up script creates links from this table, and Craik reads transcripts with it. Logins are not in it:
 * they stay in the home.
 */

/** Where the volume is mounted, relative to the home. */
export const LLM_STATE = '.config/llm-state'

export interface VolumeLink {
  /** The path of the link, relative to the home. */
  readonly home: string
  /** The target of the link, relative to the volume. */
  readonly volume: string
  readonly kind: 'folder' | 'file'
  /**
   * For a file: the suffixes of the files that belong to it. Its program creates them next to the target of the link.
   */
  readonly companions?: readonly string[]
}

export const VOLUME_LINKS: readonly VolumeLink[] = [
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
  // These contain the user's MCP servers. Each program writes through the link and keeps it.
  { home: '.claude.json', volume: 'claude/claude.json', kind: 'file' },
  { home: '.codex/config.toml', volume: 'codex/config.toml', kind: 'file' },
  { home: '.gemini/settings.json', volume: 'gemini/settings.json', kind: 'file' },
  { home: '.kimi-code/mcp.json', volume: 'kimi/mcp.json', kind: 'file' },
  { home: '.config/opencode', volume: 'opencode/config', kind: 'folder' },
]

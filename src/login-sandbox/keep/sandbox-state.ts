/**
 * Parses the packages and the environment that a sandbox reports. It applies limits and removes everything that looks
 * like a key.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { redactText, redactValue } from '../../receipts/redaction/redact.ts'
import { cleanText } from '../../transcripts/clean-text.ts'

export const STATE_LIMITS = {
  /** The most output of the script that Craik reads. */
  outputBytes: 4 * 1024 * 1024,
  /** The limit for each part. */
  entries: 20_000,
  nameChars: 256,
  valueChars: 4096,
} as const

const STATE_PARTS = ['debian', 'npm', 'pip', 'programs', 'environment'] as const
export type StatePart = (typeof STATE_PARTS)[number]

const entries = z
  .record(z.string().min(1).max(STATE_LIMITS.nameChars), z.string().max(STATE_LIMITS.valueChars + 1))
  .refine((found) => Object.keys(found).length <= STATE_LIMITS.entries)

/** Names with their versions or values. Programs have empty values. */
export const sandboxState = z.strictObject({
  version: z.literal(1),
  takenAt: z.iso.datetime(),
  debian: entries,
  npm: entries,
  pip: entries,
  programs: entries,
  environment: entries,
})
export type SavedState = z.infer<typeof sandboxState>

/** These variables differ between shells and carry no information. */
const PASSING: ReadonlySet<string> = new Set(['_', 'SHLVL', 'PWD', 'OLDPWD', '__proto__'])

/**
 * Parses the output of `stateScript` and refuses incomplete output. Every entry with a name is listed or counted, so
 * that no name can hide an entry.
 */
export function parseState(output: Uint8Array, takenAtMs: number): SavedState {
  if (output.length > STATE_LIMITS.outputBytes) throw unreadable('is longer than 4 MiB')
  const parts: Record<StatePart, Map<string, string>> = {
    debian: new Map(),
    npm: new Map(),
    pip: new Map(),
    programs: new Map(),
    environment: new Map(),
  }
  let current: Map<string, string> | undefined
  let isWhole = false
  for (const record of Buffer.from(output).toString('utf8').split('\0')) {
    // A package can have the name `#x`, but its record contains a version.
    if (record.startsWith('#') && !record.includes('=')) {
      isWhole = record === '#end'
      current = parts[STATE_PARTS.find((part) => record === `#${part}`)!]
    } else if (current !== undefined) add(current, record)
  }
  if (!isWhole) throw unreadable('is incomplete')
  const state = {
    version: 1,
    takenAt: new Date(takenAtMs).toISOString(),
    ...Object.fromEntries(STATE_PARTS.map((part) => [part, sortEntries(parts[part])])),
  }
  // A variable can be a secret by its name. A package such as base-passwd is not one.
  return sandboxState.parse({ ...state, environment: redactValue(sortEntries(parts.environment)).value })
}

/** The entry that counts everything over the limit. */
const MORE = '(more than are listed)'

function add(part: Map<string, string>, record: string): void {
  const at = record.indexOf('=')
  if (at < 1 || PASSING.has(record.slice(0, at))) return
  const name = cleanStateName(record.slice(0, at))
  if (part.has(name) || part.size < STATE_LIMITS.entries - 1)
    part.set(name, cleanStateValue(record.slice(at + 1)))
  else part.set(MORE, String(Number(part.get(MORE) ?? 0) + 1))
}

const SHOWN_CHARS = 160

/**
 * Escapes a name that is too long, that a terminal would not print as it is, or that contains a key. A digest keeps the
 * result unique.
 */
function cleanStateName(name: string): string {
  const isPlain = name.length <= STATE_LIMITS.nameChars && cleanText(name) === name && !name.includes('\n')
  const redacted = redactText(name.slice(0, OVERLAP_CHARS)).text
  if (isPlain && redacted === name) return name
  const visible = redacted.replace(/[^\x20-\x7e]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`)
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 12)
  return `${visible.slice(0, SHOWN_CHARS)} (sha256 ${digest})`
}

/** The redaction reads this many characters more, so that it sees all of a secret at the point of truncation. */
const OVERLAP_CHARS = 8 * 1024

/** Returns the value on one line. The redaction comes first, because some secrets have several lines. */
function cleanStateValue(text: string): string {
  const looked = cleanText(text.slice(0, STATE_LIMITS.valueChars + OVERLAP_CHARS))
  const value = redactText(looked).text.replaceAll('\n', '⏎')
  return value.length > STATE_LIMITS.valueChars ? `${value.slice(0, STATE_LIMITS.valueChars)}…` : value
}

function sortEntries(part: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries([...part].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function unreadable(problem: string): CraikError {
  return new CraikError('boundary_failed', `the list of packages from the sandbox ${problem}`, {
    hint: 'save again:  craik save',
  })
}

/** Returns whether two states have the same entries. */
export function isSameState(one: SavedState, other: SavedState): boolean {
  return STATE_PARTS.every((part) => JSON.stringify(one[part]) === JSON.stringify(other[part]))
}

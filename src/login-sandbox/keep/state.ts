/** What is installed and set in a sandbox, as the inside says it: read with limits, and without anything that looks like a key. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { redactText, redactValue } from '../../receipts/redaction/redact.ts'
import { cleanText } from '../../transcripts/clean-text.ts'

export const STATE_LIMITS = {
  /** Of all that the script may write; more is not read. */
  outputBytes: 4 * 1024 * 1024,
  /** Of each part. */
  entries: 20_000,
  nameChars: 256,
  valueChars: 4096,
} as const

const STATE_PARTS = ['debian', 'npm', 'pip', 'programs', 'environment'] as const
export type StatePart = (typeof STATE_PARTS)[number]

const entries = z
  .record(z.string().min(1).max(STATE_LIMITS.nameChars), z.string().max(STATE_LIMITS.valueChars + 1))
  .refine((found) => Object.keys(found).length <= STATE_LIMITS.entries)

/** Names with their versions or values; a program has none. */
export const sandboxState = z.strictObject({
  version: z.literal(1),
  takenAt: z.iso.datetime(),
  debian: entries,
  npm: entries,
  pip: entries,
  programs: entries,
  environment: entries,
})
export type SandboxState = z.infer<typeof sandboxState>

/** They differ from one shell to the next and say nothing. */
const PASSING: ReadonlySet<string> = new Set(['_', 'SHLVL', 'PWD', 'OLDPWD', '__proto__'])

/** Of what `stateScript` wrote; refuses what broke off. What does not fit is left out, what is too long is cut. */
export function parseState(output: Uint8Array, takenAtMs: number): SandboxState {
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
    if (record.startsWith('#')) {
      isWhole = record === '#end'
      current = parts[STATE_PARTS.find((part) => record === `#${part}`)!]
    } else if (current !== undefined) add(current, record)
  }
  if (!isWhole) throw unreadable('broke off')
  const state = {
    version: 1,
    takenAt: new Date(takenAtMs).toISOString(),
    ...Object.fromEntries(STATE_PARTS.map((part) => [part, sorted(parts[part])])),
  }
  return sandboxState.parse(redactValue(state).value)
}

function add(part: Map<string, string>, record: string): void {
  const at = record.indexOf('=')
  if (at < 1 || part.size >= STATE_LIMITS.entries) return
  const name = record.slice(0, at)
  // A name that is longer, or another one when it is cleaned, is no name of a package or a variable.
  if (name.length > STATE_LIMITS.nameChars || cleanText(name) !== name || /\n/.test(name)) return
  if (!PASSING.has(name)) part.set(name, keptValue(record.slice(at + 1)))
}

/** So much more is looked at, so that a secret across the cut is seen whole. */
const OVERLAP_CHARS = 8 * 1024

/** On one line. Secrets are looked for before: some have several. */
function keptValue(text: string): string {
  const looked = cleanText(text.slice(0, STATE_LIMITS.valueChars + OVERLAP_CHARS))
  const value = redactText(looked).text.replaceAll('\n', '⏎')
  return value.length > STATE_LIMITS.valueChars ? `${value.slice(0, STATE_LIMITS.valueChars)}…` : value
}

function sorted(part: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries([...part].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function unreadable(problem: string): CraikError {
  return new CraikError('boundary_failed', `what the sandbox says of its packages ${problem}`)
}

/** Whether two looks saw the same. */
export function isSameState(one: SandboxState, other: SandboxState): boolean {
  return STATE_PARTS.every((part) => JSON.stringify(one[part]) === JSON.stringify(other[part]))
}

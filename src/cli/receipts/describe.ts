/** Formats one receipt for the user: what it is and its status first, then the facts, then its seal. */
import { formatDuration } from '../../lib/duration.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptRow } from '../../store/store.ts'
import { printable } from '../output.ts'

type Line = readonly [string, string | undefined]

/** `other` is the end of a begin receipt, or the begin of an end receipt. */
export function describeReceipt(row: ReceiptRow, other: ReceiptRow | undefined): string {
  const { body, seal } = JSON.parse(row.line) as Receipt
  const begin = row.phase === 'end' && other ? (JSON.parse(other.line) as Receipt).body : undefined
  const decision = body.decision ?? begin?.decision
  const lines: Line[] = [
    ['receipt', `${body.id} · number ${seal.seq} · ${seal.at}`],
    ['kind', body.kind],
    ['status', body.status ?? (other ? `begun, then ${other.status} (${other.id})` : 'begun, not ended yet')],
    ['begin', body.begin_id],
    ['operator', body.operator],
    ['capability', [body.capability, body.operation].filter(Boolean).join(' · ')],
    ['target', body.target],
    ['decision', decision && `${decision.effect} by ${decision.rule}`],
    ['missing', decision?.missing.join(', ')],
    ['isolation', body.isolation],
    ...Object.entries(body.links).map(([name, value]): Line => [name, String(value)]),
    ...(body.measures ?? []).map(({ name, value, source }): Line => [name, `${value} (${source})`]),
    ...shellLines(body.shell),
    ['redacted', body.redacted_fields?.join(', ')],
    ['sealed', `key ${seal.kid} · after ${seal.prev.slice(0, 16)}…`],
  ]
  const present = lines.filter((line): line is [string, string] => line[1] !== undefined && line[1] !== '')
  const rows = present.map(([name, value]) => [printable(name), printable(value)] as const)
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}\n`).join('')
}

function shellLines(shell: Receipt['body']['shell']): Line[] {
  if (shell === undefined) return []
  const ending =
    shell.exit_code === null ? (shell.signal ?? shell.outcome.replace('_', ' ')) : `exit ${shell.exit_code}`
  return [
    ['command', shell.command],
    ['directory', shell.working_directory],
    ['ended', `${ending} after ${formatDuration(shell.duration_ms)}`],
    ...outputLines('stdout', shell.stdout),
    ...outputLines('stderr', shell.stderr),
    ['hidden', shell.redactions_applied.join(', ')],
  ]
}

/** Returns the first line of the output, and the file that contains all of it. */
function outputLines(
  name: string,
  { preview, bytes, sha256, complete }: { preview: string; bytes: number; sha256: string; complete: boolean },
): Line[] {
  if (bytes === 0) return []
  const first = preview.trimStart().split('\n')[0]!.slice(0, 80)
  const size = `${bytes.toLocaleString('en')} byte${bytes === 1 ? '' : 's'}${complete ? '' : ', truncated'}`
  return [
    [name, first],
    ['', `${size} in state/shell-output/${sha256}.log`],
  ]
}

/** Verifies logs in tests, and forges their lines. */
import fc from 'fast-check'
import { canonicalJson } from '../../lib/canonical-json.ts'
import { buildLog, type TestLog } from '../receipt-log.fixture.ts'
import { LogVerifier } from './log-verifier.ts'
import { leafHash } from './merkle.ts'
import type { VerifierReport, VerifyOptions } from './report.ts'
import { verifyExport } from './verify-files.ts'

type Options = Partial<VerifyOptions>

export const trust = (log: TestLog) => [log.keys[0]!.vkey]

export function verifyLines(
  lines: readonly string[],
  vkeys: readonly string[],
  options: Options = {},
): VerifierReport {
  const verifier = new LogVerifier({ vkeys, ...options })
  for (const line of lines) verifier.line(Buffer.from(line))
  return verifier.finish()
}

export async function verifyBytes(
  bytes: Buffer,
  vkeys: readonly string[],
  chunkBytes = 1 << 20,
): Promise<VerifierReport> {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes)
  }
  return verifyExport(chunks(), { vkeys })
}

export const isReceipt = (line: string) => line.startsWith('{"body"')
export const isCheckpoint = (line: string) => line.startsWith('{"_checkpoint"')
/** Returns the line index of receipt `seq`. */
export const at = (lines: readonly string[], seq: number) =>
  lines.findIndex((line) => isReceipt(line) && numberOf(line) === seq)
export const numberOf = (line: string) => Number(/"seq":(\d+)\}\}$/.exec(line)![1])
export const leafOf = (line: string) => leafHash(Buffer.from(line))
export const withLine = (lines: readonly string[], index: number, line: string) =>
  lines.toSpliced(index, 1, line)

export function edit(
  line: string,
  change: (receipt: { body: Record<string, unknown>; seal: Record<string, unknown> }) => void,
) {
  const receipt = JSON.parse(line)
  change(receipt)
  return canonicalJson(receipt)
}

/** Corrects the numbers and links of all receipts, as a forger without keys can, so that the chain is closed again. */
export function relink(lines: readonly string[]): string[] {
  let [seq, prev] = [0, '0'.repeat(64)]
  return lines.map((line) => {
    if (!isReceipt(line)) return line
    const linked = edit(line, ({ seal }) => Object.assign(seal, { prev, seq }))
    prev = leafOf(linked).toString('hex')
    seq++
    return linked
  })
}

/** Corrects the lists of leaf hashes in the checkpoint lines too. */
export function relist(lines: readonly string[]): string[] {
  let leaves: Buffer[] = []
  return lines.map((line) => {
    if (isReceipt(line)) leaves.push(leafOf(line))
    if (!isCheckpoint(line)) return line
    const { note } = JSON.parse(line)._checkpoint
    const listed = canonicalJson({ _checkpoint: { leaves: Buffer.concat(leaves).toString('base64'), note } })
    leaves = []
    return listed
  })
}

export const withoutLists = (lines: readonly string[]) =>
  lines.map((line) =>
    isCheckpoint(line) ? canonicalJson({ _checkpoint: { note: JSON.parse(line)._checkpoint.note } }) : line,
  )

export const withSize = (lines: readonly string[], size: number) => {
  const header = JSON.parse(lines[0]!)
  header._craik.size = size
  return withLine(lines, 0, canonicalJson(header))
}

export const logs = fc
  .record({
    gaps: fc.array(fc.integer({ min: 1, max: 256 }), { minLength: 1, maxLength: 4 }),
    rotates: fc.boolean(),
    hasDocument: fc.boolean(),
  })
  .map(({ gaps, rotates, hasDocument }) => {
    const checkpoints: number[] = []
    for (const gap of gaps)
      if ((checkpoints.at(-1) ?? 0) + gap <= 700) checkpoints.push((checkpoints.at(-1) ?? 0) + gap)
    const rotations = rotates && checkpoints.length > 1 ? [checkpoints[0]! - 1] : []
    const documents = hasDocument ? ['permit (principal, action, resource);'] : []
    return buildLog({ receipts: checkpoints.at(-1)!, checkpoints, rotations, documents })
  })
export const cases = fc
  .record({ log: logs.filter((log) => log.leaves.length > 1), a: fc.nat(), b: fc.nat() })
  .map(({ log, a, b }) => {
    const size = log.leaves.length
    return { log, size, i: a % size, k: b % size }
  })
export const always = { numRuns: 25 }

/** Every fault must leave a log that verifies, in which every receipt that began has ended exactly once. */
import { expect } from 'vitest'
import type { Receipt } from '../../src/receipts/schema.ts'
import type { CommandResult } from '../craik.ts'

/** Runs `craik …` in a home. */
export interface Runs {
  run(args: readonly string[], options?: { readonly timeoutMs: number }): Promise<CommandResult>
}

/** The supervisor that failed may not answer, so these commands have a timeout. */
const EVIDENCE = { timeoutMs: 20_000 }

/** Stops the supervisor first, so that a signature covers the last receipts. Returns their bodies, oldest first. */
export async function requireWholeLog(home: Runs): Promise<readonly Receipt['body'][]> {
  const stopped = await home.run(['supervisor', 'stop'])
  const log = await home.run(['supervisor', 'logs', '--lines', '40'], EVIDENCE)
  expect(stopped, log.stdout).toMatchObject({ code: 0, stderr: '' })
  // The supervisor ended by itself, not because something open was closed by force.
  expect(log.stdout).not.toContain('still open')
  const verified = await home.run(['receipts', 'verify', '--replay', '--format', 'json'])
  const report = JSON.parse(verified.stdout) as {
    readonly outcome: string
    readonly missing: readonly string[]
    readonly boundaries?: { readonly open: number; readonly differ: readonly unknown[] }
    readonly replay: { readonly differ: readonly unknown[]; readonly not_replayable: number }
  }
  expect(report).toMatchObject({ outcome: 'ok', missing: [], replay: { differ: [] } })
  if (report.boundaries !== undefined) expect(report.boundaries).toMatchObject({ open: 0, differ: [] })
  expect(verified.code).toBe(0)
  const bodies = await receiptsOf(home)
  const ends = new Map<string, number>()
  for (const { begin_id } of bodies)
    if (begin_id !== undefined) ends.set(begin_id, (ends.get(begin_id) ?? 0) + 1)
  const begun = bodies.filter(({ phase }) => phase === 'begin')
  expect(begun.filter(({ id }) => ends.get(id) !== 1)).toEqual([])
  expect(ends.size).toBe(begun.length)
  return bodies
}

export async function receiptsOf(home: Runs): Promise<readonly Receipt['body'][]> {
  const { stdout } = await home.run(['receipts', 'list', '--limit', '1000000', '--format', 'jsonl'])
  const lines = stdout.split('\n').filter(Boolean)
  return lines.map((line) => (JSON.parse(line) as Receipt).body).toReversed()
}

/** Adds the end of the supervisor's log and of the sandbox's events to an error. */
export async function withEvidence<T>(home: Runs, sandbox: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const log = await home.run(['supervisor', 'logs', '--lines', '40'], EVIDENCE)
    const events = await home.run(['sandbox', 'logs', sandbox, '--format', 'jsonl'], EVIDENCE)
    const last = (text: string) => text.split('\n').slice(-40).join('\n')
    throw new Error(`${error}\n${last(log.stdout)}\n${last(events.stdout)}`, { cause: error })
  }
}

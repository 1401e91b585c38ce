/** If Craik cannot write the receipt, the action does not happen. The tests use a disk that is really full. */
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { type CommandResult, NODE, run, TestHome } from '../craik.ts'
import { isGapless, type StoredReceipt } from './log.ts'

const SCRIPT = new URL('./full-disk.ts', import.meta.url)

interface Attempt extends CommandResult {
  readonly acted: boolean
}

const namespace = mountNamespace()
const reason = namespace
  ? ''
  : ' (skipped: a small disk can be mounted neither as root nor in a user namespace)'

describe.skipIf(!namespace)(`a full disk${reason}`, () => {
  it('stops every action in a new home', async () => {
    const { refused, works, verified } = await runScenario<{
      refused: Attempt
      works: Attempt
      verified: CommandResult
    }>('fresh')
    expectDiskFull(refused)
    expect(refused.acted).toBe(false)
    expect(works).toMatchObject({ code: 0, stderr: '', acted: true })
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('stops every action, and leaves a log that verifies and works again when there is space', async () => {
    const played = await runScenario<{
      before: StoredReceipt[]
      refused: Attempt
      listed: CommandResult
      after: StoredReceipt[]
      works: Attempt
      verified: CommandResult[]
    }>('known')
    expectDiskFull(played.refused)
    expect(played.refused.acted).toBe(false)
    expectDiskFullOrDone(played.listed)
    expect(played.after).toEqual(played.before)
    expect(played.works).toMatchObject({ code: 0, stderr: '', acted: true })
    for (const verified of played.verified) expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('with a little space left, lets no action run without a receipt that reports it', async () => {
    const { attempts, works, receipts, verified } = await runScenario<{
      attempts: (Attempt & { kilobytes: number })[]
      works: Attempt
      receipts: StoredReceipt[]
      verified: CommandResult
    }>('edges')
    for (const attempt of attempts) {
      expectDiskFullOrDone(attempt)
      if (attempt.code === 0) expect(attempt.acted, `${attempt.kilobytes} kB`).toBe(true)
      else if (attempt.acted) expect(attempt.stderr).toMatch(/rcpt_\w+ has started/)
    }
    expect(attempts.map(({ code }) => code)).toContain(ERRORS.disk_full.exit)
    expect(attempts.at(-1)!.code).toBe(0)
    expect(works).toMatchObject({ code: 0, acted: true })

    const begins = receipts.filter(({ phase }) => phase === 'begin')
    const ends = receipts.filter(({ phase }) => phase === 'end')
    // Counts one action before the attempts and one after them.
    const done = attempts.filter(({ code }) => code === 0).length + 2
    const acted = attempts.filter((attempt) => attempt.acted).length + 2
    expect(begins.length).toBeGreaterThanOrEqual(acted)
    expect(ends.map(({ begin_id }) => begin_id).sort()).toEqual(begins.map(({ id }) => id).sort())
    expect(ends.filter(({ status }) => status === 'passed')).toHaveLength(done)
    expect(isGapless(receipts)).toBe(true)
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('during many appends, keeps the acknowledged ones and fails the others with disk_full', async () => {
    const { acknowledged, beforeRoom, refusals, receipts, verified } = await runScenario<{
      acknowledged: string[]
      beforeRoom: number
      refusals: Record<string, number>
      receipts: StoredReceipt[]
      verified: CommandResult
    }>('flood')
    expect(refusals).toEqual({ disk_full: 64 })
    expect(beforeRoom).toBeGreaterThanOrEqual(300)
    expect(acknowledged).toHaveLength(beforeRoom + 10)
    expect(receipts.map(({ id }) => id).sort()).toEqual(acknowledged.sort())
    expect(isGapless(receipts)).toBe(true)
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })
})

/**
 * Returns how a process gets a mount namespace: as root, or as root of a user namespace. Returns `undefined` if neither
 * works.
 */
function mountNamespace(): readonly string[] | undefined {
  const ways = [
    ['--mount', '--propagation', 'private'],
    ['--mount', '--propagation', 'private', '--map-root-user'],
  ]
  return ways.find(
    (way) => spawnSync('unshare', [...way, 'mount', '-t', 'tmpfs', 'probe', '/mnt']).status === 0,
  )
}

async function runScenario<T>(scenario: string): Promise<T> {
  using folder = new TestHome()
  const args = [...namespace!, NODE, SCRIPT.pathname, scenario, folder.folder]
  const { code, stdout, stderr } = await run('unshare', args, { env: process.env as Record<string, string> })
  if (code !== 0) throw new Error(`the scenario failed (${code}): ${stderr}`)
  return JSON.parse(stdout) as T
}

function expectDiskFull(ran: CommandResult): void {
  expect(ran).toMatchObject({ code: ERRORS.disk_full.exit, stdout: '' })
  expect(ran.stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
}

/** There can be space for the receipts and none for their checkpoint. The next command then signs it. */
function expectDiskFullOrDone(ran: CommandResult): void {
  if (ran.code !== 0) expectDiskFull(ran)
  else
    expect(ran.stderr).toMatch(
      /^$|^craik: recorded, but not yet covered by a signed checkpoint[^\n]+\n {2}[^\n]+\n$/,
    )
}

/** If the receipt cannot be written, the action does not happen: shown on a disk that is really full. */
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { NODE, type Ran, run, TestHome } from '../craik.ts'
import { isGapless, type StoredReceipt } from './log.ts'

const SCRIPT = new URL('./full-disk.ts', import.meta.url)

interface Attempt extends Ran {
  readonly acted: boolean
}

const namespace = mountNamespace()
const reason = namespace
  ? ''
  : ' (skipped: a small disk can be mounted neither as root nor in a user namespace)'

describe.skipIf(!namespace)(`a full disk${reason}`, () => {
  it('stops every action on a home that is new', async () => {
    const { refused, works, verified } = await play<{ refused: Attempt; works: Attempt; verified: Ran }>(
      'fresh',
    )
    expectDiskFull(refused)
    expect(refused.acted).toBe(false)
    expect(works).toMatchObject({ code: 0, stderr: '', acted: true })
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('stops every action, and leaves a log that verifies and works again when there is room', async () => {
    const played = await play<{
      before: StoredReceipt[]
      refused: Attempt
      listed: Ran
      after: StoredReceipt[]
      works: Attempt
      verified: Ran[]
    }>('known')
    expectDiskFull(played.refused)
    expect(played.refused.acted).toBe(false)
    expectDiskFullOrDone(played.listed)
    expect(played.after).toEqual(played.before)
    expect(played.works).toMatchObject({ code: 0, stderr: '', acted: true })
    for (const verified of played.verified) expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('with a little room left: nothing acts without a receipt that says so', async () => {
    const { attempts, works, receipts, verified } = await play<{
      attempts: (Attempt & { kilobytes: number })[]
      works: Attempt
      receipts: StoredReceipt[]
      verified: Ran
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
    // One before and one after them.
    const done = attempts.filter(({ code }) => code === 0).length + 2
    const acted = attempts.filter((attempt) => attempt.acted).length + 2
    expect(begins.length).toBeGreaterThanOrEqual(acted)
    expect(ends.map(({ begin_id }) => begin_id).sort()).toEqual(begins.map(({ id }) => id).sort())
    expect(ends.filter(({ status }) => status === 'passed')).toHaveLength(done)
    expect(isGapless(receipts)).toBe(true)
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })

  it('while many appends are in flight: acknowledged ones stay, the others hear that it is full', async () => {
    const { acknowledged, beforeRoom, refusals, receipts, verified } = await play<{
      acknowledged: string[]
      beforeRoom: number
      refusals: Record<string, number>
      receipts: StoredReceipt[]
      verified: Ran
    }>('flood')
    expect(refusals).toEqual({ disk_full: 64 })
    expect(beforeRoom).toBeGreaterThanOrEqual(300)
    expect(acknowledged).toHaveLength(beforeRoom + 10)
    expect(receipts.map(({ id }) => id).sort()).toEqual(acknowledged.sort())
    expect(isGapless(receipts)).toBe(true)
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })
})

/** How a process gets a mount namespace here: as root, or as root of a user namespace; undefined if neither works. */
function mountNamespace(): readonly string[] | undefined {
  const ways = [
    ['--mount', '--propagation', 'private'],
    ['--mount', '--propagation', 'private', '--map-root-user'],
  ]
  return ways.find(
    (way) => spawnSync('unshare', [...way, 'mount', '-t', 'tmpfs', 'probe', '/mnt']).status === 0,
  )
}

async function play<T>(scenario: string): Promise<T> {
  using folder = new TestHome()
  const args = [...namespace!, NODE, SCRIPT.pathname, scenario, folder.folder]
  const { code, stdout, stderr } = await run('unshare', args, { env: process.env as Record<string, string> })
  if (code !== 0) throw new Error(`the scenario failed (${code}): ${stderr}`)
  return JSON.parse(stdout) as T
}

function expectDiskFull(ran: Ran): void {
  expect(ran).toMatchObject({ code: ERRORS.disk_full.exit, stdout: '' })
  expect(ran.stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
}

/** There may be room for the receipts and none for the checkpoint over them, which the next command signs. */
function expectDiskFullOrDone(ran: Ran): void {
  if (ran.code !== 0) expectDiskFull(ran)
  else
    expect(ran.stderr).toMatch(
      /^$|^craik: recorded, but not yet covered by a signed checkpoint[^\n]+\n {2}[^\n]+\n$/,
    )
}

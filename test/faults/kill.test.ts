/** SIGKILL at random moments, while four processes append to one log. */
import { describe, expect, it } from 'vitest'
import { TestHome } from '../craik.ts'
import { isGapless, openDatabaseOf, receiptsOf } from './log.ts'
import { type Script, startScript } from './scripts.ts'

const PROCESSES = 4
const LANES = 32
const WANTED = 10_000
const APPENDER = new URL('./appender.ts', import.meta.url)
/** Set CRAIK_TEST_SEED to this value to repeat the same choices. The moments still differ. */
const SEED = Number(process.env.CRAIK_TEST_SEED ?? Date.now() % 2 ** 32)

describe('processes that are killed while they append', () => {
  it('lose no acknowledged receipt, and leave a log that verifies', async ({ onTestFailed }) => {
    onTestFailed(() => void process.stderr.write(`CRAIK_TEST_SEED=${SEED}\n`))
    using home = new TestHome()
    const { acknowledged, kills } = await appendAndKill(home.home)
    expect(kills).toBeGreaterThan(PROCESSES * 2)

    // One process without a kill ends the open receipts of the killed ones, and signs the receipts that no checkpoint
    // covers.
    expect(await home.run(['shell', 'true'])).toMatchObject({ code: 0, stderr: '' })
    const verified = await home.run(['receipts', 'verify'])
    expect(verified, verified.stdout).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(verified.stdout)).toMatchObject({ outcome: 'ok', missing: [] })

    const receipts = receiptsOf(home.home)
    const byId = new Map(receipts.map((receipt) => [receipt.id, receipt]))
    expect(acknowledged.filter((id) => !byId.has(id))).toEqual([])
    expect(new Set(acknowledged).size).toBe(acknowledged.length)
    expect(isGapless(receipts)).toBe(true)

    const begins = receipts.filter(({ phase }) => phase === 'begin')
    const ends = receipts.filter(({ phase }) => phase === 'end')
    const endOf = new Map(ends.map((end) => [end.begin_id!, end]))
    expect(endOf.size, 'each begin ends at most once').toBe(ends.length)
    expect(begins.filter(({ id }) => !endOf.has(id))).toEqual([])
    expect(ends.filter((end) => !(byId.get(end.begin_id!)!.seq < end.seq))).toEqual([])

    const indeterminate = ends.filter(({ status }) => status === 'indeterminate')
    const reply = new Set(acknowledged)
    expect(indeterminate.length).toBeGreaterThan(0)
    expect(indeterminate.filter(({ id }) => reply.has(id))).toEqual([])
    using database = openDatabaseOf(home.home)
    expect(database.prepare('SELECT count(*) AS n FROM open_receipts').get()).toEqual({ n: 0 })
  })
})

async function appendAndKill(root: string): Promise<{ acknowledged: string[]; kills: number }> {
  const random = randomNumbers(SEED)
  const acknowledged: string[] = []
  const running = new Set<Script>()
  let kills = 0
  let over = false

  const live = async (): Promise<void> => {
    // Most processes live until they received a random number of acknowledgements. The others may be killed before they
    // start.
    const enough = random() < 0.75 ? Math.floor(random() * 900) : undefined
    const script = startScript(APPENDER, [root, 'mixed', String(LANES)], (line) => {
      acknowledged.push(line)
      if (acknowledged.length >= WANTED) over = true
      if (over || (enough !== undefined && script.lines.length >= enough)) script.process.kill('SIGKILL')
    })
    const timer =
      enough === undefined ? setTimeout(() => script.process.kill('SIGKILL'), random() * 1_500) : undefined
    running.add(script)
    const { code, signal } = await script.closed
    running.delete(script)
    clearTimeout(timer)
    if (signal !== 'SIGKILL') throw new Error(`an appender ended by itself (${code}): ${script.stderr}`)
    kills++
  }
  const killRepeatedly = async (): Promise<void> => {
    while (!over) await live()
  }
  try {
    await Promise.all(Array.from({ length: PROCESSES }, killRepeatedly))
  } finally {
    over = true
    for (const script of running) script.process.kill('SIGKILL')
    await Promise.all([...running].map((script) => script.closed))
  }
  return { acknowledged, kills }
}

/** mulberry32 is small and seeded, and good enough to choose moments. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

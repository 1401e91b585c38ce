/**
 * The supervisor, sidecars and the engine are killed while sandboxes run. Every sandbox can be used again, and leaves
 * nothing after it is deleted.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { TestEngine, whyNoOwnEngine } from '../engine.ts'
import { prepareImage } from '../engine-image.ts'
import { EVERY_IDENTITY, SandboxHome } from '../sandbox-home.ts'
import { clientOf, craik } from './docker-commands.ts'
import { KillSchedule } from './docker-kills.ts'
import { leftoversOf, requireOnlyOwnInstances } from './docker-leftovers.ts'
import { SandboxLifecycle, type World } from './docker-lifecycle.ts'
import { createRandom, SEED, SupervisorKiller } from './supervisor-kill.ts'
import { requireWholeLog } from './supervisor-kill-receipts.ts'

const IS_LONG = process.env.CRAIK_SOAK === '1'
/** How many sandboxes run in total, how many run at a time, and how many run between two checks for leftovers. */
const SANDBOX_COUNTS = { root: IS_LONG ? 140 : 8, user: IS_LONG ? 60 : 4 }
const AT_ONCE = IS_LONG ? 4 : 2
const BATCH = 20
const STEPS = 5
const LIMIT_MS = 3 * 3600_000

/** Commands without a user at a terminal need this grant. */
const GRANT_OPTIONS = [
  '--capability',
  'sandbox.create',
  '--operation',
  'create',
  '--any-scope',
  '--unlimited-uses',
]

const missing = whyNoOwnEngine()

describe.skipIf(missing !== undefined)(missing ?? 'an engine of its own', () => {
  const named = process.env.CRAIK_ENGINE
  let engine: TestEngine
  beforeAll(async () => {
    engine = await TestEngine.start()
    process.env.CRAIK_ENGINE = engine.address
    await prepareImage(await openEngine(process.env))
  }, LIMIT_MS)
  afterAll(async () => {
    if (named === undefined) delete process.env.CRAIK_ENGINE
    else process.env.CRAIK_ENGINE = named
    await engine?.[Symbol.asyncDispose]()
  })

  it.each(EVERY_IDENTITY)(
    `as %s, sandboxes work and are deleted while supervisor, sidecars and engine are killed (seed ${SEED})`,
    { timeout: LIMIT_MS },
    async (identity) => {
      await using home = await SandboxHome.open({ identity, backend: 'docker', warm: 2 })
      const strikes = new KillSchedule(engine, new SupervisorKiller(home.home), createRandom(SEED))
      const failures = new Map<string, number>()
      await craik(home, ['grant', 'create', ...GRANT_OPTIONS])
      for (let first = 0; first < SANDBOX_COUNTS[identity]; first += BATCH) {
        using client = clientOf(home)
        const world: World = { home, client, strikes, failures }
        const last = Math.min(SANDBOX_COUNTS[identity], first + BATCH)
        let next = first
        const living = Array.from({ length: AT_ONCE }, async () => {
          while (next < last) {
            const number = next++
            await new SandboxLifecycle(world, `life-${number}`, createRandom(SEED + number))
              .live(STEPS)
              .catch((error) => {
                next = last
                throw error
              })
          }
        })
        const lived = await Promise.allSettled(living)
        await strikes.waitForEngine()
        for (const life of lived) if (life.status === 'rejected') throw await withLog(home, life.reason)
        expect(await client.sandboxes.list()).toEqual([])
        expect(await client.snapshots.list()).toEqual([])
        await requireOnlyOwnInstances(home, client)
        await requireWholeLog(home)
        expect(await leftoversOf(home, engine)).toEqual([])
        process.stderr.write(`${identity}: ${last} lives, killed ${JSON.stringify(strikes.count)}\n`)
      }
      const reported = [...failures].toSorted(([a], [b]) => a.localeCompare(b))
      process.stderr.write(
        `failed meanwhile: ${reported.map(([what, count]) => `${what} ${count}`).join(', ')}\n`,
      )
    },
  )
})

/** Adds the end of the supervisors' log to the error. */
async function withLog(home: SandboxHome, error: unknown): Promise<Error> {
  const { stdout } = await home.run(['supervisor', 'logs', '--lines', '60'], { timeoutMs: 20_000 })
  return new Error(`${error}\n${stdout}`, { cause: error })
}

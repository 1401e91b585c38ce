/**
 * The supervisor is killed at random moments during a lot of work. The programs in the sandbox continue, and no byte is
 * lost.
 */
import { describe, expect, it } from 'vitest'
import { readFile, writeFile } from '../../src/sdk/transfer.ts'
import { canBe, EVERY_IDENTITY, type Identity, SandboxHome } from '../sandbox-home.ts'
import { createRandom, SEED, SupervisorKiller } from './supervisor-kill.ts'
import {
  ByteGate,
  checkProgram,
  createGatedFile,
  ExpectedBytes,
  keystreamProgram,
} from './supervisor-kill-bytes.ts'
import { processesBelow, watchForStall } from './supervisor-kill-freeze.ts'
import { requireWholeLog, withEvidence } from './supervisor-kill-receipts.ts'
import { NODE_INSIDE, type Scene, startEcho, startMany, startTerminal } from './supervisor-kill-workload.ts'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const SOAK = process.env.CRAIK_SOAK === '1'
const KILLS = SOAK ? 100 : 20
/** The share of supervisors that are killed while they still take over from the previous one. */
const EARLY = 1 / 4
const LIMIT_MS = SOAK ? 3_600_000 : 900_000
/** The time before the limit at which the test reports its position and cleans up. */
const LAST_MS = 180_000
/** The memory that a supervisor may use above its idle memory. It forwards many times as many bytes. */
const ROOM_BYTES = 256 * MIB

/** One identity copies the large file into the sandbox, the other copies it out. A soak run does both for both. */
const SIZES: Readonly<Record<Identity, { readonly in: number; readonly out: number }>> = {
  root: { in: GIB, out: SOAK ? GIB : 64 * MIB },
  user: { in: SOAK ? GIB : 64 * MIB, out: GIB },
}

describe.each(EVERY_IDENTITY)('as %s', (identity) => {
  it.runIf(canBe(identity))(
    `a supervisor killed ${KILLS} times (seed ${SEED}) loses no byte, no process and no receipt`,
    { timeout: LIMIT_MS },
    async () => {
      const random = createRandom(SEED)
      const size = SIZES[identity]
      await using home = await SandboxHome.open({ identity })
      const sandbox = await home.create()
      const client = home.client()
      const made = await sandbox.exec([NODE_INSIDE, '-e', keystreamProgram('out', size.out, 'out')])
      expect(made).toMatchObject({ code: 0 })
      const idleBytes = (await client.supervisor.status()).memory_bytes

      const [over, left] = [new AbortController(), new AbortController()]
      const scene = { client, sandbox: sandbox.id, random, over: over.signal, left: left.signal }
      const [echo, terminal, many] = [startEcho(scene), startTerminal(scene), startMany(scene)]
      const gates = { in: new ByteGate(), out: new ByteGate() }
      const copying = copyBoth(scene, size, gates)
      const killer = new SupervisorKiller(home.home)
      const killing = killAll(killer, gates, size, scene)
      const parts = [
        // Killing and copying wait for each other, so they can only stall together.
        {
          name: 'the copy',
          done: Promise.all([killing, copying]),
          where: () =>
            `in ${gates.in}; out ${gates.out}; the killer, after ${killer.killed.length}, ${killer.doing}`,
        },
        echo,
        terminal,
        many,
      ]
      const watched = watchForStall(parts, {
        limitMs: LIMIT_MS - LAST_MS,
        until: left.signal,
        evidence: () => processesBelow([home.home, sandbox.id]),
      })
      // The first failure is reported. The other parts would only wait for events that never happen.
      const [memory, [echoed, typed, ran]] = await withEvidence(home, sandbox.id, () =>
        firstFailure([watched, ...parts.map(({ done }) => done)], left, async () => {
          const [sampled] = await Promise.all([killing, copying])
          over.abort()
          return [sampled, await Promise.all([echo.done, terminal.done, many.done])] as const
        }),
      )
      left.abort()

      expect(killer.killed.length).toBeGreaterThanOrEqual(KILLS)
      expect(echoed.result).toMatchObject({ outcome: 'exited', exitCode: 0 })
      expect(typed.result).toMatchObject({ outcome: 'exited', exitCode: 0 })
      const starts = `exec ${echoed.pid}\nterminal ${typed.pid}\n`.split('\n').sort()
      expect((await sandbox.exec(['cat', 'starts'])).stdout.split('\n').sort()).toEqual(starts)
      const numbers = Array.from({ length: ran }, (_, n) => `${n + 1}\n`).join('')
      expect((await sandbox.exec(['cat', 'many'])).stdout).toBe(numbers)
      const checked = await sandbox.exec([NODE_INSIDE, '-e', checkProgram('in', size.in, 'in')])
      expect(checked).toMatchObject({ code: 0, stdout: 'whole' })
      expect(Math.max(...memory)).toBeLessThan(idleBytes + ROOM_BYTES)

      await killer.waitUntilOneLeft()
      await sandbox.delete()
      const receipts = await requireWholeLog(home)
      const ofJobs = receipts.filter(({ phase, operation }) => phase === 'end' && operation === 'exec')
      expect(ofJobs.filter(({ status }) => status !== 'passed')).toEqual([])
    },
  )
})

interface Sizes {
  readonly in: number
  readonly out: number
}

interface Gates {
  readonly in: ByteGate
  readonly out: ByteGate
}

async function copyBoth({ client, sandbox, left }: Scene, size: Sizes, gates: Gates): Promise<void> {
  const source = { bytes: size.in, mode: 0o640, open: createGatedFile('in', size.in, gates.in) }
  await writeFile(client, sandbox, 'in', source, { signal: left })
  const expected = new ExpectedBytes('out')
  for await (const chunk of readFile(client, sandbox, 'out', { signal: left })) {
    expected.take(chunk)
    await gates.out.pass(expected.at)
  }
  expect(expected.at).toBe(size.out)
}

/** Resolves with the memory that supervisors used before they were killed. */
async function killAll(killer: SupervisorKiller, gates: Gates, size: Sizes, scene: Scene): Promise<number[]> {
  const killsIn = Math.max(3, Math.min(KILLS - 3, Math.round((KILLS * size.in) / (size.in + size.out))))
  return [
    ...(await killDuring(killer, gates.in, size.in, killsIn, scene)),
    ...(await killDuring(killer, gates.out, size.out, KILLS - killsIn, scene)),
  ]
}

/** Kills the supervisor the given number of times, each time in a different part of a copy. */
async function killDuring(
  killer: SupervisorKiller,
  gate: ByteGate,
  bytes: number,
  kills: number,
  { client, random, left }: Scene,
): Promise<number[]> {
  const memory: number[] = []
  for (let n = 0; n < kills && !left.aborted; n++) {
    gate.allow(Math.ceil((bytes * (n + 1)) / kills))
    const early = random() < EARLY
    if (!early) {
      killer.doing = 'waits for the copy'
      await gate.waitForBytes(Math.floor((bytes * (n + random())) / kills))
      memory.push((await client.supervisor.status({ signal: left })).memory_bytes)
    }
    await killer.kill(random() * (early ? 400 : 40))
  }
  gate.allow(bytes)
  return memory
}

async function firstFailure<T>(
  all: readonly Promise<unknown>[],
  left: AbortController,
  wanted: () => Promise<T>,
): Promise<T> {
  const failed = Promise.withResolvers<never>()
  for (const one of all)
    one.catch((error) => {
      failed.reject(error)
      left.abort()
    })
  return Promise.race([wanted(), failed.promise])
}

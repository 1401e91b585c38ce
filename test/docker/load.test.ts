/**
 * Many containers at once, with many commands: each command gets its own output, and the supervisor's memory does not
 * grow with them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import type { ApiClient } from '../../src/sdk/client.ts'
import { homeAt } from '../../src/store/home.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { requireWholeLog } from '../faults/supervisor-kill-receipts.ts'
import { canBe, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'

const MIB = 1024 ** 2
const IS_LONG = process.env.CRAIK_SOAK === '1'
const LIMIT_MS = 3 * 3600_000
const LOAD = IS_LONG
  ? { sandboxes: 50, atOnce: 20, commands: 10_000, warmUp: 2_000, looks: 1_000, bytes: 65_536 }
  : { sandboxes: 8, atOnce: 8, commands: 320, warmUp: 80, looks: 40, bytes: 1_000_000 }
/**
 * The most that the supervisor may grow between the two measurements. Node keeps up to about 130 MiB of heap that it
 * does not use, and the amount varies at any moment. It uses 32 MiB, after 6,000 commands as after 1,000. The commands
 * between the measurements print more than this limit, in the long form three times as much. So the test detects a
 * supervisor that keeps their output.
 */
const GROWTH_BYTES_MAX = 144 * MIB
/** Small limits, so that a small host has the capacity for all of them. */
const LIMITS = { memory_bytes: 256 * MIB, disk_bytes: 64 * MIB, processes: 128 }
const CREATE_GRANT = [
  '--capability',
  'sandbox.create',
  '--operation',
  'create',
  '--any-scope',
  '--unlimited-uses',
]

const missing = canBe('root') ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? `${LOAD.sandboxes} containers at once`, () => {
  let home: SandboxHome
  let client: ApiClient
  let ids: readonly string[]
  beforeAll(async () => {
    home = await SandboxHome.open({ identity: 'root', backend: 'docker' })
    await home.json(['grant', 'create', '--format', 'json', ...CREATE_GRANT])
    client = home.client()
  })
  afterAll(() => home[Symbol.asyncDispose]())

  it('are created by concurrent requests', { timeout: LIMIT_MS }, async () => {
    const made = Array.from({ length: LOAD.sandboxes }, (_, n) =>
      client.sandboxes.create({
        name: `box-${n}`,
        backend: 'docker',
        workspace: { mode: 'copy' },
        environment: {},
        network: 'none',
        mounts: [],
        container: { image: 'craik', line: n % 4 === 3 ? 'relay' : 'socket' },
        limits: LIMITS,
      }),
    )
    const all = await Promise.all(made)
    expect(all.map(({ state }) => state)).toEqual(made.map(() => 'running'))
    ids = all.map(({ id }) => id)
    await Promise.all(all.map(({ id, name }) => runScript(client, id, `printf ${name} > name`)))
  })

  it(`run ${LOAD.commands} commands, and the supervisor does not grow`, { timeout: LIMIT_MS }, async () => {
    const { pid } = await client.supervisor.version()
    const seen: number[] = []
    let next = 0
    const working = Array.from({ length: LOAD.atOnce }, async () => {
      while (next < LOAD.commands) {
        await command(client, next++)
        seen.push(residentBytes(pid))
      }
    })
    await Promise.all(working)
    expect((await client.supervisor.version()).pid).toBe(pid)
    // Takes the least of many measurements, because memory rises and falls between two garbage collections.
    const least = (until: number) => Math.min(...seen.slice(until - LOAD.looks, until))
    const [before, after] = [least(LOAD.warmUp), least(LOAD.commands)]
    process.stderr.write(
      `supervisor: ${mib(before)} MiB after ${LOAD.warmUp} commands, ${mib(after)} MiB after ${LOAD.commands}, at most ${mib(Math.max(...seen))} MiB\n`,
    )
    expect(after - before).toBeLessThan(GROWTH_BYTES_MAX)
  })

  it('leave nothing after concurrent deletes', { timeout: LIMIT_MS }, async () => {
    await Promise.all(ids.map((id) => client.sandboxes.delete(id)))
    for (const id of ids) expect(await home.findLeftovers(id)).toEqual([])
    expect(readdirSync(homeAt(home.home).sandboxes)).toEqual([])
    await requireWholeLog(home)
  })
})

/** Runs a command with unique output, and checks that output. */
async function command(client: ApiClient, n: number): Promise<void> {
  const box = `box-${n % LOAD.sandboxes}`
  const line = `${box} ${n}\n`
  const expected = line.repeat(Math.ceil(LOAD.bytes / line.length)).slice(0, LOAD.bytes)
  const text = await runScript(client, box, `yes "$(cat name) ${n}" | head -c ${LOAD.bytes}`)
  if (text !== expected) throw new Error(`command ${n} said: ${text.slice(0, 500)}`)
}

async function runScript(client: ApiClient, sandbox: string, script: string): Promise<string> {
  const argv = ['sh', '-c', script]
  const ran = await client.sandboxes.exec(sandbox, { argv, job_id: newId('job', Date.now()) })
  if (ran.exit_code !== 0) throw new Error(`${script} in ${sandbox}: ${JSON.stringify(ran).slice(0, 500)}`)
  return ran.stdout.data
}

function residentBytes(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))!
  return Number(kib) * 1024
}

function mib(bytes: number): number {
  return Math.round(bytes / MIB)
}

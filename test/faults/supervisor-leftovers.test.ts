/** The supervisor is killed at the moment it starts bubblewrap. The next one ends the leftovers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { rolldown } from 'rolldown'
import { describe, expect, it } from 'vitest'
import { type Owner, ownerOf, ownerState } from '../../src/lib/owner.ts'
import { homeAt } from '../../src/store/home.ts'
import { runFolder } from '../../src/supervisor/run-folder.ts'
import { environmentOf } from '../craik.ts'
import { canBe, EVERY_IDENTITY, SandboxHome } from '../sandbox-home.ts'
import { receiptsOf } from './supervisor-kill-receipts.ts'

const LIMIT_MS = 300_000
const FIXTURE = 'die-at-launch.fixture.ts'
/**
 * The delays until the kill. At 0, bubblewrap has reported nothing. Later it has reported, and its child is starting or
 * has exited.
 */
const MOMENTS_US = [0, 1_000, 4_000]

describe.each(EVERY_IDENTITY)('as %s', (identity) => {
  it.runIf(canBe(identity))(
    'the next supervisor ends an unfinished probe of a killed one, and not that of a living process',
    { timeout: LIMIT_MS },
    async () => {
      await using home = await SandboxHome.open({ identity })
      await using bystander = await startLivingProbe(home)
      const left: Owner[] = []
      for (const afterUs of MOMENTS_US) {
        const killed = await killAtLaunch(home, '--json-status-fd', afterUs)
        await sleep(200)
        left.push(...findStartedBy(killed))
        // Recovery runs first: the supervisor that answers has already ended all leftovers.
        await home.json(['sandbox', 'list', '--format', 'json'])
        expect(findStartedBy(killed)).toEqual([])
        await home.run(['supervisor', 'stop'])
      }
      // At least one kill left a process.
      expect(left.length).toBeGreaterThan(0)
      expect(left.map(ownerState)).not.toContain('alive')
      expect(ownerState(bystander.probe)).toBe('alive')
    },
  )

  it.runIf(canBe(identity))(
    'the next supervisor removes a sandbox that a killed one had not finished starting',
    { timeout: LIMIT_MS },
    async () => {
      await using home = await SandboxHome.open({ identity })
      let left = 0
      for (const afterUs of MOMENTS_US) {
        await killAtLaunch(home, '--info-fd', afterUs)
        await sleep(200)
        const [id] = readdirSync(join(home.home, 'sandboxes'))
        left += (await home.findLeftovers(id!)).length
        expect(await home.json(['sandbox', 'list', '--format', 'json'])).toEqual([])
        expect(await home.findLeftovers(id!)).toEqual([])
        expect(readdirSync(join(home.home, 'sandboxes'))).toEqual([])
        await home.run(['supervisor', 'stop'])
      }
      expect(left).toBeGreaterThan(0)
      const begun = (await receiptsOf(home)).filter(({ operation }) => operation === 'create')
      const ends = begun.filter(({ phase }) => phase === 'end')
      expect(ends.map(({ status }) => status)).toEqual(MOMENTS_US.map(() => 'indeterminate'))
    },
  )
})

/**
 * Starts a supervisor that kills itself when it starts a bubblewrap with the option. Creates a sandbox to cause this.
 * Returns the supervisor's pid.
 */
async function killAtLaunch(home: SandboxHome, option: string, afterUs: number): Promise<number> {
  const { node, main } = home.program
  const supervisor = spawn(node, ['--import', fixtureOf(home), main, 'supervisor', 'run'], {
    env: {
      ...environmentOf(home),
      CRAIK_TEST_DIE_AT: option,
      CRAIK_TEST_DIE_AFTER_US: String(afterUs),
    },
    stdio: 'ignore',
    ...home.user,
  })
  const exited = once(supervisor, 'exit')
  const { socket } = runFolder(homeAt(home.home))
  while (!existsSync(socket)) await sleep(10)
  const created = await home.run(['sandbox', 'create'])
  expect(created).toMatchObject({ code: 85, stderr: expect.stringContaining('disconnected') })
  expect(await exited).toEqual([null, 'SIGKILL'])
  return supervisor.pid!
}

/** Starts a probe that lives as long as the process that started it, which is not a supervisor. */
async function startLivingProbe(home: SandboxHome): Promise<AsyncDisposable & { readonly probe: Owner }> {
  const maker = spawn(home.program.node, [await bundleProbeMaker(home)], {
    env: environmentOf(home),
    stdio: ['ignore', 'pipe', 'inherit'],
    ...home.user,
  })
  const [output] = (await once(maker.stdout, 'data')) as [Buffer]
  expect(output.toString()).toBe('here\n')
  return {
    probe: findStartedBy(maker.pid!)[0]!,
    async [Symbol.asyncDispose]() {
      maker.kill('SIGKILL')
      await once(maker, 'exit')
    },
  }
}

/** Bundles the fixture into one file that every user of these tests can read. */
async function bundleProbeMaker(home: SandboxHome): Promise<string> {
  const bundle = await rolldown({
    input: join(import.meta.dirname, 'running-probe.fixture.ts'),
    platform: 'node',
  })
  const file = home.path('living-probe.mjs')
  await bundle.write({ file, format: 'esm' })
  await bundle.close()
  return file
}

/**
 * Returns the running processes whose working folder is `/proc/PID/task/PID` of the given process. Craik starts
 * bubblewrap there.
 */
function findStartedBy(pid: number): Owner[] {
  const names = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return names.flatMap((name) => {
    const isThere = folderOf(name).startsWith(`/proc/${pid}/task/${pid}`)
    return isThere ? (ownerOf(Number(name)) ?? []) : []
  })
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

/** Copies the fixture to a folder where every user of these tests can read it. */
function fixtureOf(home: SandboxHome): string {
  const path = home.path(FIXTURE)
  if (!existsSync(path)) copyFileSync(join(import.meta.dirname, FIXTURE), path)
  return path
}

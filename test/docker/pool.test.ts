/** Containers of the warm pool: adopted without the engine, never twice, and removed with their supervisor. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxBody, SupervisorBody } from '../../src/operator/api/bodies.ts'
import { homeFilter } from '../../src/sandboxes/backends/docker/container-names.ts'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SupervisorKiller } from '../faults/supervisor-kill.ts'
import { canBe, type Identity, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'
import { SocketProxy } from './socket-proxy.fixture.ts'

const POLL_MS = 50

/** Waits until `look` returns a value. Only the test's own timeout limits it. */
async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await sleep(POLL_MS)
  }
}

const CASES: readonly [Identity, SandboxHome['line']][] = [
  ['user', 'socket'],
  ['root', 'socket'],
  ['root', 'relay'],
]

describe.each(CASES)('as %s, over a %s', (identity, line) => {
  const missing = canBe(identity) ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED
  describe.skipIf(missing !== undefined)(missing ?? 'a container that waits', () => {
    let home: SandboxHome
    let gate: SocketProxy
    beforeAll(async () => {
      home = await SandboxHome.open({ identity, backend: 'docker', line, warm: 2 })
      gate = await SocketProxy.open(process.env.CRAIK_ENGINE!, home.folder)
    })
    afterAll(async () => {
      await gate.reopen()
      await home[Symbol.asyncDispose]()
      gate.shut()
    })

    /** The command that starts the supervisor selects the engine. */
    const proxyOptions = () => ({ env: { CRAIK_ENGINE: `unix://${gate.path}` } })
    const create = async (...args: string[]) => {
      const createArgs = [
        'sandbox',
        'create',
        '--format',
        'json',
        '--backend',
        'docker',
        '--line',
        line,
        ...args,
      ]
      return home.json<SandboxBody>(createArgs, proxyOptions())
    }
    const status = () => home.json<SupervisorBody>(['supervisor', 'status', '--format', 'json'])
    const waitForWarm = (count: number) =>
      eventually(async () => ((await status()).warm === count ? true : undefined))
    const ids = async () => {
      const listed = await home.json<SandboxBody[]>(['sandbox', 'list', '--format', 'json'], proxyOptions())
      return listed.map(({ id }) => id).sort()
    }
    const containers = async () => {
      const { docker } = await openEngine(process.env)
      const filters = { label: [homeFilter(home.home)] }
      return docker.listContainers({ all: true, filters })
    }
    /** Returns everything that exists of sandboxes, recorded or not: containers, folders, mounts. */
    const findTraces = async () => {
      const folder = join(home.home, 'sandboxes')
      const mounts = readFileSync('/proc/self/mountinfo', 'utf8').matchAll(/sandboxes\/(sbx_\w+)\/data /g)
      return {
        containers: (await containers()).map(({ Labels }) => Labels['craik.sandbox']).sort(),
        folders: (existsSync(folder) ? readdirSync(folder) : []).sort(),
        mounts: [...mounts]
          .map(([, id]) => id!)
          .filter((id) => existsSync(join(folder, id)))
          .sort(),
      }
    }
    const expectOnlySandboxes = async () => {
      const known = await ids()
      const mounts = identity === 'root' ? known : []
      expect(await findTraces()).toEqual({ containers: known, folders: known, mounts })
    }
    const warmCreates = async () => {
      const { stdout } = await home.run(['receipts', 'list', '--format', 'jsonl'])
      return stdout
        .trim()
        .split('\n')
        .map((text) => JSON.parse(text).body ?? JSON.parse(text))
        .filter((body) => body.phase === 'end' && body.metadata?.warm === true)
        .map((body) => body.links.sandbox_id)
    }

    it('exists after the first sandbox, and is not listed', async () => {
      const first = await create('--name', 'first')
      await waitForWarm(1)
      expect(await ids()).toEqual([first.id])
      expect(await containers()).toHaveLength(2)
    })

    it('is adopted with all requested settings, over a socket also while the engine does not answer', async () => {
      // A relay needs the engine, because its connection goes through the engine.
      if (line === 'socket') gate.shut()
      const made = await create('--name', 'second', '--env', 'COLOUR=blue', '--idle-timeout', 'never')
      await gate.reopen()
      expect(made).toMatchObject({ name: 'second', state: 'running', connected: true })
      expect(await warmCreates()).toEqual([made.id])
      const reply = await home.run([
        'sandbox',
        'exec',
        'second',
        '--',
        'sh',
        '-c',
        'echo $COLOUR; id -un; pwd',
      ])
      expect(reply.stdout).toBe('blue\nagent\n/workspace/home/project\n')
      const { docker } = await openEngine(process.env)
      const found = (await containers()).find(({ Labels }) => Labels['craik.sandbox'] === made.id)
      const { Config, State } = await docker.getContainer(found!.Id).inspect()
      expect(JSON.stringify(Config.Env)).not.toContain('COLOUR')
      expect(Date.parse(State.StartedAt)).toBeLessThan(made.created_at_ms)
    })

    it('is replaced, and is stopped, resumed and deleted like any other sandbox after its adoption', async () => {
      await waitForWarm(2)
      expect((await home.run(['sandbox', 'stop', 'second'])).code).toBe(0)
      expect((await home.run(['sandbox', 'resume', 'second'])).code).toBe(0)
      const reply = await home.run(['sandbox', 'exec', 'second', '--', 'sh', '-c', 'echo $COLOUR'])
      expect(reply.stdout).toBe('blue\n')
      expect((await home.run(['sandbox', 'delete', '--yes', 'second'])).code).toBe(0)
    })

    it('is removed by the next supervisor if its own was killed, and by its own when that stops', async () => {
      await waitForWarm(2)
      await new SupervisorKiller(home.home).kill()
      expect(await containers()).toHaveLength(3)
      expect(await ids()).toHaveLength(1)
      await eventually(async () => ((await findTraces()).folders.length === 1 ? true : undefined))
      await expectOnlySandboxes()
      await create('--name', 'third')
      await waitForWarm(1)
      expect((await home.run(['supervisor', 'stop'])).code).toBe(0)
      await expectOnlySandboxes()
      expect((await home.run(['receipts', 'verify'])).code).toBe(0)
    })
  })
})

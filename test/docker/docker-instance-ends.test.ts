/**
 * How instances of the Docker backend end and are recovered. Nothing is left, and an engine that does not answer proves
 * nothing.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxSpec } from '../../src/sandboxes/backend.ts'
import { containerName, labelsOf } from '../../src/sandboxes/backends/docker/container-names.ts'
import { isGone } from '../../src/sandboxes/backends/docker/engine/engine-request.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { InstanceRunner, type Order, RUNNERS, SOCKET_RUNNERS } from './instance-runner.fixture.ts'
import { SocketProxy } from './socket-proxy.fixture.ts'

const SWEEPS = 5
const SKIPPED = ENGINE_IS_NEEDED === undefined ? '' : ` (${ENGINE_IS_NEEDED})`

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(RUNNERS)(`as $who, over a $line${SKIPPED}`, (who) => {
  let runner: InstanceRunner
  let craikHome: string

  beforeAll(async () => {
    runner = await InstanceRunner.open(who)
    craikHome = runner.craikHome
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  it('outlives the process that created it, is recovered, and reports its end to the process that watches it', async () => {
    const spec = runner.specWith()
    const first = await runner.startAndWait({ verb: 'create', craikHome, spec, run: ['echo 1 >/tmp/kept'] })
    const { handle } = first.lines[0]!
    first.driver.kill('SIGKILL')
    const count = 'pgrep -fc "[r]elay.mjs"'
    const second = await runner.startAndWait({
      verb: 'recover',
      craikHome,
      spec,
      handle: handle!,
      run: [
        'cat /tmp/kept',
        // The relay of the killed process ends by itself.
        `for i in $(seq 100); do [ "$(${count})" -le 1 ] && break; sleep .1; done; ${count}`,
      ],
    })
    expect(second.lines[1]).toMatchObject({ out: '1\n' })
    expect(second.lines[2]).toMatchObject({ out: who.line === 'relay' ? '1\n' : '0\n' })
    await runner.engine.docker.getContainer(String(handle!.container)).kill()
    expect(await second.next()).toEqual({ ended: 'its container exited (exit code 137)' })
    expect(await second.next()).toMatchObject({ destroyed: true })
    expect(await runner.sendOrder({ verb: 'recover', craikHome, spec, handle: handle! })).toEqual([
      { gone: true },
    ])
    expect(await runner.findLeftovers(spec)).toEqual([])
  })
})

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(SOCKET_RUNNERS)(`as $who${SKIPPED}`, (who) => {
  let runner: InstanceRunner
  let craikHome: string

  beforeAll(async () => {
    runner = await InstanceRunner.open(who)
    craikHome = runner.craikHome
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  it('does not count as gone while the engine does not answer', async () => {
    const spec = runner.specWith()
    await using gate = await SocketProxy.open(runner.engine.address, runner.folder)
    runner.own(gate.path)
    const through = { CRAIK_ENGINE: `unix://${gate.path}` }
    const { driver, lines, next } = await runner.startAndWait({ verb: 'create', craikHome, spec }, through)
    const { handle } = lines[0]!
    gate.shut()
    for (const order of [
      { verb: 'recover', craikHome, spec, handle: handle! },
      { verb: 'sweep', craikHome, spec },
    ] satisfies Order[])
      expect(await runner.sendOrder(order, through)).toMatchObject([{ error: { code: 'unavailable' } }])
    const ended = next()
    // No process can receive the engine's event now.
    await runner.engine.docker.getContainer(String(handle!.container)).kill()
    expect(await Promise.race([ended, sleep(1500)])).toBeUndefined()
    await gate.reopen()
    runner.own(gate.path)
    expect(await ended).toEqual({ ended: 'its container exited (exit code 137)' })
    expect(await next()).toMatchObject({ destroyed: true })
    driver.kill('SIGKILL')
    expect(await runner.findLeftovers(spec)).toEqual([])
  })

  it('leaves nothing after a sweep if its creator was killed while it created or ended an instance', async () => {
    const killed: SandboxSpec[] = []
    for (const afterMs of [250, 400, 550, 700, 900, 1200]) {
      const spec = runner.specWith()
      killed.push(spec)
      const driver = runner.start({ verb: 'create', craikHome, spec })
      const exited = once(driver, 'exit')
      await sleep(afterMs)
      driver.kill('SIGKILL')
      await exited
      await sweepUntilClean(spec)
    }
    for (const spec of killed) expect(await runner.findLeftovers(spec)).toEqual([])
  })

  it('removes a container that the engine finished creating for a sandbox that no longer exists', async () => {
    const gone = runner.specWith()
    const left = await runner.engine.docker.createContainer({
      Image: runner.container.image,
      Labels: labelsOf(gone.id, craikHome),
      HostConfig: { NetworkMode: 'none' },
    })
    expect(await runner.sendOrder({ verb: 'sweep', craikHome, spec: runner.specWith() })).toEqual([
      { swept: true },
    ])
    expect(await runner.engine.ask('look', () => left.inspect()).catch(isGone)).toBe(true)
  })

  it('does not touch the container of another home', async () => {
    const spec = runner.specWith()
    const foreign = await runner.engine.docker.createContainer({
      name: containerName(spec.id),
      Image: runner.container.image,
      Labels: { 'craik.sandbox': spec.id, 'craik.home': 'another' },
      HostConfig: { NetworkMode: 'none' },
    })
    try {
      expect(await runner.sendOrder({ verb: 'sweep', craikHome, spec })).toEqual([{ swept: true }])
      const [reported] = await runner.sendOrder({ verb: 'create', craikHome, spec })
      expect(reported?.error?.code).toBe('conflict')
      expect((await foreign.inspect()).Id).toBe(foreign.id)
    } finally {
      await foreign.remove({ force: true })
    }
  })

  /** Sweeps several times, because the engine or a mount program finishes its work even if no process waits for it. */
  async function sweepUntilClean(spec: SandboxSpec): Promise<void> {
    for (let turn = 0; turn < SWEEPS; turn++) {
      expect(await runner.sendOrder({ verb: 'sweep', craikHome, spec })).toEqual([{ swept: true }])
      if (turn > 0 && (await runner.findLeftovers(spec)).length === 0) return
    }
    expect(await runner.findLeftovers(spec)).toEqual([])
  }
})

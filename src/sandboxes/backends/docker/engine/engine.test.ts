import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { falseEngine, serveEngine } from './engine.fixture.ts'
import { openEngine } from './engine.ts'
import { faultOf, isGone, isSilent } from './engine-request.ts'

describe('an engine', () => {
  it('is described by its own answers', async () => {
    await using engine = await serveEngine()
    expect(await openEngine(engine.address)).toMatchObject({
      id: 'ONE',
      product: 'docker',
      version: '28.5.2',
      runcVersion: '1.3.3',
      runtimes: ['runc'],
      isRootless: false,
      remapsUsers: false,
      sharesFolders: process.platform === 'linux',
      cgroupVersion: 2,
      architecture: 'x64',
      filtersCalls: true,
      processors: 2,
      holds: { memory: true, processes: true, cpu: true },
    })
  })

  it('shares no folders when it is on another machine, whatever its address', async () => {
    for (const changed of [
      { OperatingSystem: 'Docker Desktop' },
      { Name: 'elsewhere' },
      { KernelVersion: '0.0.1' },
    ]) {
      await using engine = await serveEngine(changed)
      expect((await openEngine(engine.address)).sharesFolders).toBe(false)
    }
  })

  it('enforces no limit that it says it cannot, and none if it is rootless with the first version of cgroups', async () => {
    await using partly = await serveEngine({ MemoryLimit: false, CpuCfsQuota: false })
    expect((await openEngine(partly.address)).holds).toEqual({
      memory: false,
      processes: true,
      cpu: false,
    })
    await using rootless = await serveEngine({ SecurityOptions: ['name=rootless'], CgroupVersion: '1' })
    expect(await openEngine(rootless.address)).toMatchObject({
      isRootless: true,
      remapsUsers: true,
      filtersCalls: false,
      holds: { memory: false, processes: false, cpu: false },
    })
    await using none = await serveEngine({ CgroupDriver: 'none' })
    expect((await openEngine(none.address)).holds.memory).toBe(false)
  })

  it('of Podman is identified by where it stores containers, because its own id changes with each request', async () => {
    const components = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    await using one = await serveEngine({ ID: 'random-1', Name: 'here' }, components)
    await using two = await serveEngine({ ID: 'random-2', Name: 'here' }, components)
    const [first, second] = [await openEngine(one.address), await openEngine(two.address)]
    expect(first).toMatchObject({ product: 'podman', id: 'podman:here:/var/lib/docker' })
    expect(second.id).toBe(first.id)
  })

  it('of Podman has no gVisor, which Podman lists but cannot select through this API', async () => {
    const runtimes = { Runtimes: { crun: {}, runc: {}, runsc: {} } }
    const components = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    await using podman = await serveEngine(runtimes, components)
    await using docker = await serveEngine(runtimes)
    expect((await openEngine(podman.address)).runtimes).toEqual(['crun', 'runc'])
    expect((await openEngine(docker.address)).runtimes).toContain('runsc')
  })

  it('is refused when it is not an engine, or not one for Linux', async () => {
    await using windows = await serveEngine({ OSType: 'windows' })
    await expect(openEngine(windows.address)).rejects.toThrow(/windows containers/)
    await using web = await falseEngine((_, response) => response.end('<html>'))
    await expect(openEngine(web.address)).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('counts as silent when it is missing, with a hint to fix that', async () => {
    const environment = { CRAIK_ENGINE: `unix://${join(tmpdir(), 'craik-no-such-engine.sock')}` }
    const error = await openEngine(environment).catch((caught: unknown) => caught)
    expect(isSilent(error)).toBe(true)
    expect(error).toMatchObject({ code: 'unavailable', hint: expect.stringMatching(/./) })
  })
})

describe('a request to an engine', () => {
  const answering = (status: number, body: string) =>
    serveEngine({}, {}, (_, response) => void response.writeHead(status).end(body))

  it.each([
    [404, 'gone', 'not_found'],
    [409, 'refused', 'conflict'],
    [400, 'refused', 'unavailable'],
    [500, 'refused', 'unavailable'],
    // An engine that shuts down.
    [503, 'silent', 'unavailable'],
  ] as const)('with the status %i fails as %s', async (status, fault, code) => {
    await using engine = await answering(status, JSON.stringify({ message: 'because\u001b[1m' }))
    const { docker, ask } = await openEngine(engine.address)
    const error = await ask('look', () => docker.getContainer('x').inspect()).catch(
      (caught: unknown) => caught,
    )
    expect(error).toMatchObject({ code, message: expect.stringMatching(/could not look: because *\[1m$/) })
    expect(faultOf(error)).toBe(fault)
  })

  it('that breaks off or times out does not mean that the object is gone', async () => {
    await using cut = await serveEngine({}, {}, (request) => request.socket.destroy())
    await using slow = await serveEngine({}, {}, () => {})
    for (const { address } of [cut, slow]) {
      const { docker, ask } = await openEngine(address)
      const pending = ask('look', () => docker.getContainer('x').inspect(), { deadlineMs: 200 })
      const error = await pending.catch((caught: unknown) => caught)
      expect([isSilent(error), isGone(error)]).toEqual([true, false])
    }
  })

  it('stops when its caller cancels', async () => {
    await using slow = await serveEngine({}, {}, () => {})
    const { docker, ask } = await openEngine(slow.address)
    const controller = new AbortController()
    const pending = ask('look', () => docker.getContainer('x').inspect(), { signal: controller.signal })
    controller.abort()
    await expect(pending).rejects.toMatchObject({ code: 'interrupted' })
  })
})

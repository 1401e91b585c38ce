import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { faultOf, isGone, isSilent } from './ask.ts'
import { falseEngine, knownEngine } from './engine.fixture.ts'
import { openEngine } from './engine.ts'

describe('an engine', () => {
  it('is described by what it says of itself', async () => {
    await using place = await knownEngine()
    expect(await openEngine(place.address)).toMatchObject({
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

  it('shares no folder when it is in another machine, whatever its address', async () => {
    for (const changed of [
      { OperatingSystem: 'Docker Desktop' },
      { Name: 'elsewhere' },
      { KernelVersion: '0.0.1' },
    ]) {
      await using place = await knownEngine(changed)
      expect((await openEngine(place.address)).sharesFolders).toBe(false)
    }
  })

  it('holds no limit that it says it cannot hold, nor any without rights over the first cgroups', async () => {
    await using partly = await knownEngine({ MemoryLimit: false, CpuCfsQuota: false })
    expect((await openEngine(partly.address)).holds).toEqual({
      memory: false,
      processes: true,
      cpu: false,
    })
    await using rootless = await knownEngine({ SecurityOptions: ['name=rootless'], CgroupVersion: '1' })
    expect(await openEngine(rootless.address)).toMatchObject({
      isRootless: true,
      remapsUsers: true,
      filtersCalls: false,
      holds: { memory: false, processes: false, cpu: false },
    })
    await using none = await knownEngine({ CgroupDriver: 'none' })
    expect((await openEngine(none.address)).holds.memory).toBe(false)
  })

  it('of Podman is told by where it keeps its containers, because its own id is another one each time', async () => {
    const components = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    await using one = await knownEngine({ ID: 'random-1', Name: 'here' }, components)
    await using two = await knownEngine({ ID: 'random-2', Name: 'here' }, components)
    const [first, second] = [await openEngine(one.address), await openEngine(two.address)]
    expect(first).toMatchObject({ product: 'podman', id: 'podman:here:/var/lib/docker' })
    expect(second.id).toBe(first.id)
  })

  it('of Podman has no gVisor, which it names unasked and nobody can choose', async () => {
    const runtimes = { Runtimes: { crun: {}, runc: {}, runsc: {} } }
    const components = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    await using podman = await knownEngine(runtimes, components)
    await using docker = await knownEngine(runtimes)
    expect((await openEngine(podman.address)).runtimes).toEqual(['crun', 'runc'])
    expect((await openEngine(docker.address)).runtimes).toContain('runsc')
  })

  it('is refused when it is none, or not one for Linux', async () => {
    await using windows = await knownEngine({ OSType: 'windows' })
    await expect(openEngine(windows.address)).rejects.toThrow(/windows containers/)
    await using web = await falseEngine((_, response) => response.end('<html>'))
    await expect(openEngine(web.address)).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('that is not there is said to be silent, with the command that mends it', async () => {
    const environment = { CRAIK_ENGINE: `unix://${join(tmpdir(), 'craik-no-such-engine.sock')}` }
    const error = await openEngine(environment).catch((caught: unknown) => caught)
    expect(isSilent(error)).toBe(true)
    expect(error).toMatchObject({ code: 'unavailable', hint: expect.stringMatching(/./) })
  })
})

describe('a question', () => {
  const answering = (status: number, body: string) =>
    knownEngine({}, {}, (_, response) => void response.writeHead(status).end(body))

  it.each([
    [404, 'gone', 'not_found'],
    [409, 'refused', 'conflict'],
    [400, 'refused', 'unavailable'],
    [500, 'refused', 'unavailable'],
    // An engine that goes down.
    [503, 'silent', 'unavailable'],
  ] as const)('that is answered with %i is %s', async (status, fault, code) => {
    await using place = await answering(status, JSON.stringify({ message: 'because\u001b[1m' }))
    const { docker, ask } = await openEngine(place.address)
    const error = await ask('look', () => docker.getContainer('x').inspect()).catch(
      (caught: unknown) => caught,
    )
    expect(error).toMatchObject({ code, message: expect.stringMatching(/could not look: because *\[1m$/) })
    expect(faultOf(error)).toBe(fault)
  })

  it('that is broken off, or not answered in time, leaves open what is there', async () => {
    await using cut = await knownEngine({}, {}, (request) => request.socket.destroy())
    await using slow = await knownEngine({}, {}, () => {})
    for (const { address } of [cut, slow]) {
      const { docker, ask } = await openEngine(address)
      const asked = ask('look', () => docker.getContainer('x').inspect(), { deadlineMs: 200 })
      const error = await asked.catch((caught: unknown) => caught)
      expect([isSilent(error), isGone(error)]).toEqual([true, false])
    }
  })

  it('is given up when its asker leaves', async () => {
    await using slow = await knownEngine({}, {}, () => {})
    const { docker, ask } = await openEngine(slow.address)
    const leaving = new AbortController()
    const asked = ask('look', () => docker.getContainer('x').inspect(), { signal: leaving.signal })
    leaving.abort()
    await expect(asked).rejects.toMatchObject({ code: 'interrupted' })
  })
})

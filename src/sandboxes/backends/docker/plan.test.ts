import { describe, expect, it } from 'vitest'
import { knownEngine } from './engine/engine.fixture.ts'
import { openEngine } from './engine/engine.ts'
import { planContainer } from './plan.ts'

const image = async () => ({ id: 'sha256:1', name: 'craik/sandbox:1' })

async function planFor(
  info: Readonly<Record<string, unknown>>,
  asked: Parameters<typeof planContainer>[1] = {},
  version: Readonly<Record<string, unknown>> = {},
) {
  await using place = await knownEngine(info, version)
  return await planContainer(await openEngine(place.address), asked, image)
}

const REMOTE = { Name: 'elsewhere' }
const GVISOR = { Runtimes: { runc: {}, runsc: {} } }
const ROOTLESS = { SecurityOptions: ['name=seccomp', 'name=rootless'] }

describe.skipIf(process.platform !== 'linux')('what a container is made of', () => {
  it('is the image’s id, and what the engine can do best', async () => {
    expect(await planFor({})).toEqual({
      image: 'sha256:1',
      imageName: 'craik/sandbox:1',
      runtime: 'runc',
      line: 'socket',
      state: 'folder',
      engine: 'ONE',
    })
  })

  it('is reached through a relay where no folder is shared, and has its disk there', async () => {
    expect(await planFor(REMOTE)).toMatchObject({ line: 'relay', state: 'volume' })
  })

  it('has its disk with the engine where users have other numbers outside', async () => {
    expect(await planFor(ROOTLESS)).toMatchObject({ line: 'socket', state: 'volume' })
  })

  it('under gVisor is reached through a relay', async () => {
    expect(await planFor(GVISOR, { runtime: 'runsc' })).toMatchObject({ runtime: 'runsc', line: 'relay' })
  })

  it('is what was asked for where that is possible', async () => {
    expect(await planFor({}, { line: 'relay' })).toMatchObject({ line: 'relay', state: 'folder' })
  })

  it('is refused where it is not, with what to do', async () => {
    for (const [info, asked, message] of [
      [{}, { runtime: 'runsc' }, /has no runtime runsc/],
      [REMOTE, { line: 'socket' }, /shares no folder/],
      [GVISOR, { runtime: 'runsc', line: 'socket' }, /gVisor cannot open host sockets/],
      [{ SecurityOptions: [] }, {}, /does not filter system calls/],
    ] as const)
      await expect(planFor(info, asked)).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringMatching(message),
        hint: expect.stringMatching(/./),
      })
  })

  it('is not gVisor’s where Podman, which names it and runs another, would be asked for it', async () => {
    const podman = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    expect(await planFor(GVISOR, {}, podman)).toMatchObject({ runtime: 'runc', line: 'socket' })
    await expect(planFor(GVISOR, { runtime: 'runsc' }, podman)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('cannot select gVisor'),
      hint: 'leave out --runtime, or use Docker for gVisor',
    })
  })
})

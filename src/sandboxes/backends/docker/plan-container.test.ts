import { describe, expect, it } from 'vitest'
import { serveEngine } from './engine/engine.fixture.ts'
import { openEngine } from './engine/engine.ts'
import { planContainer } from './plan-container.ts'

const image = async () => ({ id: 'sha256:1', name: 'craik/sandbox:1' })

async function planFor(
  info: Readonly<Record<string, unknown>>,
  request: Parameters<typeof planContainer>[1] = {},
  version: Readonly<Record<string, unknown>> = {},
) {
  await using engine = await serveEngine(info, version)
  return await planContainer(await openEngine(engine.address), request, image)
}

const REMOTE = { Name: 'elsewhere' }
const GVISOR = { Runtimes: { runc: {}, runsc: {} } }
const ROOTLESS = { SecurityOptions: ['name=seccomp', 'name=rootless'] }

describe.skipIf(process.platform !== 'linux')('the plan of a container', () => {
  it('uses the image’s id and the engine’s best features', async () => {
    expect(await planFor({})).toEqual({
      image: 'sha256:1',
      imageName: 'craik/sandbox:1',
      runtime: 'runc',
      line: 'socket',
      state: 'folder',
      engine: 'ONE',
    })
  })

  it('uses a relay and an engine volume where no folder is shared', async () => {
    expect(await planFor(REMOTE)).toMatchObject({ line: 'relay', state: 'volume' })
  })

  it('uses an engine volume where users have other numbers on the host', async () => {
    expect(await planFor(ROOTLESS)).toMatchObject({ line: 'socket', state: 'volume' })
  })

  it('uses a relay for gVisor', async () => {
    expect(await planFor(GVISOR, { runtime: 'runsc' })).toMatchObject({ runtime: 'runsc', line: 'relay' })
  })

  it('follows the request where that is possible', async () => {
    expect(await planFor({}, { line: 'relay' })).toMatchObject({ line: 'relay', state: 'folder' })
  })

  it('is refused with a hint where the request is impossible', async () => {
    for (const [info, requested, message] of [
      [{}, { runtime: 'runsc' }, /has no runtime runsc/],
      [REMOTE, { line: 'socket' }, /shares no folder/],
      [GVISOR, { runtime: 'runsc', line: 'socket' }, /gVisor cannot open host sockets/],
      [{ SecurityOptions: [] }, {}, /does not filter system calls/],
    ] as const)
      await expect(planFor(info, requested)).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringMatching(message),
        hint: expect.stringMatching(/./),
      })
  })

  it('refuses gVisor under Podman, which lists it but runs another runtime', async () => {
    const podman = { Components: [{ Name: 'Podman Engine', Version: '4.3.1' }] }
    expect(await planFor(GVISOR, {}, podman)).toMatchObject({ runtime: 'runc', line: 'socket' })
    await expect(planFor(GVISOR, { runtime: 'runsc' }, podman)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('cannot select gVisor'),
      hint: 'leave out --runtime, or use Docker for gVisor',
    })
  })
})

/** The disk of an instance of the Docker backend outlives it, in a folder or in a volume of the engine. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { containerName, labelsOf } from '../../src/sandboxes/backends/docker/container-names.ts'
import { isGone } from '../../src/sandboxes/backends/docker/engine/engine-request.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { InstanceRunner, MIB, RUNNERS, SOCKET_RUNNERS } from './instance-runner.fixture.ts'

const SKIPPED = ENGINE_IS_NEEDED === undefined ? '' : ` (${ENGINE_IS_NEEDED})`

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(RUNNERS)(`as $who, over a $line${SKIPPED}`, (who) => {
  let runner: InstanceRunner
  let craikHome: string

  beforeAll(async () => {
    runner = await InstanceRunner.open(who)
    craikHome = runner.craikHome
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  it('keeps its disk in a volume if the engine cannot share a folder', async () => {
    const spec = runner.specWith({ container: { ...runner.container, state: 'volume' } })
    const lines = await runner.sendOrder({
      verb: 'create',
      craikHome,
      spec,
      run: ['id -un; echo mine >kept; echo ok'],
    })
    expect(lines[1]).toMatchObject({ out: 'agent\nok\n' })
    const again = await runner.sendOrder({ verb: 'create', craikHome, spec, run: ['cat kept'] })
    expect(again[1]).toMatchObject({ out: 'mine\n' })
    expect(again[0]).toMatchObject({ limits: { disk: 'not-enforced' } })
    await runner.sendOrder({ verb: 'sweep', craikHome, spec })
    const volume = runner.engine.docker.getVolume(containerName(spec.id))
    expect((await volume.inspect()).Labels).toMatchObject(labelsOf(spec.id, craikHome))
    await runner.sendOrder({ verb: 'discard', craikHome, spec })
    expect(await runner.engine.ask('look', () => volume.inspect()).catch(isGone)).toBe(true)
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

  it('keeps its disk when it ends, and gets it again', async () => {
    const spec = runner.specWith()
    const write = 'echo mine >/workspace/home/kept; echo mine >kept; echo tmp >/tmp/lost'
    await runner.sendOrder({ verb: 'create', craikHome, spec, run: [write] })
    expect(await runner.findLeftovers(spec)).toEqual([])
    const lines = await runner.sendOrder({
      verb: 'create',
      craikHome,
      spec,
      run: ['cat ~/kept kept; ls /tmp', 'head -c 100M /dev/zero >big; stat -c %s big'],
    })
    expect(lines[1]).toMatchObject({ out: 'mine\nmine\n' })
    const written = Number(lines[2]!.out)
    if (who.uid === 0) expect(written).toBeLessThan(64 * MIB)
    else expect(written).toBe(100 * MIB)
  })
})

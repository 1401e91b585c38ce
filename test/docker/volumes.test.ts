/** An engine without access to the host's folders. The disk is a volume of the engine, and behaves like any disk. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { SandboxBody, SnapshotBody } from '../../src/operator/api/bodies.ts'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SandboxHome } from '../sandbox-home.ts'

/** Exposes the engine as on another host: over TCP, which gives no access to folders. */
async function exposeOverTcp(
  socketPath: string,
): Promise<{ readonly server: Server; readonly address: string }> {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path: socketPath, allowHalfOpen: true })
    near.pipe(far).pipe(near)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { server, address: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'an engine elsewhere', () => {
  let home: SandboxHome
  let server: Server
  beforeAll(async () => {
    const far = await exposeOverTcp(process.env.CRAIK_ENGINE!.replace(/^unix:\/\//, ''))
    server = far.server
    home = await SandboxHome.open({ identity: 'user', backend: 'docker', engine: far.address })
    await home.create(['--name', 'box'])
  })
  afterAll(async () => {
    await home[Symbol.asyncDispose]()
    server.close()
  })

  const inside = async (name: string, script: string) => {
    const ran = await home.run(['sandbox', 'exec', name, '--no-stdin', '--', 'sh', '-c', script])
    expect(ran).toMatchObject({ code: 0 })
    return ran.stdout
  }
  /** Returns the volumes of a sandbox, with the name of the sandbox in place of the engine's name for it. */
  const volumesOf = async (name: string, id: string) => {
    const { docker } = await openEngine({ CRAIK_ENGINE: process.env.CRAIK_ENGINE })
    const { Volumes } = await docker.listVolumes()
    const start = `craik-${id.toLowerCase().replaceAll('_', '-')}`
    const own = Volumes.map(({ Name }) => Name).filter((one) => one.startsWith(start))
    return own.map((one) => one.replace(start, name)).toSorted()
  }
  const idOf = async (name: string) => (await home.json<SandboxBody>(['sandbox', 'show', name])).id

  it('keeps the disk in a volume after a stop', async () => {
    await inside('box', 'echo one > a; mkdir d; ln -s /etc/shadow d/l; ln a d/h; chmod 700 d')
    expect((await home.run(['sandbox', 'stop', 'box'])).code).toBe(0)
    expect((await home.run(['sandbox', 'resume', 'box'])).code).toBe(0)
    expect(await inside('box', 'cat a')).toBe('one\n')
    expect(await volumesOf('box', await idOf('box'))).toEqual(['box', 'box-spill'])
  })

  it('restores a disk in another volume, and leaves no old volume', async () => {
    const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'before'])
    expect(made).toMatchObject({ backend: 'docker', content: { files: 1, links: 2 } })
    await inside('box', 'rm -r d; echo two > a')
    await home.json(['sandbox', 'restore', 'box', 'before'])
    expect(await inside('box', 'cat a; readlink d/l; stat -c "%h %U" a; stat -c %a d; echo x > d/new')).toBe(
      'one\n/etc/shadow\n2 agent\n700\n',
    )
    expect(await volumesOf('box', await idOf('box'))).toEqual(['box-1', 'box-spill'])
  })

  it('snapshots and forks a stopped sandbox, and each has its own disk', async () => {
    expect((await home.run(['sandbox', 'stop', 'box'])).code).toBe(0)
    await home.json(['sandbox', 'fork', 'box', '--name', 'child'])
    expect(await inside('child', 'cat a d/new; echo child > a')).toBe('one\nx\n')
    expect((await home.run(['sandbox', 'resume', 'box'])).code).toBe(0)
    expect(await inside('box', 'cat a')).toBe('one\n')
  })

  it('restores any content of a sandbox, even folders too deep for a path', async () => {
    const nest = (name: string, times: number) =>
      `(i=0; while [ $i -lt ${times} ]; do mkdir ${name} && cd -P ${name} || exit 1; i=$((i+1)); done; echo end > end)`
    await inside(
      'box',
      `mkdir long deep; (cd long; ${nest('d'.repeat(20), 300)}); cd deep; ${nest('d', 300)}`,
    )
    const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'nested'])
    expect(made.content.skipped_for).toContainEqual({ reason: 'too deep', count: expect.any(Number) })
    await home.json(['sandbox', 'restore', 'box', 'nested'])
    expect(await inside('box', 'cat a; ls')).toBe('one\na\nd\ndeep\nlong\n')
    await inside('box', 'rm -r long deep')
  })

  it('refuses Craik’s volumes, which are host folders, and leaves nothing of the attempt', async () => {
    const { code, stderr } = await home.tryToCreate(['--name', 'kept', '--volume', 'tools:.local'])
    expect([code, stderr]).toEqual([ERRORS.unavailable.exit, expect.stringContaining('leave out --volume')])
    expect((await home.run(['sandbox', 'show', 'kept'])).code).toBe(ERRORS.not_found.exit)
    expect(existsSync(join(home.home, 'volumes'))).toBe(false)
  })

  it('has no volume of a deleted sandbox', async () => {
    for (const name of ['child', 'box']) {
      const id = await idOf(name)
      expect(await volumesOf(name, id)).not.toEqual([])
      expect((await home.run(['sandbox', 'delete', name, '--yes'])).code).toBe(0)
      expect(await volumesOf(name, id)).toEqual([])
    }
  })
})

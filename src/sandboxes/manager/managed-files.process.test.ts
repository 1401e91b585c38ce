import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { sendJson } from '../boundary/hostile-sidecar.fixture.ts'
import { caller, eventually, jobId, type ManagerScene, managerScene } from './manager.fixture.ts'
import { createScriptedBackend } from './scripted-instance.fixture.ts'

const upload = (path: string, bytes: number) => ({ upload: jobId(), path, bytes, mode: 0o600 })

describe('files', () => {
  it('are written and read, with the bytes that crossed on their receipts', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { files } = scene.manager
    const content = Buffer.alloc(300_000, 'craik ')
    const answer = await files.write(
      caller(),
      id,
      upload('deep.bin', content.length),
      0,
      Readable.from([content]),
    )
    expect(answer).toEqual({ offset: content.length, committed: true })
    const read = await files.read(caller(), id, 'deep.bin', { offset: 100_000 })
    expect(read.bytes).toBe(content.length)
    expect((await buffer(read.body)).equals(content.subarray(100_000))).toBe(true)
    expect(await findEnd(scene, 'write')).toMatchObject({ status: 'passed' })
    const end = await findEnd(scene, 'read')
    expect(end).toMatchObject({ status: 'passed', metadata: { end: 'whole' } })
    expect(end?.measures).toContainEqual({ name: 'bytes_in', value: 200_000, source: 'observed' })
    expect(JSON.stringify(await scene.receipts())).not.toContain('deep.bin')
  })

  it('an upload that broke off continues under its receipt, also with another manager', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const content = Buffer.alloc(100_000, 'part')
    const what = upload('parts.bin', content.length)
    const part = (from: number, to: number) => Readable.from([content.subarray(from, to)])
    expect(await scene.manager.files.write(caller(), id, what, 0, part(0, 40_000))).toEqual({
      offset: 40_000,
      committed: false,
    })
    expect(await scene.manager.files.getUpload(caller(), id, what.upload)).toMatchObject({ offset: 40_000 })
    await scene.restart()
    const { files } = scene.manager
    expect(await files.getUpload(caller(), id, what.upload)).toMatchObject({ offset: 40_000 })
    expect(await files.write(caller(), id, what, 40_000, part(40_000, 100_000))).toEqual({
      offset: 100_000,
      committed: true,
    })
    // This repeats the request, like a client that did not get the response.
    expect(await files.write(caller(), id, what, 40_000, part(40_000, 100_000))).toMatchObject({
      committed: true,
    })
    expect(readFileSync(inside(scene, id, 'parts.bin')).equals(content)).toBe(true)
    expect(await scene.receipts({ operation: 'write', phase: 'begin' })).toHaveLength(1)
    expect(await scene.receipts({ operation: 'write', phase: 'end' })).toHaveLength(1)
  })

  it('an upload can be queried only by the operator who began it, and an unknown one is undefined', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { files } = scene.manager
    const what = upload('mine', 10)
    await files.write(caller(), id, what, 0, Readable.from([Buffer.from('12345')]))
    await expect(files.getUpload(caller('local-user:mallory'), id, what.upload)).rejects.toMatchObject({
      code: 'denied',
    })
    expect(await files.getUpload(caller(), id, jobId())).toBeUndefined()
  })

  it('an upload that the sandbox forgot is not written again, and ends as indeterminate', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    backend.answer = (stream) => sendJson(stream, 410, { code: 'gone', message: 'not remembered' })
    const what = upload('again', 1)
    const write = () => scene.manager.files.write(caller(), id, what, 0, Readable.from([Buffer.from('x')]))
    await expect(write()).rejects.toMatchObject({ code: 'conflict' })
    expect(await findEnd(scene, 'write')).toMatchObject({
      status: 'indeterminate',
      metadata: { outcome: 'lost' },
    })
  })

  it('a reader that stops early is recorded as such', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    writeFileSync(inside(scene, id, 'large'), Buffer.alloc(5_000_000))
    const { body } = await scene.manager.files.read(caller(), id, 'large', { offset: 0 })
    await new Promise((resolve) => body.once('data', resolve))
    body.destroy()
    const end = await eventually(() => findEnd(scene, 'read'))
    expect(end).toMatchObject({ status: 'failed', metadata: { end: 'left' } })
  })

  it('can be listed, inspected, moved, created, removed and watched', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { files } = scene.manager
    const controller = new AbortController()
    const events = await files.watch(caller(undefined, controller.signal), id, '.', true, 0)
    await files.change(caller(), id, { kind: 'mkdir', path: 'a/b', parents: true })
    await files.change(caller(), id, { kind: 'move', from: 'a/b', to: 'a/c' })
    expect((await files.list(caller(), id, 'a', undefined, 10)).entries).toHaveLength(1)
    expect(await files.stat(caller(), id, 'a/c')).toMatchObject({ type: 'folder' })
    await files.change(caller(), id, { kind: 'remove', path: 'a', recursive: true })
    await expect(files.stat(caller(), id, 'a')).rejects.toMatchObject({ code: 'not_found' })
    const first = await new Promise<Buffer>((resolve) => events.once('data', resolve))
    expect(JSON.parse(first.toString().split('\n')[0]!)).toMatchObject({ seq: expect.any(Number) })
    events.destroy()
    controller.abort()
    expect(await eventually(() => findEnd(scene, 'watch'))).toMatchObject({ status: 'passed' })
    const stats = await scene.receipts({ operation: 'stat', phase: 'end' })
    expect(stats.map(({ status }) => status)).toEqual(['passed', 'failed'])
  })
})

async function findEnd(scene: ManagerScene, operation: string) {
  return (await scene.receipts({ operation, phase: 'end' }))[0]
}

function inside(scene: ManagerScene, id: string, name: string): string {
  return join(scene.folder, 'sandboxes', id, 'data', 'home', 'project', name)
}

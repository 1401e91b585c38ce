/** Single files: read, written, listed, moved, removed and watched. */
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WatchBody } from '../../../src/operator/api/bodies.ts'
import { readFile, writeFile } from '../../../src/sdk/transfer.ts'
import { type GetInstance, NODE_INSIDE } from './instance.ts'

export function fileContract(getInstance: GetInstance): void {
  const put = (path: string, bytes: Buffer, mode = 0o644) =>
    writeFile(getInstance().client, getInstance().box.id, path, {
      bytes: bytes.length,
      mode,
      open: (offset) => Readable.from([bytes.subarray(offset)], { objectMode: false }),
    })
  const get = async (path: string, range: { readonly offset?: number; readonly length?: number } = {}) => {
    const chunks: Buffer[] = []
    for await (const chunk of readFile(getInstance().client, getInstance().box.id, path, range))
      chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  const shell = (script: string) => getInstance().box.exec(['sh', '-c', script])

  describe('files', () => {
    it.each([0, 1, 5 * 1024 * 1024 + 17])('of %i bytes are copied in and out unchanged', async (size) => {
      const bytes = randomBytes(size)
      await put('carried', bytes, 0o750)
      expect((await get('carried')).equals(bytes)).toBe(true)
      expect((await shell('stat -c "%a %s" carried')).stdout).toBe(`750 ${size}\n`)
    })

    it('can be read in any part', async () => {
      const bytes = randomBytes(300_000)
      await put('ranged', bytes)
      const range = fc.record({ offset: fc.nat(300_000), length: fc.nat(310_000) })
      const property = fc.asyncProperty(range, async ({ offset, length }) => {
        expect(
          (await get('ranged', { offset, length })).equals(bytes.subarray(offset, offset + length)),
        ).toBe(true)
      })
      await fc.assert(property, { numRuns: 20 })
      await expect(get('ranged', { offset: 300_001 })).rejects.toMatchObject({ code: 'usage' })
    })

    it('replace an existing file as a whole, and can have any name', async () => {
      const name = 'näme with\nnewline 😀'
      await put(name, Buffer.from('a longer first version'))
      await put(name, Buffer.from('second'))
      expect((await get(name)).toString()).toBe('second')
      expect((await getInstance().box.exec(['cat', name])).stdout).toBe('second')
    })

    it('are refused when they are missing, in a missing folder, or no regular files', async () => {
      await shell('mkdir -p a-folder; mkfifo a-pipe')
      await expect(get('nonesuch')).rejects.toMatchObject({ code: 'not_found' })
      await expect(put('nonesuch/file', Buffer.from('x'))).rejects.toMatchObject({ code: 'not_found' })
      await expect(get('a-folder')).rejects.toMatchObject({ code: expect.stringMatching(/usage|conflict/) })
      await expect(get('a-pipe')).rejects.toMatchObject({ code: expect.stringMatching(/usage|conflict/) })
      await expect(put('a-folder', Buffer.from('x'))).rejects.toMatchObject({ code: 'conflict' })
      await expect(put('/usr/file', Buffer.from('x'))).rejects.toMatchObject({ code: 'refused_inside' })
    })

    it('are distinguished by their kind', async () => {
      // The process is killed, so that its socket file stays.
      const socket = `require('net').createServer().listen('kinds/socket', () => process.kill(process.pid, 'SIGKILL'))`
      await shell('mkdir kinds; cd kinds; echo 12345 > file; mkdir folder; ln -s nowhere link; mkfifo fifo')
      await getInstance().box.exec([NODE_INSIDE, '-e', socket])
      const { client, box } = getInstance()
      const stat = (path: string) => client.files.stat(box.id, path)
      expect(await stat('kinds/file')).toMatchObject({
        type: 'file',
        bytes: 6,
        modified_at_ms: expect.any(Number),
      })
      expect(await stat('kinds/folder')).toMatchObject({ type: 'folder' })
      expect(await stat('kinds/link')).toMatchObject({ type: 'link', target: 'nowhere' })
      expect(await stat('kinds/fifo')).toMatchObject({ type: 'fifo' })
      expect(await stat('kinds/socket')).toMatchObject({ type: 'socket' })
      expect(await stat('/dev/null')).toMatchObject({ type: 'device' })
      await expect(stat('kinds/none')).rejects.toMatchObject({ code: 'not_found' })
    })

    it('are listed in pages, each one once and in order', async () => {
      await shell('mkdir many; cd many; for i in $(seq -w 250); do : > f$i; done')
      const { client, box } = getInstance()
      const names: string[] = []
      let pages = 0
      let after: string | undefined
      do {
        const page = await client.files.list(box.id, 'many', { limit: 100, ...(after && { after }) })
        names.push(...page.entries.map(({ path }) => path.split('/').at(-1)!))
        after = page.next
        pages++
      } while (after !== undefined)
      expect(pages).toBe(3)
      expect(names).toEqual(Array.from({ length: 250 }, (_, n) => `f${String(n + 1).padStart(3, '0')}`))
    })

    it('can be moved, removed and created', async () => {
      const { client, box } = getInstance()
      await client.files.mkdir(box.id, 'made/deep/down', { parents: true })
      await put('made/deep/down/file', Buffer.from('moved'))
      await client.files.move(box.id, 'made/deep/down/file', 'made/file')
      // Moves it to another file system.
      await client.files.move(box.id, 'made/file', '/tmp/moved-file')
      expect((await get('/tmp/moved-file')).toString()).toBe('moved')
      await expect(client.files.remove(box.id, 'made')).rejects.toMatchObject({ code: 'conflict' })
      await expect(client.files.mkdir(box.id, 'made')).rejects.toMatchObject({ code: 'conflict' })
      await client.files.remove(box.id, 'made', { recursive: true })
      await expect(client.files.stat(box.id, 'made')).rejects.toMatchObject({ code: 'not_found' })
      await expect(client.files.remove(box.id, 'made')).rejects.toMatchObject({ code: 'not_found' })
      await expect(client.files.move(box.id, 'made', 'b')).rejects.toMatchObject({ code: 'not_found' })
    })

    it('can be watched, with their changes in order', async () => {
      const { client, box } = getInstance()
      await client.files.mkdir(box.id, 'watched')
      const controller = new AbortController()
      const changes = client.files.watch(box.id, 'watched', { recursive: true, signal: controller.signal })
      const reported: WatchBody[] = []
      const next = async () => {
        const { value } = await changes.next()
        reported.push(value as WatchBody)
        return value as WatchBody
      }
      // The first event of a watch states its starting point.
      expect(await next()).toMatchObject({ type: 'gap' })
      await shell('cd watched; mkdir sub; sleep 0.2; echo a > sub/file; sleep 0.2; rm sub/file')
      while (!reported.some(({ type, path }) => type === 'removed' && path.endsWith('sub/file'))) await next()
      controller.abort()
      await changes.return(undefined).catch(() => {})
      const of = (name: string) => reported.filter(({ path }) => path.endsWith(name)).map(({ type }) => type)
      expect(of('watched/sub')[0]).toBe('created')
      expect(of('sub/file')[0]).toBe('created')
      expect(of('sub/file').at(-1)).toBe('removed')
      const numbers = reported.map(({ seq }) => seq)
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
    })
  })
}

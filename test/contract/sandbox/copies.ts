/** Copies of folders into and out of a sandbox are identical to their source. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { tarIn, tarOut } from '../../../src/sdk/transfer.ts'
import { type GetInstance, newJobId } from './instance.ts'

export function copyContract(getInstance: GetInstance): void {
  describe('a folder tree', () => {
    it('of 1,000 files with links, modes and odd names is identical after a copy in and out', async () => {
      const { home, client, box } = getInstance()
      const [from, to] = [home.path('tree'), home.path('tree-back')]
      plant(from)
      mkdirSync(to)
      await client.files.mkdir(box.id, 'tree')
      const packing = spawn('tar', ['-C', from, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
      const entered = await tarIn(client, box.id, 'tree', packing.stdout, { jobId: newJobId() })
      expect(entered.result).toMatchObject({ outcome: 'exited', exitCode: 0 })

      const unpacking = spawn('tar', ['-C', to, '-x', '-p', '--no-same-owner'], {
        stdio: ['pipe', 'ignore', 'inherit'],
      })
      // `tar` may exit before it has read everything, because an archive ends with padding.
      unpacking.stdin.on('error', () => {})
      const unpacked = new Promise((done) => unpacking.once('close', done))
      const left = await tarOut(client, box.id, 'tree', {
        jobId: newJobId(),
        onStdout: (chunk) => new Promise((done) => void unpacking.stdin.write(chunk, () => done())),
      })
      unpacking.stdin.end()
      expect(await unpacked).toBe(0)
      expect(left).toMatchObject({ lostBytes: 0, result: { outcome: 'exited', exitCode: 0 } })
      // The archive may contain the folder itself.
      const back = readdirSync(to).length === 1 ? join(to, 'tree') : to
      expect(manifest(back)).toEqual(manifest(from))
      const counted = await box.exec(['sh', '-c', 'find tree -type f | wc -l'])
      expect(counted.stdout).toBe('1003\n')
    })

    it('from invalid archive data is refused, and leaves no partial files', async () => {
      const { client, box } = getInstance()
      const junk = Readable.from([Buffer.alloc(4096, 'no archive at all')], { objectMode: false })
      const { result } = await tarIn(client, box.id, 'junk', junk, { jobId: newJobId() })
      expect(result).not.toMatchObject({ outcome: 'exited', exitCode: 0 })
      expect((await box.exec(['sh', '-c', 'ls -A junk 2>/dev/null'])).stdout).toBe('')
    })

    it('of a missing folder is reported as a failure', async () => {
      const { client, box } = getInstance()
      const { result } = await tarOut(client, box.id, 'nonesuch', { jobId: newJobId() })
      expect(result).not.toMatchObject({ outcome: 'exited', exitCode: 0 })
    })
  })
}

function plant(folder: string): void {
  for (const sub of ['src', 'empty', 'déjà vu 😀/tief', 'private'])
    mkdirSync(join(folder, sub), { recursive: true })
  for (let n = 0; n < 1000; n++) writeFileSync(join(folder, `src/file-${n}`), `${n}\n`.repeat(n % 50))
  writeFileSync(join(folder, 'déjà vu 😀/tief/日本語.txt'), 'unicode')
  writeFileSync(join(folder, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
  writeFileSync(join(folder, 'large'), Buffer.alloc(3 * 1024 * 1024, 'large'))
  symlinkSync('src/file-1', join(folder, 'link'))
  symlinkSync('src', join(folder, 'link-to-folder'))
  symlinkSync('does/not/exist', join(folder, 'dangling'))
  chmodSync(join(folder, 'private'), 0o700)
}

/** Maps each name to its kind, mode and content. */
function manifest(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return Object.fromEntries(
    names.map((name) => {
      const path = join(folder, name)
      const stats = lstatSync(path)
      if (stats.isSymbolicLink()) return [name, `link ${readlinkSync(path)}`]
      const mode = (stats.mode & 0o777).toString(8)
      if (stats.isDirectory()) return [name, `folder ${mode}`]
      return [name, `file ${mode} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`]
    }),
  )
}

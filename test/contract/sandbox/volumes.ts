/**
 * Volumes: they outlive their sandbox, belong to one sandbox at a time, and give it no access to the rest of the host.
 */
import { chownSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../../../src/errors.ts'
import type { VolumeBody } from '../../../src/operator/api/bodies.ts'
import { findVolumeFault } from '../../../src/sandboxes/volumes/verify-volumes.ts'
import { type LiveSandbox, USER_UID } from '../../sandbox-home.ts'
import type { GetInstance } from './instance.ts'

const LOCAL = '/workspace/home/.local'

export function volumeContract(getInstance: GetInstance): void {
  const folderOf = (name: string) => join(getInstance().home.home, 'volumes', name)
  const create = (name: string, ...args: readonly string[]) =>
    getInstance().home.create(['--volume', `${name}:.local`, ...args])
  const sh = (box: LiveSandbox, script: string) => box.exec(['sh', '-c', script])
  const remove = (...names: readonly string[]) => getInstance().home.json(['volume', 'delete', ...names])

  describe('a volume', () => {
    it('is mounted in the next sandbox with that sandbox’s owner, never root', async () => {
      const { home, client } = getInstance()
      const first = await home.create(['--volume', 'kept:.local', '--volume', 'deep:.config/a/b'])
      expect(first.body).toMatchObject({
        volumes: [
          { name: 'kept', at: '.local' },
          { name: 'deep', at: '.config/a/b' },
        ],
        enforced: { disk: 'not-enforced' },
      })
      const fill = `cd ~; umask 077; echo tool > .local/tool; mkdir .local/bin; ln -s /etc/passwd .local/link;
        echo deep > .config/a/b/file; echo gone > .config/beside; stat -c %u .local .config/a/b .local/tool`
      const own = (await sh(first, 'id -u')).stdout
      expect(await sh(first, fill)).toMatchObject({ code: 0, stdout: own.repeat(3) })
      expect(ownersIn(folderOf('kept'))).toEqual([first.body.host_uid])
      await first.delete()

      const second = await home.create(['--volume', 'kept:.local', '--volume', 'deep:.config/a/b'])
      if (home.identity === 'root') expect(second.body.host_uid).not.toBe(first.body.host_uid)
      const look =
        'cd ~; cat .local/tool .config/a/b/file; readlink .local/link; ls .config; echo more >> .local/tool'
      expect((await sh(second, look)).stdout).toBe('tool\ndeep\n/etc/passwd\na\n')
      expect(ownersIn(folderOf('kept'))).toEqual([second.body.host_uid])
      expect(lstatSync('/etc/passwd').uid).toBe(0)

      await client.sandboxes.stop(second.id)
      await client.sandboxes.resume(second.id)
      expect((await sh(second, 'cat ~/.local/tool')).stdout).toBe('tool\nmore\n')
      await second.delete()
      await remove('kept', 'deep')
      expect(readdirSync(join(home.home, 'volumes'))).toEqual([])
    })

    it('is the folder itself, writable, and the only folder of the host in the home', async () => {
      const box = await create('seen')
      const folder = folderOf('seen')
      const { dev, ino } = lstatSync(folder, { bigint: true })
      const expected = { name: 'seen', at: '.local', folder, identity: `${dev}:${ino}` }
      const pid = firstProcess(box)
      expect(findVolumeFault(pid, [expected])).toBeUndefined()
      expect(findVolumeFault(pid, [{ ...expected, identity: `${dev}:1` }])).toMatch('is not the volume')
      expect(findVolumeFault(pid, [{ ...expected, at: '.config' }])).toBeDefined()
      expect(findVolumeFault(pid, [expected], ['noexec'])).toMatch('not mounted noexec')
      expect(findVolumeFault(pid, [])).toMatch('another mounted folder')
      await box.delete()
      await remove('seen')
    })

    it('belongs to one sandbox at a time, stopped or not, and cannot be deleted while in use', async () => {
      const { home, client } = getInstance()
      const box = await create('taken', '--name', 'holder')
      await client.sandboxes.stop(box.id)
      const second = await home.tryToCreate(['--volume', 'taken:elsewhere'])
      expect([second.code, second.stderr]).toEqual([ERRORS.conflict.exit, expect.stringContaining('holder')])
      const refused = await home.run(['volume', 'delete', 'taken'])
      expect([refused.code, refused.stderr]).toEqual([
        ERRORS.conflict.exit,
        expect.stringContaining('holder'),
      ])
      const list = () => home.json<VolumeBody[]>(['volume', 'list', '--format', 'json'])
      expect(await list()).toMatchObject([{ name: 'taken', used_by: 'holder' }])
      await box.delete()
      expect(await list()).toMatchObject([{ name: 'taken', used_by: null }])
      await remove('taken')
      expect(await list()).toEqual([])
      expect((await home.run(['volume', 'delete', 'taken'])).code).toBe(ERRORS.not_found.exit)
    })

    it('is not mounted over a link that the sandbox created, and the next sandbox gets it whole', async () => {
      const { home, client } = getInstance()
      const box = await home.create(['--volume', 'linked:.config/llm'])
      const target = home.workspace('target', { 'llm/file': 'theirs' })
      const plant = `cd ~; echo mine > .config/llm/file; mv .config aside; ln -s ${target} .config; readlink .config`
      expect((await sh(box, plant)).stdout.trim()).toBe(target)
      await client.sandboxes.stop(box.id)
      await expect(client.sandboxes.resume(box.id)).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('cannot mount the volume linked'),
        hint: expect.stringContaining('craik rebuild'),
      })
      expect(await client.sandboxes.get(box.id)).toMatchObject({ state: 'stopped' })
      expect(readdirSync(target)).toEqual(['llm'])
      await box.delete()
      expect(readFileSync(join(folderOf('linked'), 'file'), 'utf8')).toBe('mine\n')
      const again = await home.create(['--volume', 'linked:.config/llm'])
      expect((await sh(again, 'cat ~/.config/llm/file')).stdout).toBe('mine\n')
      await again.delete()
      await remove('linked')
    })

    it('cannot be moved or replaced by the sandbox, and an exchanged folder in it never leads the host elsewhere', async () => {
      const { home } = getInstance()
      const outside = home.path('outside')
      mkdirSync(outside)
      writeFileSync(join(outside, 'large'), Buffer.alloc(32 * 1024 * 1024))
      chownSync(join(outside, 'large'), home.uid, home.uid)
      const before = lstatSync(join(outside, 'large'), { bigint: true })
      const box = await create('hostile')
      expect((await sh(box, `mv ${LOCAL} ~/moved || rm -rf ${LOCAL} || rmdir ${LOCAL}`)).code).not.toBe(0)
      const exchange = `cd ${LOCAL}; mkdir real; ln -s ${outside} link
        while :; do mv real x && mv link real && mv real link && mv x real; done`
      await home.json(['sandbox', 'exec', box.id, '--detach', '--', 'sh', '-c', exchange])
      for (let i = 0; i < 5; i++) {
        const [found] = await home.json<VolumeBody[]>(['volume', 'list', '--format', 'json'])
        expect(found!.size_bytes).toBeLessThan(16 * 1024 * 1024)
      }
      await box.delete()
      const next = await create('hostile')
      expect(ownersIn(folderOf('hostile'))).toEqual([next.body.host_uid])
      await next.delete()
      await remove('hostile')
      const { uid, mtimeNs, size } = lstatSync(join(outside, 'large'), { bigint: true })
      expect({ uid, mtimeNs, size }).toEqual({
        uid: before.uid,
        mtimeNs: before.mtimeNs,
        size: before.size,
      })
    })

    it('is in no snapshot: a fork has none, and a restored sandbox keeps the present content of its own', async () => {
      const { home, client } = getInstance()
      const box = await create('apart', '--name', 'apart')
      await sh(box, 'echo before > ~/.local/file; echo before > file')
      const snapshot = await client.snapshots.make(box.id, { name: 'of-apart' })
      await sh(box, 'echo after > ~/.local/file; echo after > file')
      await home.json(['sandbox', 'fork', box.id, '--name', 'forked', '--format', 'json'])
      const forked = await client.sandboxes.get('forked')
      expect(forked.volumes).toEqual([])
      const look = 'cat file; ls -A ~/.local'
      const { stdout } = await client.sandboxes.exec('forked', { argv: ['sh', '-c', look] })
      expect(Buffer.from(stdout.data, stdout.encoding).toString()).toBe('after\n')
      await client.snapshots.restore(box.id, snapshot.id)
      expect((await sh(box, 'cat file ~/.local/file')).stdout).toBe('before\nafter\n')
      await client.sandboxes.delete('forked')
      await box.delete()
      await client.snapshots.delete(snapshot.id)
      await remove('apart')
    })

    it('belongs to the workspace’s owner when the sandbox works in place', async () => {
      const { home } = getInstance()
      const folder = home.workspace('with-volume', { 'readme.txt': 'hello\n' })
      const box = await create('beside', '--workspace', folder, '--in-place')
      expect((await sh(box, `cat readme.txt; echo x > ${LOCAL}/file`)).stdout).toBe('hello\n')
      expect(ownersIn(folderOf('beside'))).toEqual([USER_UID])
      await box.delete()
      await remove('beside')
    })

    it.each(['kept', 'kept:', ':.local', 'kept:/etc', 'kept:../up', 'kept:project/x', 'Kept:.local'])(
      'is refused when it is requested as %s',
      async (text) => {
        const { code, stderr } = await getInstance().home.tryToCreate(['--volume', text])
        expect([code, stderr]).toEqual([ERRORS.usage.exit, expect.stringMatching(/^craik: .+\n {2}.+\n$/)])
      },
    )
  })
}

/** Returns the owners of everything in a folder, links and the folder included. Node's own recursion follows links. */
function ownersIn(path: string): number[] {
  const stats = lstatSync(path)
  const below = stats.isDirectory() ? readdirSync(path).flatMap((name) => ownersIn(join(path, name))) : []
  return [...new Set([stats.uid, ...below])]
}

/** Returns the host's pid of the sandbox's first process. Only that process has the volume mounted in the home. */
function firstProcess({ body }: LiveSandbox): number {
  const [volume] = body.volumes
  const isIt = (pid: string) => {
    try {
      const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
      const ids = /^NSpid:\t(.+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]?.split('\t')
      return mounts.includes(`/volumes/${volume!.name} ${LOCAL} `) && ids?.at(-1) === '1'
    } catch {
      return false
    }
  }
  const found = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isIt(name))
  if (found.length !== 1) throw new Error(`there are ${found.length} first processes with that volume`)
  return Number(found[0])
}

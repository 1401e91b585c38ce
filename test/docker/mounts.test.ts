/** Host folders in containers: read-only, only by grant, and only the chosen folders. */
import { execFileSync } from 'node:child_process'
import { lstatSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { CreateBody } from '../../src/operator/api/requests.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe, EVERY_IDENTITY, SandboxHome, USER_UID } from '../sandbox-home.ts'

const COMPLETE_REQUEST = {
  backend: 'docker',
  network: 'none',
  mounts: [],
  environment: {},
  workspace: { mode: 'copy' },
  container: { image: 'craik' },
} as const satisfies CreateBody

interface Denied {
  readonly kind: string
  readonly decision?: { readonly rule: string }
}

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(EVERY_IDENTITY.filter(canBe))(
  `${ENGINE_IS_NEEDED ?? 'a container'} created by %s`,
  (identity) => {
    const open = () => SandboxHome.open({ identity, backend: 'docker' })

    it('reads its mounted folders, and can change nothing in them in any way', async () => {
      await using home = await open()
      const folder = home.workspace('library', { 'book.txt': 'chapter one\n', 'deep/er.txt': 'two\n' })
      const before = takeFingerprint(folder)
      const sandbox = await home.create(['--mount', `${folder}:books`, '--mount', folder])
      expect(sandbox.body.mounts).toEqual([
        { folder, at: '/mnt/books', mode: 'read_only' },
        { folder, at: '/mnt/library', mode: 'read_only' },
      ])
      expect((await sandbox.exec(['cat', '/mnt/books/book.txt', '/mnt/library/deep/er.txt'])).stdout).toBe(
        'chapter one\ntwo\n',
      )
      // For the owner of the folder, only the mount prevents writing.
      const held =
        identity === 'user' ? /Read-only file system/ : /Read-only file system|[Pp]ermission denied/
      for (const attempt of [...WRITES, ...MOUNTS]) {
        const refusal = MOUNTS.includes(attempt) ? REFUSED : held
        const { code, stderr } = await sandbox.exec(['sh', '-c', attempt])
        expect(code, attempt).not.toBe(0)
        expect(stderr, attempt).toMatch(refusal)
      }
      expect(takeFingerprint(folder)).toEqual(before)
      await home.json(['receipts', 'verify', '--replay', '--format', 'json'])
    })

    it('keeps its mounts after a stop and a resume, and in a fork', async () => {
      await using home = await open()
      const folder = home.workspace('library', { 'book.txt': 'chapter one\n' })
      const sandbox = await home.create(['--mount', folder, '--name', 'first'])
      const look = async (id: string) => {
        const { stdout } = await home.run(['sandbox', 'exec', id, '--', 'sh', '-c', READ_AND_TOUCH])
        return stdout
      }
      await home.json(['sandbox', 'stop', 'first', '--format', 'json'])
      await home.json(['sandbox', 'resume', 'first', '--format', 'json'])
      expect(await look('first')).toBe('chapter one\nread-only\n')
      await home.json(['sandbox', 'fork', 'first', '--name', 'second', '--format', 'json'])
      expect(await look('second')).toBe('chapter one\nread-only\n')
      expect((await home.client().sandboxes.get('second')).mounts).toEqual(sandbox.body.mounts)
    })

    it('gets no folder behind a link, of the system, of a home, or with a socket or pipe of the host', async () => {
      await using home = await open()
      const folder = home.workspace('library', { 'deep/book.txt': 'x' })
      symlinkSync(folder, home.path('link'))
      home.workspace('piped')
      execFileSync('mkfifo', [home.path('piped/pipe')])
      const server = createServer()
      home.workspace('open')
      await new Promise<void>((done) => server.listen(home.path('open/a.sock'), done))
      try {
        for (const [requested, why] of [
          [home.path('link'), /behind a symbolic link/],
          [`${home.path('link')}/deep`, /behind a symbolic link/],
          ['/:root', /system folder|home folder/],
          ['/etc', /system folder/],
          ['/usr', /system folder/],
          ['/run', /system folder/],
          ['/home:homes', /system folder/],
          [home.home, /Craik’s own home/],
          [home.folder, /Craik’s own home|home folder/],
          [home.path('open'), /sockets or pipes of the host: a\.sock/],
          [home.path('piped'), /sockets or pipes of the host: pipe/],
          [home.path('missing'), /cannot be opened as a folder/],
        ] as const) {
          const { code, stderr } = await home.tryToCreate(['--mount', requested])
          expect(code, `${requested}: ${stderr}`).toBe(2)
          expect(stderr, requested).toMatch(why)
        }
        const climbing = [{ folder: `${folder}/../library`, at: '/mnt/a', mode: 'read_only' }] as const
        await expect(
          home.client().sandboxes.create({ ...COMPLETE_REQUEST, mounts: [...climbing] }),
        ).rejects.toMatchObject({
          code: 'usage',
        })
        expect(await home.client().sandboxes.list()).toEqual([])
      } finally {
        await new Promise((done) => server.close(done))
      }
    })

    it('is denied, with a receipt, if its request is incomplete or asks for something unsafe', async () => {
      await using home = await open()
      const { sandboxes } = home.client()
      const folder = home.workspace('library')
      const mount = { folder, at: '/mnt/a', mode: 'read_write' } as const
      const { network: _, ...noNetwork } = COMPLETE_REQUEST
      const { mounts: __, ...noMounts } = COMPLETE_REQUEST
      const { environment: ___, ...noEnvironment } = COMPLETE_REQUEST
      const { workspace: ____, ...noWorkspace } = COMPLETE_REQUEST
      for (const [body, rule, field] of [
        [noNetwork, 'sandbox.request_incomplete', 'network'],
        [noMounts, 'sandbox.request_incomplete', 'mounts'],
        [noEnvironment, 'sandbox.request_incomplete', 'environment'],
        [noWorkspace, 'sandbox.request_incomplete', 'workspace'],
        [{ ...COMPLETE_REQUEST, container: {} }, 'sandbox.request_incomplete', 'container.image'],
        [{ ...COMPLETE_REQUEST, network: 'bridge' }, 'sandbox.network', 'network'],
        [{ ...COMPLETE_REQUEST, network: 'restricted' }, 'sandbox.network', 'network'],
        [{ ...COMPLETE_REQUEST, mounts: [mount] }, 'sandbox.mount', 'mounts'],
      ] as const) {
        const error = await sandboxes.create(body as unknown as CreateBody).catch((reason: unknown) => reason)
        expect(error).toMatchObject({ code: 'denied', details: { rule, fields: [field] } })
        const { receipt_id } = (error as { details: { receipt_id: string } }).details
        const receipt = await home.json<Denied>(['receipts', 'show', receipt_id, '--format', 'json'])
        expect(JSON.stringify(receipt)).toContain(rule)
      }
      expect(await sandboxes.list()).toEqual([])
    })

    it('gets a folder only by grant, and the denial names the command for it', async () => {
      await using home = await open()
      const { sandboxes } = home.client()
      const folder = home.workspace('project', { 'a.txt': 'a\n' })
      const shown = { folder, at: '/mnt/project', mode: 'read_only' } as const
      const grant = ['grant', 'create', '--any-scope', '--format', 'json']
      await home.json([...grant, '--capability', 'sandbox.create', '--operation', 'create', '--uses', '2'])
      for (const [body, operation] of [
        [{ ...COMPLETE_REQUEST, workspace: { mode: 'in-place', folder } }, 'write'],
        [{ ...COMPLETE_REQUEST, mounts: [shown] }, 'read'],
      ] as const) {
        const request = body as unknown as CreateBody
        const error = (await sandboxes.create(request).catch((reason: unknown) => reason)) as { hint: string }
        expect(error).toMatchObject({ code: 'denied', details: { missing: ['capability_grant'] } })
        const [, typed] = /craik (grant create .*?) {2}\(receipt/.exec(error.hint)!
        expect(typed).toContain(`--operation ${operation}`)
        await home.json([...typed!.split(' '), '--format', 'json'])
        const { id } = await sandboxes.create(request)
        await sandboxes.delete(id)
      }
      expect(readdirSync(folder)).toEqual(['a.txt'])
      expect(lstatSync(join(folder, 'a.txt')).uid).toBe(USER_UID)
      await home.json(['receipts', 'verify', '--replay', '--format', 'json'])
    })
  },
)

const READ_AND_TOUCH = 'cat /mnt/library/book.txt; touch /mnt/library/new 2>/dev/null || echo read-only'

const MOUNT_CALL = process.arch === 'arm64' ? 40 : 165
const REMOUNT_BIND = 0x20 | 0x1000

const WRITES = [
  'echo more >> /mnt/books/book.txt',
  ': > /mnt/books/new.txt',
  'mkdir /mnt/books/folder',
  'rm /mnt/books/book.txt',
  'mv /mnt/books/book.txt /mnt/books/other.txt',
  'ln /mnt/books/book.txt /mnt/books/twin.txt',
  'chmod 777 /mnt/books/book.txt',
  'touch /mnt/books/deep/er.txt',
  ': > /mnt/beside.txt',
]

const REFUSED = /not permitted|[Pp]ermission denied|must be superuser/
const MOUNTS = [
  'mount -o remount,rw /mnt/books',
  'mount -o remount,bind,rw /mnt/books',
  'mount --bind /mnt/books /tmp',
  'umount /mnt/books',
  'unshare -Urm sh -c "mount -o remount,bind,rw /mnt/books"',
  // Makes the system call directly, because `mount` checks its own user first.
  `perl -e 'my ($n, $at) = ("none", "/mnt/books"); syscall(${MOUNT_CALL}, $n, $at, 0, ${REMOUNT_BIND}, 0) == 0 or die "$!"'`,
]

/** Returns everything that a change would show in. */
function takeFingerprint(folder: string): readonly unknown[] {
  return [folder, ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()].map((name) => {
    const path = name === folder ? folder : join(folder, name)
    const { mode, uid, gid, size, mtimeNs, ctimeNs } = lstatSync(path, { bigint: true })
    const content = lstatSync(path).isFile() ? readFileSync(path, 'utf8') : undefined
    return [name, mode, uid, gid, size, mtimeNs, ctimeNs, content].map(String)
  })
}

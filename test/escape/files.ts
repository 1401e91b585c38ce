/** Nothing of the host can be written, nor read where the sandbox's user may not, whatever lies in the workspace. */
import { chmodSync, copyFileSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { run } from '../craik.ts'
import { type LiveSandbox, USER_UID } from '../sandbox-home.ts'
import { expectToWork, IS_ROOT, type Scenario, tryIn } from './scene.ts'

const WRITE = `
  os.makedirs(os.path.dirname(args[0]), exist_ok=True)
  open(args[0], 'w').write('written from inside')`
const READ = "open(args[0], 'rb').read(1)"
const OPEN = 'os.close(os.open(args[0], os.O_RDONLY))'
/** A device that no sandbox has of its own. Whoever opens it has done nothing yet. */
const LOOP_CONTROL = ['c', '10', '237']
/** A program that runs with the rights of its owner says so. */
const BECOME_ROOT = `
  import subprocess
  if subprocess.run([args[0], '-u'], stdout=subprocess.PIPE).stdout != b'0\\n': raise OSError(errno.EPERM, 'not root')`
const FIND_NAME = `
  if args[0] == os.uname().nodename: return
  for path in ['/etc/hostname', '/proc/sys/kernel/hostname']:
      try: text = open(path).read()
      except OSError: continue
      if args[0] in text.split(): return
  raise OSError(errno.ENOENT, 'not found')`
const OPEN_UP = `
  os.chmod(args[0], 0o755)
  open(args[0], 'rb').read(1)`

const READ_ONLY = [
  '/usr/marker',
  '/etc/marker',
  '/marker',
  '/opt/craik/marker',
  '/opt/craik/compile-cache/marker',
  '/var/marker',
  '/dev/marker',
  '/home/marker',
  '/proc/marker',
]
/** With the socket of the host; over a relay it is an empty file system of the sandbox's own. */
const SOCKET_FOLDER = '/run/craik/marker'
const REFUSED = ['failed EROFS', 'failed EACCES', 'failed ENOENT', 'failed EPERM']

export const files: Scenario = (scene) => {
  it('no program inside writes to the host: not where everybody may, not into the system', async () => {
    const { box, home, outside } = scene()
    await expectToWork('everything', WRITE, [join(outside, 'free')])
    expect(existsSync(join(outside, 'free'))).toBe(true)
    // Of that name it may have one of its own, in its own temporary folder.
    await tryIn(box, WRITE, [join(outside, 'held')])
    expect(existsSync(join(outside, 'held'))).toBe(false)
    for (const path of [...READ_ONLY, ...(home.line === 'socket' ? [SOCKET_FOLDER] : [])]) {
      expect(REFUSED, path).toContain(await tryIn(box, WRITE, [path]))
      expect(existsSync(path), path).toBe(false)
    }
    expect(existsSync(SOCKET_FOLDER)).toBe(false)
  })

  it('no program inside sees a file of the host that everybody may read', async () => {
    const { box, home, outside } = scene()
    writeFileSync(join(outside, 'readable'), 'x')
    await expectToWork('everything', READ, [join(outside, 'readable')])
    for (const path of [join(outside, 'readable'), '/etc/shadow', '/root', home.home])
      expect(await tryIn(box, READ, [path]), path).toMatch(/^failed (ENOENT|EACCES)$/)
  })

  it('no program inside learns what the host is called', async () => {
    const { box, home } = scene()
    await expectToWork('everything', FIND_NAME, [hostname()])
    // Every sandbox has the same name, which may happen to be the host's too.
    const found = hostname() === 'sandbox' ? 'succeeded' : 'failed ENOENT'
    expect(await tryIn(box, FIND_NAME, [hostname()])).toBe(found)
    // An engine puts a file of its own there, with the name that the sandbox has; Podman does not end the line.
    expect(await box.exec(['cat', '/etc/hostname'])).toMatchObject(
      home.kind === 'container' ? { code: 0, stdout: expect.stringMatching(/^sandbox\n?$/) } : { code: 1 },
    )
  })

  it.skipIf(!IS_ROOT)(
    'no program inside makes the sidecar’s Node readable (root makes the one that can be)',
    async () => {
      const { box, outside } = scene()
      const node = join(outside, 'node')
      writeFileSync(node, 'x')
      chmodSync(node, 0o111)
      await run('chown', [String(USER_UID), node])
      await expectToWork('everything', OPEN_UP, [node])
      expect(await tryIn(box, OPEN_UP, ['/opt/craik/node'])).toMatch(/^failed (EROFS|EPERM)$/)
      expect(await tryIn(box, READ, ['/opt/craik/node'])).toBe('failed EACCES')
    },
  )

  describe.skipIf(!IS_ROOT)(
    'in a workspace in place with things of root’s in it (that only root can put there)',
    () => {
      let workspace: string
      let box: LiveSandbox
      beforeAll(async () => {
        const { home } = scene()
        workspace = home.workspace('with-things-of-root')
        const secret = join(workspace, 'secret')
        writeFileSync(secret, 'of root only', { mode: 0o600 })
        const id = join(workspace, 'id')
        copyFileSync('/usr/bin/id', id)
        chmodSync(id, 0o4755)
        await run('mknod', ['-m', '666', join(workspace, 'device'), ...LOOP_CONTROL])
        box = await home.create(['--in-place', '--workspace', workspace])
      })

      it('no program inside reads root’s file', async () => {
        // As root, bubblewrap alone does not help: its user namespace is root's underneath.
        const mounted = ['--bind', workspace, workspace]
        await expectToWork(['own user'], READ, [join(workspace, 'secret')], { shown: mounted })
        expect(await tryIn(box, READ, ['secret'])).toBe('failed EACCES')
      })

      it('no program inside becomes root by a setuid program', async () => {
        await expectToWork('everything', BECOME_ROOT, [join(workspace, 'id')])
        expect(await tryIn(box, BECOME_ROOT, ['./id'])).toBe('failed EPERM')
      })

      it('no program inside opens a device node', async () => {
        await expectToWork('everything', OPEN, [join(workspace, 'device')])
        // By the mount; or by the engine, which lets nothing be opened but what the container has of its own.
        const refused = scene().home.kind === 'container' ? 'failed EPERM' : 'failed EACCES'
        expect(await tryIn(box, OPEN, ['device'])).toBe(refused)
      })

      it('what was there is there unchanged', () => {
        expect(readdirSync(workspace)).toEqual(expect.arrayContaining(['device', 'id', 'secret']))
      })
    },
  )
}

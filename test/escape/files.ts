/**
 * No program in a sandbox writes to host files, or reads those that the sandbox's user cannot read, whatever the
 * workspace contains.
 */
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
/** A device that no sandbox has. Opening it has no effect yet. */
const LOOP_CONTROL = ['c', '10', '237']
/** A setuid program reports that it runs with the rights of its owner. */
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
/**
 * A path in the folder of the host's socket. With the relay transport, that folder is an empty file system of the
 * sandbox.
 */
const SOCKET_FOLDER = '/run/craik/marker'
const REFUSED = ['failed EROFS', 'failed EACCES', 'failed ENOENT', 'failed EPERM']

export const files: Scenario = (scene) => {
  it('no program in the sandbox writes to the host: neither to world-writable folders nor to the system', async () => {
    const { box, home, outside } = scene()
    await expectToWork('everything', WRITE, [join(outside, 'free')])
    expect(existsSync(join(outside, 'free'))).toBe(true)
    // The sandbox can create a file of that name in its own temporary folder.
    await tryIn(box, WRITE, [join(outside, 'held')])
    expect(existsSync(join(outside, 'held'))).toBe(false)
    for (const path of [...READ_ONLY, ...(home.line === 'socket' ? [SOCKET_FOLDER] : [])]) {
      expect(REFUSED, path).toContain(await tryIn(box, WRITE, [path]))
      expect(existsSync(path), path).toBe(false)
    }
    expect(existsSync(SOCKET_FOLDER)).toBe(false)
  })

  it('no program in the sandbox reads a file of the host that is readable for everyone', async () => {
    const { box, home, outside } = scene()
    writeFileSync(join(outside, 'readable'), 'x')
    await expectToWork('everything', READ, [join(outside, 'readable')])
    for (const path of [join(outside, 'readable'), '/etc/shadow', '/root', home.home])
      expect(await tryIn(box, READ, [path]), path).toMatch(/^failed (ENOENT|EACCES)$/)
  })

  it('no program in the sandbox finds the host name', async () => {
    const { box, home } = scene()
    await expectToWork('everything', FIND_NAME, [hostname()])
    // Every sandbox has the same name, and the host may have it too.
    const found = hostname() === 'sandbox' ? 'succeeded' : 'failed ENOENT'
    expect(await tryIn(box, FIND_NAME, [hostname()])).toBe(found)
    // An engine puts its own file there, with the sandbox's name. Podman writes no line break at the end.
    expect(await box.exec(['cat', '/etc/hostname'])).toMatchObject(
      home.kind === 'container' ? { code: 0, stdout: expect.stringMatching(/^sandbox\n?$/) } : { code: 1 },
    )
  })

  it.skipIf(!IS_ROOT)(
    'no program in the sandbox makes the sidecar’s Node readable (only root can prepare this)',
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

  describe.skipIf(!IS_ROOT)('in an in-place workspace with files of root (only root can create them)', () => {
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

    it('no program in the sandbox reads root’s file', async () => {
      // When root starts bubblewrap, bubblewrap alone does not protect the file: its user namespace belongs to root.
      const mounted = ['--bind', workspace, workspace]
      await expectToWork(['own user'], READ, [join(workspace, 'secret')], { shown: mounted })
      expect(await tryIn(box, READ, ['secret'])).toBe('failed EACCES')
    })

    it('no program in the sandbox becomes root by a setuid program', async () => {
      await expectToWork('everything', BECOME_ROOT, [join(workspace, 'id')])
      expect(await tryIn(box, BECOME_ROOT, ['./id'])).toBe('failed EPERM')
    })

    it('no program in the sandbox opens a device node', async () => {
      await expectToWork('everything', OPEN, [join(workspace, 'device')])
      // The mount refuses it, or in a container the engine does: it allows only the devices that the container has.
      const refused = scene().home.kind === 'container' ? 'failed EPERM' : 'failed EACCES'
      expect(await tryIn(box, OPEN, ['device'])).toBe(refused)
    })

    it('the files of root are unchanged', () => {
      expect(readdirSync(workspace)).toEqual(expect.arrayContaining(['device', 'id', 'secret']))
    })
  })
}

/**
 * Attacks on the boundary socket and the sidecar. No program in a sandbox replaces the socket or connects to it as a
 * second client, and a killed sidecar stops only its own sandbox.
 */
import { once } from 'node:events'
import { chmodSync, mkdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { SandboxEventBody } from '../../src/operator/api/bodies.ts'
import type { LiveSandbox } from '../sandbox-home.ts'
import { python } from './attack.ts'
import { expectToWork, type Scenario, type Scene, tryIn } from './scene.ts'

const LOST_DEADLINE_MS = 60_000
const SOCKET = '/run/craik/host.sock'

const SWAP: Readonly<Record<string, string>> = {
  'renames it': "os.rename(args[0] + '/host.sock', args[0] + '/away')",
  'removes it': "os.unlink(args[0] + '/host.sock')",
  'puts one of its own beside it': "socket.socket(socket.AF_UNIX).bind(args[0] + '/own.sock')",
  'puts a link in its folder': "os.symlink('/tmp', args[0] + '/link')",
  'renames its folder': "os.rename(args[0], args[0] + '.away')",
  'changes who may use it': "os.chmod(args[0] + '/host.sock', 0o600)",
}

/** Connects to the socket as the sidecar would, and reports the answer. */
const POSE = `
  client = socket.socket(socket.AF_UNIX)
  client.settimeout(10)
  client.connect(args[0])
  heard = client.recv(200)
  if b'PRI * HTTP/2.0' not in heard: raise OSError(errno.ECONNREFUSED, heard)`

export const SIGNAL_SIDECAR = `
  for name in filter(str.isdigit, os.listdir('/proc')):
      if '/opt/craik/sidecar.mjs' in words_of(name): os.kill(int(name), int(args[0]))`

/**
 * Connects in the background as soon as the host accepts it. It alternates between invalid bytes and an HTTP/2 greeting
 * with a frame that never ends.
 */
const TAKE_OVER = `
  if os.fork() == 0:
      os.setsid()
      for number in range(3): os.close(number)
      until, turn = time.time() + 120, 0
      while time.time() < until:
          client = socket.socket(socket.AF_UNIX)
          client.settimeout(5)
          turn += 1
          try:
              client.connect(args[1])
              if turn % 2: client.sendall(b'\\0' * 100000)
              else: client.sendall(bytes.fromhex('000000040000000000') + b'\\xff' * 100000)
              while client.recv(65536): pass
          except OSError: pass
          time.sleep(0.1)
      os._exit(0)`

/** Attacks on the socket transport: the host listens, and mounts its socket in the sandbox. */
export const socketFolder: Scenario = (scene) => {
  for (const [what, program] of Object.entries(SWAP)) {
    it(`no program in the sandbox replaces the socket: ${what}`, async () => {
      const { box, outside } = scene()
      const folder = join(outside, what.replaceAll(' ', '-'))
      mkdirSync(folder)
      chmodSync(folder, 0o777)
      // The attacker creates this socket, as it could if the socket were in a folder of the sandbox.
      const make = "socket.socket(socket.AF_UNIX).bind(args[0] + '/host.sock')"
      await expectToWork('everything', make, [folder])
      await expectToWork('everything', program, [folder])
      expect(await tryIn(box, program, ['/run/craik'])).toMatch(/^failed (EROFS|EBUSY|EACCES|EPERM)$/)
      expect(await box.exec(['true'])).toMatchObject({ code: 0 })
    })
  }

  it('no program in the sandbox takes the place of a running sidecar, and the attempt is recorded', async () => {
    const { box, home, outside } = scene()
    const server = createServer((socket) => socket.end('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'))
    server.listen(join(outside, 'posed.sock'))
    await once(server, 'listening')
    chmodSync(join(outside, 'posed.sock'), 0o777)
    await expectToWork('everything', POSE, [join(outside, 'posed.sock')])
    server.close()
    expect(await tryIn(box, POSE, [SOCKET])).toBe('failed ECONNREFUSED')
    expect(await box.exec(['echo', 'the same'])).toMatchObject({ stdout: 'the same\n' })
    const events: SandboxEventBody[] = []
    for await (const event of home.client().sandboxes.events(box.id)) events.push(event)
    expect(JSON.stringify(events)).toMatch(/refused|turned away|second/)
  })

  it('a program that stops the sidecar and takes its place causes errors only for its own sandbox, which can be deleted', async () => {
    const { home } = scene()
    const stopped = await home.create()
    const { pid } = await home.client().supervisor.status()
    await runAttack(stopped, TAKE_OVER + SIGNAL_SIDECAR, ['19', SOCKET])
    await expectErrors(stopped)
    await expectOthersWell(scene(), pid)
    await stopped.delete()
  })
}

/** Attacks that work the same over every transport. */
export const boundary: Scenario = (scene) => {
  it('a killed sidecar stops its own sandbox and nothing else', async () => {
    const { box, home } = scene()
    const doomed = await home.create()
    const { pid } = await home.client().supervisor.status()
    await runAttack(doomed, SIGNAL_SIDECAR, ['9'])
    await untilLost(scene(), doomed.id)
    await expect(doomed.exec(['true'])).rejects.toMatchObject({ code: 'sandbox_stopped' })
    await expectOthersWell(scene(), pid)
    await doomed.delete()
    expect(await box.exec(['true'])).toMatchObject({ code: 0 })
  })

  it('a program that kills every process it can stops its own sandbox and nothing else', async () => {
    const { home } = scene()
    const doomed = await home.create()
    const { pid } = await home.client().supervisor.status()
    await runAttack(doomed, 'os.kill(-1, 9)')
    await untilLost(scene(), doomed.id)
    await expectOthersWell(scene(), pid)
    await doomed.delete()
  })
}

/** Runs an attack and ignores the result, because the attack can kill the process that would report it. */
export async function runAttack(
  box: LiveSandbox,
  program: string,
  args: readonly string[] = [],
): Promise<void> {
  await box.exec(python(program, args)).catch(() => {})
}

export async function expectErrors(box: LiveSandbox): Promise<void> {
  const expectError = () => expect(box.exec(['true'])).rejects.toMatchObject({ name: 'CraikError' })
  await expectError()
  // Later requests fail too, also two at once. Each waits until the sidecar's time to answer is over.
  await Promise.all([expectError(), expectError()])
}

async function untilLost({ home }: Scene, id: string): Promise<void> {
  const until = performance.now() + LOST_DEADLINE_MS
  while ((await home.client().sandboxes.get(id)).state !== 'lost') {
    if (performance.now() > until) throw new Error('the sandbox is not seen to be lost')
    await sleep(50)
  }
}

export async function expectOthersWell({ box, home }: Scene, supervisor: number): Promise<void> {
  expect(await box.exec(['echo', 'well'])).toMatchObject({ stdout: 'well\n' })
  expect((await home.client().supervisor.status()).pid).toBe(supervisor)
}

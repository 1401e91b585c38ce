/**
 * With the relay transport, the socket belongs to the sandbox. A program that takes it over only causes errors for its
 * own sandbox.
 */
import { expect, it } from 'vitest'
import type { SandboxEventBody } from '../../src/operator/api/bodies.ts'
import { expectErrors, expectOthersWell, runAttack, SIGNAL_SIDECAR } from './boundary.ts'
import { memoryAttacks } from './processes.ts'
import { type Scenario, tryIn } from './scene.ts'

const SOCKET = '/run/craik/sidecar.sock'

/** The order matters: each attack leaves enough of the socket for the next. */
const SWAP: Readonly<Record<string, string>> = {
  'changes who may use it': 'os.chmod(args[0], 0)',
  'puts one of its own beside it': "socket.socket(socket.AF_UNIX).bind(args[0] + '.own')",
  'puts a link in its place': `
  os.rename(args[0], args[0] + '.away')
  os.symlink('/tmp/elsewhere', args[0])`,
  'puts a folder in its place': `
  os.unlink(args[0])
  os.mkdir(args[0])`,
}

/** Connects to the sidecar as the host does, and stays connected. */
const POSE = `
  client = socket.socket(socket.AF_UNIX)
  client.connect(args[0])
  client.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes.fromhex('000000040000000000'))
  client.recv(200)
  time.sleep(1)`

/**
 * Listens in the background in place of the sidecar. It answers the relay with invalid bytes, or with an HTTP/2
 * greeting and a frame that never ends.
 */
const LISTEN = `
  if os.fork() == 0:
      os.setsid()
      for number in range(3): os.close(number)
      os.unlink(args[1])
      server = socket.socket(socket.AF_UNIX)
      server.bind(args[1])
      server.listen()
      server.settimeout(120)
      turn = 0
      while True:
          client, turn = server.accept()[0], turn + 1
          client.settimeout(5)
          try:
              if turn % 2: client.sendall(b'\\0' * 100000)
              else: client.sendall(bytes.fromhex('000000040000000000') + b'\\xff' * 100000)
              while client.recv(65536): pass
          except OSError: pass
          client.close()`

const SIGNAL_RELAY = SIGNAL_SIDECAR.replace('sidecar.mjs', 'relay.mjs')

export const relay: Scenario = (scene) => {
  memoryAttacks(scene, 'relay')

  it('the host disconnects a program that poses as the host, and the attempt is recorded', async () => {
    const { box, home } = scene()
    await runAttack(box, POSE, [SOCKET])
    expect(await box.exec(['echo', 'the same'])).toMatchObject({ stdout: 'the same\n' })
    const events: SandboxEventBody[] = []
    for await (const event of home.client().sandboxes.events(box.id)) events.push(event)
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(['disconnected', 'connected']))
  })

  it('the host reconnects each time that a program kills the relay', async () => {
    const { box } = scene()
    for (let turn = 0; turn < 3; turn++) {
      await runAttack(box, SIGNAL_RELAY, ['9'])
      expect(await box.exec(['echo', 'again'])).toMatchObject({ stdout: 'again\n' })
    }
  })

  // Each of these tests waits a long time for its own sandbox, so they run concurrently.
  it.concurrent('a program that replaces the socket causes errors only for its own sandbox, once the connection is lost', async () => {
    const { home } = scene()
    const doomed = await home.create()
    const { pid } = await home.client().supervisor.status()
    for (const [what, program] of Object.entries(SWAP)) {
      expect(await tryIn(doomed, program, [SOCKET]), what).toBe('succeeded')
      expect(await doomed.exec(['true']), what).toMatchObject({ code: 0 })
    }
    await runAttack(doomed, SIGNAL_RELAY, ['9'])
    await expectErrors(doomed)
    await expectOthersWell(scene(), pid)
    await doomed.delete()
  })

  it.concurrent('the host replaces a relay that a program stopped, once it has had time to notice', async () => {
    const { home } = scene()
    const stopped = await home.create()
    const { pid } = await home.client().supervisor.status()
    const striking = runAttack(stopped, SIGNAL_RELAY, ['19'])
    await expectOthersWell(scene(), pid)
    await striking
    // If the relay stopped before it reported the start of the job, the host gives up on that job first. It notices the
    // stopped relay a little later.
    const echo = () => stopped.exec(['echo', 'here'])
    expect(await echo().catch(echo)).toMatchObject({ stdout: 'here\n' })
    await stopped.delete()
  })

  it.concurrent('a program that stops the sidecar and listens in its place causes errors only for its own sandbox, which can be deleted', async () => {
    const { home } = scene()
    const stopped = await home.create()
    const { pid } = await home.client().supervisor.status()
    await runAttack(stopped, `${LISTEN}${SIGNAL_SIDECAR}\n  args[0] = '9'${SIGNAL_RELAY}`, ['19', SOCKET])
    await expectErrors(stopped)
    await expectOthersWell(scene(), pid)
    await stopped.delete()
  })
}

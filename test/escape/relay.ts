/** Where the host is reached by a relay, its socket is the sandbox's own: who takes it gains nothing but errors for itself. */
import { expect, it } from 'vitest'
import type { SandboxEventBody } from '../../src/operator/api/bodies.ts'
import { expectErrors, expectOthersWell, SIGNAL_SIDECAR, strike } from './boundary.ts'
import { memoryAttacks } from './processes.ts'
import { type Scenario, tryIn } from './scene.ts'

const SOCKET = '/run/craik/sidecar.sock'

/** In this order, because each leaves enough for the next. */
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

/** Speaks to the sidecar as the host does, and stays. */
const POSE = `
  client = socket.socket(socket.AF_UNIX)
  client.connect(args[0])
  client.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes.fromhex('000000040000000000'))
  client.recv(200)
  time.sleep(1)`

/** From the background: nothing that makes sense, or a greeting that does not end, for whoever the relay connects. */
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

  it('who poses as the host is turned out by the host, and the attempt is on record', async () => {
    const { box, home } = scene()
    await strike(box, POSE, [SOCKET])
    expect(await box.exec(['echo', 'the same'])).toMatchObject({ stdout: 'the same\n' })
    const events: SandboxEventBody[] = []
    for await (const event of home.client().sandboxes.events(box.id)) events.push(event)
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(['disconnected', 'connected']))
  })

  it('who ends the relay again and again is connected again and again', async () => {
    const { box } = scene()
    for (let turn = 0; turn < 3; turn++) {
      await strike(box, SIGNAL_RELAY, ['9'])
      expect(await box.exec(['echo', 'again'])).toMatchObject({ stdout: 'again\n' })
    }
  })

  // Each waits long for something of its own sandbox: so they wait together.
  it.concurrent('who exchanges the socket has errors for its own sandbox, once the connection is lost', async () => {
    const { home } = scene()
    const doomed = await home.create()
    const { pid } = await home.client().supervisor.status()
    for (const [what, program] of Object.entries(SWAP)) {
      expect(await tryIn(doomed, program, [SOCKET]), what).toBe('succeeded')
      expect(await doomed.exec(['true']), what).toMatchObject({ code: 0 })
    }
    await strike(doomed, SIGNAL_RELAY, ['9'])
    await expectErrors(doomed)
    await expectOthersWell(scene(), pid)
    await doomed.delete()
  })

  it.concurrent('who stops the relay is connected by another one, when the host has had its time to notice', async () => {
    const { home } = scene()
    const stopped = await home.create()
    const { pid } = await home.client().supervisor.status()
    const striking = strike(stopped, SIGNAL_RELAY, ['19'])
    await expectOthersWell(scene(), pid)
    await striking
    // A relay that stopped before it told that the job was begun is given up for that first, and noticed to stand still a while later.
    const echo = () => stopped.exec(['echo', 'here'])
    expect(await echo().catch(echo)).toMatchObject({ stdout: 'here\n' })
    await stopped.delete()
  })

  it.concurrent('who stops the sidecar and listens in its place gets errors for its own sandbox, which can be deleted', async () => {
    const { home } = scene()
    const stopped = await home.create()
    const { pid } = await home.client().supervisor.status()
    await strike(stopped, `${LISTEN}${SIGNAL_SIDECAR}\n  args[0] = '9'${SIGNAL_RELAY}`, ['19', SOCKET])
    await expectErrors(stopped)
    await expectOthersWell(scene(), pid)
    await stopped.delete()
  })
}

/** A session on its own socket, and sidecars that connect to it and only send a greeting. */

import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { SIDECAR_HELLO, sendJson, serveHttp2 } from '../boundary/hostile-sidecar.fixture.ts'
import { BoundarySession, type SessionParts } from './boundary-session.ts'
import { EventLog } from './event-log.ts'
import { eventually } from './manager.fixture.ts'

export async function sessionScene(parts: Partial<SessionParts> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'craik-session-'))
  const session = await BoundarySession.open({
    id: newId<SandboxId>('sbx', Date.now()),
    epoch: 'epoch_1',
    events: await EventLog.open(folder, () => Date.now()),
    line: { kind: 'socket', folder: join(folder, 'socket') },
    inbound: (stream) => stream.destroy(),
    onConnected: async () => {},
    onTick: async () => {},
    ...parts,
  })
  return {
    session,
    dial(instance: string): Socket {
      const socket = connect(join(folder, 'socket', 'host.sock'))
      socket.on('error', () => {})
      serveHttp2(socket, (stream, what) => {
        if (what === 'GET /hello') sendJson(stream, 200, { ...SIDECAR_HELLO, instance })
      })
      return socket
    },
    async waitForEvent(type: string, times = 1): Promise<void> {
      await eventually(async () => {
        let count = 0
        for await (const event of session.events.read(false, NEVER_ABORTED)) if (event.type === type) count++
        return count >= times || undefined
      })
    },
    async [Symbol.asyncDispose]() {
      await session.close()
      await session.events.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

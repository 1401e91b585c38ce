/**
 * A backend whose sidecar does what a test says, with real HTTP/2 over the host's real socket, but without a process.
 */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import {
  type HostileAnswer,
  SIDECAR_HELLO,
  sendJson,
  serveHttp2,
} from '../boundary/hostile-sidecar.fixture.ts'

export interface ScriptedBackend extends SandboxBackend {
  /** Answers every request but the greeting. Until the test sets it, nothing exists in the sandbox. */
  answer: HostileAnswer
  /** The instance id of the sidecar that connects next. */
  instance: string
  /** The requests to the sidecar, such as `PUT /jobs/job_1`, oldest first. */
  readonly asked: string[]
  /** Cuts the connection, and connects again. */
  redial(): void
}

export function createScriptedBackend(): ScriptedBackend {
  let socketPath = ''
  let socket: Socket | undefined
  const dial = () => {
    socket?.destroy()
    socket = connect(socketPath)
    socket.on('error', () => {})
    const { instance } = backend
    serveHttp2(socket, (stream, what, headers) => {
      backend.asked.push(what)
      if (what === 'GET /hello') sendJson(stream, 200, { ...SIDECAR_HELLO, instance })
      // These streams stay open for connections from the sandbox, which never come.
      else if (what !== 'POST /accept') backend.answer(stream, what, headers)
    })
  }
  const instanceOf = (spec: SandboxSpec): SandboxInstance => {
    const ended = Promise.withResolvers<string>()
    return {
      handle: { scripted: 1 },
      isolation: 'none',
      hostUid: 0,
      limits: { memory: 'not-enforced', processes: 'not-enforced', cpu: 'not-asked', disk: 'not-enforced' },
      line: { kind: 'socket', folder: join(spec.folder, 'socket') },
      ended: ended.promise,
      observe: async () => ({ processes: 1, outOfMemoryKills: 0 }),
      async destroy() {
        socket?.destroy()
        ended.resolve('destroyed')
      },
    }
  }
  const backend: ScriptedBackend = {
    kind: 'local_process',
    answer: nothingThere,
    instance: 'first',
    asked: [],
    redial: dial,
    probe: async () => ({ isolation: 'none' }),
    async create(spec) {
      socketPath = join(spec.folder, 'socket', 'host.sock')
      dial()
      return instanceOf(spec)
    },
    async recover(_, spec) {
      // Connects again until a process listens there.
      const dialUntilConnected = () => {
        dial()
        const again = () => setTimeout(dialUntilConnected, 20)
        socket!.once('error', again).once('connect', () => socket!.off('error', again))
      }
      setTimeout(dialUntilConnected, 20)
      return instanceOf(spec)
    },
    async sweep() {},
    async endLeftovers() {},
  }
  return backend
}

/** Answers like a sidecar that has never run anything. */
export const nothingThere: HostileAnswer = (stream, what) => {
  if (what === 'GET /jobs') sendJson(stream, 200, { jobs: [] })
  else sendJson(stream, 404, { code: 'not_found', message: 'there is no such thing' })
}

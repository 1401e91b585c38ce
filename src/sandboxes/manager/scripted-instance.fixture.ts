/** A backend whose sidecar does what a test says: real HTTP/2 over the host's real socket, without a process behind it. */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import { type Answer, HELLO, json, speak } from '../boundary/hostile-sidecar.fixture.ts'

export interface ScriptedBackend extends SandboxBackend {
  /** What it answers to everything but the greeting; nothing is known there unless the test says so. */
  answer: Answer
  /** Of the sidecar that dials next. */
  instance: string
  /** What it was asked, such as `PUT /jobs/job_1`, oldest first. */
  readonly asked: string[]
  /** Cuts the connection, and dials again. */
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
    speak(socket, (stream, what, headers) => {
      backend.asked.push(what)
      if (what === 'GET /hello') json(stream, 200, { ...HELLO, instance })
      // Held open for connections from inside, of which there are none.
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
      // Until somebody listens there again.
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

/** As a sidecar answers that has never run anything. */
export const nothingThere: Answer = (stream, what) => {
  if (what === 'GET /jobs') json(stream, 200, { jobs: [] })
  else json(stream, 404, { code: 'not_found', message: 'there is no such thing' })
}

/** Does one thing with the process backend in a process of its own, as whoever it is started as, and tells in lines of JSON. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { FRAME, FrameReader } from '../../src/lib/frames.ts'
import { type JobId, newId } from '../../src/lib/ids.ts'
import type { PlaceHandle, RunningPlace, SandboxSpec } from '../../src/sandboxes/backend.ts'
import { processBackend } from '../../src/sandboxes/backends/process/backend.ts'
import type { Boundary } from '../../src/sandboxes/boundary/boundary.ts'
import { connectBoundary } from '../../src/sandboxes/boundary/connect.ts'
import { openHostSocket } from '../../src/sandboxes/boundary/listen.ts'

export interface Order {
  readonly verb: 'create' | 'recover' | 'sweep'
  readonly craikHome: string
  readonly spec: SandboxSpec
  readonly handle?: PlaceHandle
  /** Shell commands to run inside, one after the other. */
  readonly run?: readonly string[]
  /** Afterwards it is destroyed, or waited for until somebody ends it, or this process. */
  readonly finish?: 'destroy' | 'wait'
}

const order = JSON.parse(process.argv[2]!) as Order
const { verb, craikHome, spec, run = [], finish: ending = 'destroy' } = order
const never = new AbortController().signal
const tell = (line: unknown): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

try {
  await obey()
} catch (error) {
  const { code, message, hint } = error as { code?: string; message: string; hint?: string }
  tell({ error: { code, message, hint } })
}
process.exit()

async function obey(): Promise<void> {
  const backend = processBackend({
    craikHome,
    environment: { PATH: process.env.PATH, HOME: process.env.HOME },
  })
  if (verb === 'sweep') {
    await backend.sweep(spec, order.handle)
    return tell({ swept: true })
  }
  mkdirSync(spec.folder, { recursive: true, mode: 0o700 })
  const dialled = Promise.withResolvers<Boundary>()
  await openHostSocket(join(spec.folder, 'socket'), {
    onConnection: (socket) => {
      connectBoundary(socket, never, { onInbound: (stream) => stream.destroy() }).then(
        dialled.resolve,
        () => {},
      )
    },
    onRefused: () => {},
  })
  const place = verb === 'create' ? await backend.create(spec) : await backend.recover(order.handle!, spec)
  if (place === undefined) return tell({ gone: true })
  const { handle, limits, hostUid, isolation } = place
  tell({ handle, limits, hostUid, isolation })
  for (const command of run) tell(await shell(await dialled.promise, command))
  if (run.length > 0) tell({ observed: await place.observe() })
  await finish(place)
}

async function finish(place: RunningPlace): Promise<void> {
  if (ending === 'wait') {
    const keepAlive = setInterval(() => {}, 1000)
    tell({ waiting: true })
    tell({ ended: await place.ended })
    clearInterval(keepAlive)
  }
  await place.destroy()
  tell({ destroyed: true, ended: await place.ended })
}

async function shell(boundary: Boundary, command: string) {
  const spec = { kind: 'exec', argv: ['sh', '-c', command], timeoutMs: 60_000 } as const
  const { output } = await boundary.jobs.start(newId<JobId>('job', Date.now()), spec, never)
  const frames = new FrameReader()
  let [out, err] = ['', '']
  let exit: unknown
  for await (const chunk of output as AsyncIterable<Buffer>) {
    for (const { type, payload } of frames.push(chunk)) {
      if (type === FRAME.stdout) out += payload
      if (type === FRAME.stderr) err += payload
      if (type === FRAME.exit) exit = JSON.parse(String(payload)).exitCode
    }
  }
  return { command, out, err, exit }
}

/** Runs one operation of a backend in a separate process, as the user who starts it, and reports in lines of JSON. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { FRAME, FrameReader } from '../src/lib/frames.ts'
import { type JobId, newId } from '../src/lib/ids.ts'
import type {
  ContainerRequest,
  InstanceHandle,
  SandboxBackend,
  SandboxInstance,
  SandboxSpec,
} from '../src/sandboxes/backend.ts'
import type { Boundary } from '../src/sandboxes/boundary/boundary.ts'
import { connectBoundary } from '../src/sandboxes/boundary/connect-boundary.ts'
import { openHostSocket } from '../src/sandboxes/boundary/host-socket.ts'

export interface DriverRequest {
  readonly backend: 'process' | 'docker'
  /** `clear` removes whatever exists of any of the specs. */
  readonly verb: 'plan' | 'create' | 'recover' | 'sweep' | 'discard' | 'clear'
  readonly craikHome: string
  readonly asked?: ContainerRequest
  readonly spec?: SandboxSpec
  readonly specs?: readonly SandboxSpec[]
  readonly handle?: InstanceHandle
  /** Shell commands to run in the sandbox, one after the other. */
  readonly run?: readonly string[]
  readonly pause?: boolean
  /** Then destroys the instance, or waits until the instance or this process is ended. */
  readonly finish?: 'destroy' | 'wait'
}

const order = JSON.parse(process.argv[2]!) as DriverRequest
const never = new AbortController().signal
const writeLine = (line: unknown): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

try {
  await runRequest()
} catch (error) {
  const { code, message, hint, details } = error as Record<string, unknown>
  writeLine({ error: { code, message, hint, details } })
}
process.exit()

async function runRequest(): Promise<void> {
  const { verb, run = [], finish: ending = 'destroy' } = order
  const backend = await open()
  if (verb === 'plan') return writeLine({ planned: await backend.plan!(order.asked ?? {}) })
  if (verb === 'clear') {
    for (const spec of order.specs ?? []) {
      await backend.sweep(spec, undefined)
      await backend.discard?.(spec)
    }
    return writeLine({ cleared: true })
  }
  const spec = order.spec!
  if (verb === 'sweep') {
    await backend.sweep(spec, order.handle)
    return writeLine({ swept: true })
  }
  if (verb === 'discard') {
    await backend.discard!(spec)
    return writeLine({ discarded: true })
  }
  mkdirSync(spec.folder, { recursive: true, mode: 0o700 })
  const reached = listen(spec)
  const instance = verb === 'create' ? await backend.create(spec) : await backend.recover(order.handle!, spec)
  if (instance === undefined) return writeLine({ gone: true })
  const { handle, limits, hostUid, isolation } = instance
  writeLine({ handle, limits, hostUid, isolation, line: instance.line.kind })
  const boundary = () => (instance.line.kind === 'socket' ? reached : dial(instance))
  if (run.length > 0) {
    const open = await boundary()
    for (const command of run) writeLine(await shell(open, command))
    writeLine({ observed: await instance.observe() })
  }
  if (order.pause) {
    await instance.pause!()
    writeLine({ paused: true })
    await instance.unpause!()
  }
  await finish(instance, ending)
}

/** Imports only the requested backend. */
async function open(): Promise<SandboxBackend> {
  const deps = { craikHome: order.craikHome, environment: process.env }
  return order.backend === 'docker'
    ? (await import('../src/sandboxes/backends/docker/backend.ts')).dockerBackend(deps)
    : (await import('../src/sandboxes/backends/process/backend.ts')).processBackend(deps)
}

/** Listens as the supervisor does for a sidecar that connects to the host. */
async function listen(spec: SandboxSpec): Promise<Boundary> {
  const dialled = Promise.withResolvers<Boundary>()
  if (spec.container?.line === 'relay') return dialled.promise
  await openHostSocket(join(spec.folder, 'socket'), {
    onConnection: (socket) => {
      connectBoundary(socket, never, { onInbound: (stream) => stream.destroy() }).then(
        dialled.resolve,
        () => {},
      )
    },
    onRefused: () => {},
  })
  return dialled.promise
}

async function dial({ line }: SandboxInstance): Promise<Boundary> {
  if (line.kind !== 'dial') throw new Error('it is not dialled')
  return connectBoundary(await line.dial(never), never, { onInbound: (stream) => stream.destroy() })
}

async function finish(instance: SandboxInstance, ending: 'destroy' | 'wait'): Promise<void> {
  if (ending === 'wait') {
    const keepAlive = setInterval(() => {}, 1000)
    writeLine({ waiting: true })
    writeLine({ ended: await instance.ended })
    clearInterval(keepAlive)
  }
  await instance.destroy()
  writeLine({ destroyed: true, ended: await instance.ended })
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

/**
 * A real sidecar as a plain process on the host, and the host's end of its boundary. A new connection gives a new
 * boundary.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Duplex } from 'node:stream'
import { FRAME, FrameReader } from '../../src/lib/frames.ts'
import { type JobId, newId } from '../../src/lib/ids.ts'
import type { Boundary, JobOutput } from '../../src/sandboxes/boundary/boundary.ts'
import { connectBoundary } from '../../src/sandboxes/boundary/connect-boundary.ts'
import { openHostSocket } from '../../src/sandboxes/boundary/host-socket.ts'
import { type JobSpec, SIDECAR_ENV, SIDECAR_NODE_FLAGS } from '../../src/sidecar/protocol.ts'

const BUNDLE = resolve(import.meta.dirname, '../../build/sidecar/sidecar.mjs')
export const NEVER = new AbortController().signal

export interface SidecarProcess {
  readonly workspace: string
  readonly process: ChildProcess
  /** Connections from the sidecar. */
  readonly inbound: Duplex[]
  /** Returns the current boundary, or waits for the next one. */
  boundary(): Promise<Boundary>
  /** Breaks the connection as the death of a supervisor does. Resolves when the boundary has closed. */
  drop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export async function startSidecar(): Promise<SidecarProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'craik-sidecar-'))
  const workspace = join(folder, 'home', 'project')
  mkdirSync(workspace, { recursive: true })
  mkdirSync(join(folder, 'spill'))
  const inbound: Duplex[] = []
  let current = Promise.withResolvers<{ boundary: Boundary; socket: Socket }>()
  const listener = await openHostSocket(join(folder, 'socket'), {
    onConnection(socket) {
      connectBoundary(socket, NEVER, { onInbound: (stream) => inbound.push(stream) }).then(
        (boundary) => current.resolve({ boundary, socket }),
        () => {},
      )
    },
    onRefused: () => {},
  })
  const child = spawn(process.execPath, [...SIDECAR_NODE_FLAGS, BUNDLE], {
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      [SIDECAR_ENV.socket]: join(folder, 'socket', 'host.sock'),
      [SIDECAR_ENV.home]: join(folder, 'home'),
      [SIDECAR_ENV.workspace]: workspace,
      [SIDECAR_ENV.gatewayPort]: '0',
      [SIDECAR_ENV.spill]: join(folder, 'spill'),
    },
  })
  return {
    workspace,
    process: child,
    inbound,
    boundary: async () => (await current.promise).boundary,
    async drop() {
      const { boundary, socket } = await current.promise
      current = Promise.withResolvers()
      socket.destroy()
      await boundary.closed
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      await listener.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function jobId(): JobId {
  return newId<JobId>('job', Date.now())
}

export interface Collected {
  readonly output: JobOutput
  readonly stdout: Buffer
  readonly stderr: Buffer
}

/** Starts a job and reads its output to the end. */
export async function run(boundary: Boundary, spec: JobSpec, id = jobId()): Promise<Collected> {
  const { output } = await boundary.jobs.start(id, spec, NEVER)
  return await collect(output)
}

export async function collect(output: JobOutput): Promise<Collected> {
  const frames = new FrameReader()
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  for await (const chunk of output) {
    for (const { type, payload } of frames.push(chunk as Buffer)) {
      if (type === FRAME.stdout) stdout.push(Buffer.from(payload))
      if (type === FRAME.stderr) stderr.push(Buffer.from(payload))
    }
  }
  return { output, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) }
}

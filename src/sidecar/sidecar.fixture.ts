/** Runs a sidecar in this process, real except for the socket, and provides the host's end of its stream. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { FRAME, FRAME_HEADER_BYTES, type Frame, FrameReader, isInLog } from '../lib/frames.ts'
import { type JobResult, type JobSpec, LIMITS, PROTOCOL_HEADER, PROTOCOL_VERSION } from './protocol.ts'
import { serve } from './server.ts'
import { createSidecar, type Sidecar } from './sidecar.ts'

export interface SidecarAnswer {
  readonly status: number
  readonly body: Buffer
}

export interface Output {
  readonly frames: readonly Frame[]
  readonly stdout: string
  readonly stderr: string
  readonly result: JobResult
}

export class TestHost {
  readonly folder: string
  readonly sidecar: Sidecar
  session: ClientHttp2Session
  #jobs = 0

  private constructor(folder: string, sidecar: Sidecar) {
    this.folder = folder
    this.sidecar = sidecar
    this.session = this.connect()
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<TestHost> {
    const folder = mkdtempSync(join(tmpdir(), 'craik-sidecar-'))
    const workspace = join(folder, 'workspace')
    mkdirSync(workspace)
    const settings = {
      socket: '',
      home: folder,
      workspace,
      gatewayPort: 0,
      isIsolated: false,
      spillFolder: join(folder, 'spill'),
      loginFolder: join(folder, 'run/secrets'),
    }
    return new TestHost(folder, await createSidecar({ settings, version: 'test', env }))
  }

  get workspace(): string {
    return join(this.folder, 'workspace')
  }

  /** Opens another connection to the same sidecar. The previous one stays open. */
  connect(): ClientHttp2Session {
    const [ours, theirs] = duplexPair()
    serve(theirs, this.sidecar.router, () => {})
    const settings = { initialWindowSize: LIMITS.streamWindowBytes }
    this.session = connect('http://sidecar', { createConnection: () => ours as Duplex, settings })
    this.session.on('error', () => {})
    return this.session
  }

  request(method: string, path: string): ClientHttp2Stream {
    const stream = this.session.request(
      { ':method': method, ':path': path, [PROTOCOL_HEADER]: PROTOCOL_VERSION },
      { endStream: false },
    )
    stream.on('error', () => {})
    return stream
  }

  async ask(method: string, path: string, body?: unknown): Promise<SidecarAnswer> {
    const stream = this.request(method, path)
    stream.end(body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body))
    return collectAnswer(stream)
  }

  async json(method: string, path: string, body?: unknown): Promise<{ status: number; value: never }> {
    const { status, body: bytes } = await this.ask(method, path, body)
    return { status, value: JSON.parse(bytes.toString()) as never }
  }

  newJobId(): string {
    return `job_${++this.#jobs}`
  }

  /** Starts a job without following it. */
  async start(spec: JobSpec, id = this.newJobId()): Promise<string> {
    const { status, body } = await this.ask('PUT', `/jobs/${id}`, spec)
    if (status >= 400) throw new Error(`${status} ${body}`)
    return id
  }

  /** Runs a job to its end. */
  async run(spec: JobSpec, id = this.newJobId()): Promise<Output> {
    return outputOf((await this.ask('PUT', `/jobs/${id}?attach=1`, spec)).body)
  }

  async output(id: string, after = 0): Promise<Output> {
    return outputOf((await this.ask('GET', `/jobs/${id}/output?after=${after}`)).body)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.session.destroy()
    await this.sidecar.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export function sh(script: string, more: object = {}): JobSpec {
  return { kind: 'exec', argv: ['sh', '-c', script], ...more }
}

export function collectAnswer(stream: ClientHttp2Stream): Promise<SidecarAnswer> {
  return new Promise((resolve, reject) => {
    let status = 0
    const chunks: Buffer[] = []
    stream.on('response', (headers) => {
      status = headers[':status'] ?? 0
    })
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('end', () => resolve({ status, body: Buffer.concat(chunks) }))
  })
}

export function framesOf(bytes: Buffer): Frame[] {
  return [...new FrameReader().push(bytes)]
}

export function outputOf(bytes: Buffer): Output {
  const frames = framesOf(bytes)
  const text = (type: number) =>
    Buffer.concat(frames.filter((frame) => frame.type === type).map((frame) => frame.payload)).toString()
  const exit = frames.at(-1)
  if (exit?.type !== FRAME.exit) throw new Error(`the last frame is of type ${exit?.type}`)
  return {
    frames,
    stdout: text(FRAME.stdout),
    stderr: text(FRAME.stderr),
    result: JSON.parse(exit.payload.toString()),
  }
}

/** Returns how far these frames advance a reader. */
export function lengthInLog(frames: readonly Frame[]): number {
  return frames
    .filter((frame) => isInLog(frame.type))
    .reduce((sum, frame) => sum + FRAME_HEADER_BYTES + frame.payload.length, 0)
}

/** Resolves when the condition is true. The test's own time limit ends the wait. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 5))
}

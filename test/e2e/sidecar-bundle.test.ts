/** The shipped sidecar as a separate process. It connects through a socket to a host that disconnects and returns. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { type ClientHttp2Session, connect } from 'node:http2'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FRAME, FRAME_HEADER_BYTES, type Frame, FrameReader, isInLog } from '../../src/lib/frames.ts'
import { ownerOf } from '../../src/lib/owner.ts'
import { PROTOCOL_HEADER, SIDECAR_ENV, SIDECAR_NODE_FLAGS } from '../../src/sidecar/protocol.ts'

const BUNDLE = resolve(import.meta.dirname, '../../build/sidecar/sidecar.mjs')
/** Mounts a disk of one megabyte as the spill folder, in a mount namespace that ends with the process. */
const WITH_SMALL_DISK = [
  'unshare',
  '--user',
  '--map-root-user',
  '--mount',
  'sh',
  '-c',
  'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"',
  'sh',
]

let folder: string
let sidecar: ChildProcess
let output: string
let server: Server | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-bundle-'))
  mkdirSync(join(folder, 'workspace'))
  mkdirSync(join(folder, 'spill'))
})
afterEach(async () => {
  server?.close()
  if (sidecar.exitCode === null && sidecar.signalCode === null) {
    sidecar.kill('SIGKILL')
    await once(sidecar, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
})

function start(before: readonly string[] = [], more: Readonly<Record<string, string>> = {}): void {
  const argv = [...before, process.execPath, ...SIDECAR_NODE_FLAGS, BUNDLE]
  sidecar = spawn(argv[0]!, argv.slice(1), {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH,
      [SIDECAR_ENV.socket]: join(folder, 'host.sock'),
      [SIDECAR_ENV.home]: folder,
      [SIDECAR_ENV.workspace]: join(folder, 'workspace'),
      [SIDECAR_ENV.gatewayPort]: '0',
      [SIDECAR_ENV.spill]: join(folder, 'spill'),
      ...more,
    },
  })
  output = ''
  sidecar.stderr!.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
}

async function accept(): Promise<ClientHttp2Session> {
  server = createServer().listen(join(folder, 'host.sock'))
  const [socket] = await once(server, 'connection')
  const session = connect('http://sidecar', { createConnection: () => socket })
  session.on('error', () => {})
  return session
}

/** Acts like a host that is killed: the connection closes without a message. */
function vanish(session: ClientHttp2Session): void {
  server?.close()
  session.destroy()
}

async function ask(
  session: ClientHttp2Session,
  method: string,
  path: string,
  body?: unknown,
): Promise<Buffer> {
  const stream = session.request({ ':method': method, ':path': path, [PROTOCOL_HEADER]: '1' })
  stream.end(body === undefined ? undefined : JSON.stringify(body))
  const chunks: Buffer[] = []
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const framesOf = (bytes: Buffer): Frame[] => [...new FrameReader().push(bytes)]
const stdoutOf = (frames: readonly Frame[]): string =>
  Buffer.concat(
    frames.filter((frame) => frame.type === FRAME.stdout).map((frame) => frame.payload),
  ).toString()

describe('the sidecar', () => {
  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])(
    'does not start with the variable %s, and reports it',
    async (name) => {
      start([], { [name]: 'made-up-value' })
      await once(sidecar, 'close')
      expect([sidecar.exitCode, output]).toEqual([
        64,
        `craik: ${name} is set, but a sandbox must not have it\n`,
      ])
    },
  )

  it('starts if that variable is empty, because some engines remove a variable in this way', async () => {
    start([], { GITHUB_TOKEN: '' })
    const session = await accept()
    const environment = framesOf(
      await ask(session, 'PUT', '/jobs/one?attach=1', { kind: 'exec', argv: ['env'] }),
    )
    expect(stdoutOf(environment)).toContain('HOME=')
    session.destroy()
  })

  it('continues its jobs while the host is disconnected, and the output resumes without a lost byte', async () => {
    start()
    const first = await accept()
    const spec = {
      kind: 'exec',
      argv: ['sh', '-c', 'i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.05; done'],
    }
    const seen: Frame[] = []
    const stream = first.request({
      ':method': 'PUT',
      ':path': '/jobs/counting?attach=1',
      [PROTOCOL_HEADER]: '1',
    })
    stream.on('error', () => {})
    stream.end(JSON.stringify(spec))
    const reader = new FrameReader()
    await new Promise<void>((done) => {
      stream.on('data', (chunk: Buffer) => {
        seen.push(...reader.push(chunk))
        if (seen.length >= 5) done()
      })
    })
    vanish(first)
    const position = seen
      .filter((frame) => isInLog(frame.type))
      .reduce((sum, frame) => sum + FRAME_HEADER_BYTES + frame.payload.length, 0)
    await sleep(200)
    const second = await accept()
    const rest = framesOf(await ask(second, 'GET', `/jobs/counting/output?after=${position}`))
    expect(stdoutOf([...seen, ...rest])).toBe(Array.from({ length: 20 }, (_, index) => `${index}\n`).join(''))
    expect(rest.at(-1)?.type).toBe(FRAME.exit)
    vanish(second)
  })

  it('ends its jobs and exits on SIGTERM', async () => {
    start()
    const session = await accept()
    await ask(session, 'PUT', '/jobs/long', { kind: 'exec', argv: ['sleep', '1000'] })
    const { pid } = JSON.parse((await ask(session, 'GET', '/jobs/long')).toString())
    sidecar.kill('SIGTERM')
    const [code] = await once(sidecar, 'exit')
    expect(code).toBe(0)
    // The process id becomes free a moment later, when the new parent has reaped the process.
    expect(ownerOf(pid)).toBeUndefined()
    vanish(session)
  })

  it('blocks a program when its disk is full and nothing reads, and tells a late reader which part is missing', async () => {
    start([...WITH_SMALL_DISK, join(folder, 'spill')])
    const session = await accept()
    const bytes = 5_000_000
    await ask(session, 'PUT', '/jobs/much', {
      kind: 'exec',
      argv: ['head', '-c', String(bytes), '/dev/zero'],
    })
    const status = async () => JSON.parse((await ask(session, 'GET', '/jobs/much')).toString())
    let { position } = await status()
    for (let before = -1; before !== position || position === 0; ) {
      before = position
      await sleep(300)
      position = (await status()).position
    }
    expect(await status()).toMatchObject({ state: 'running', first: 0 })
    expect(position).toBeLessThan(3_000_000)
    // The first reader gets all of it. A later reader gets only the rest.
    expect(stdoutOf(framesOf(await ask(session, 'GET', '/jobs/much/output')))).toHaveLength(bytes)
    const later = framesOf(await ask(session, 'GET', '/jobs/much/output'))
    const gap = later.find((frame) => frame.type === FRAME.gap)
    const { from, to } = JSON.parse(gap!.payload.toString())
    const inLog = later.filter((frame) => isInLog(frame.type))
    const length = inLog.reduce((sum, frame) => sum + FRAME_HEADER_BYTES + frame.payload.length, 0)
    expect(length + to - from).toBe((await status()).position)
    vanish(session)
  })
})

/**
 * Times a key until its echo on a terminal: in a sandbox over the boundary and over the API, against a terminal of the
 * host.
 */
import { PassThrough } from 'node:stream'
import { spawn } from '@lydell/node-pty'
import { FRAME, FrameReader } from '../src/lib/frames.ts'
import { runJob } from '../src/sdk/run-job.ts'
import { type Row, timeInTurns } from './measure.ts'
import { compareTimes, type Layers } from './sandboxes-exec.ts'
import { type BareScene, jobId, never, type Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 100, counted: 1_000 }
const SIZE = { cols: 80, rows: 24 }
/** The terminal itself echoes. The program only keeps it open. */
const PROGRAM = ['sleep', '100000']

interface Typist extends AsyncDisposable {
  /** Types one key and waits for its echo. */
  key(): Promise<void>
}

export async function terminalRows({ bare, supervised, sandbox }: Layers): Promise<Row[]> {
  await using local = typeHere()
  await using boundary = await typeOverBoundary(bare)
  await using api = await typeOverApi(supervised, sandbox)
  const times = await timeInTurns(ROUNDS, {
    local: () => local.key(),
    boundary: () => boundary.key(),
    api: () => api.key(),
  })
  const here = { against: 'a terminal of the host’s own (node-pty)', theirs: times.local }
  return [
    compareTimes('key to echo over the boundary', times.boundary, here),
    compareTimes('key to echo through the supervisor’s API with the SDK', times.api, here),
  ]
}

/** Waits for the next echo. */
class Echo {
  #heard = Promise.withResolvers<void>()

  onOutput(): void {
    this.#heard.resolve()
  }

  async after(type: () => unknown): Promise<void> {
    this.#heard = Promise.withResolvers()
    const { promise } = this.#heard
    await type()
    await promise
  }
}

function typeHere(): Typist {
  const echo = new Echo()
  const [program, ...args] = PROGRAM
  const terminal = spawn(program!, args, SIZE)
  terminal.onData(() => echo.onOutput())
  const exited = new Promise<void>((resolve) => void terminal.onExit(() => resolve()))
  return {
    key: () => echo.after(() => terminal.write('x')),
    async [Symbol.asyncDispose]() {
      terminal.kill('SIGKILL')
      await exited
    },
  }
}

async function typeOverBoundary({ boundary: { jobs } }: BareScene): Promise<Typist> {
  const echo = new Echo()
  const id = jobId()
  const { output } = await jobs.start(id, { kind: 'terminal', argv: PROGRAM, ...SIZE }, never)
  const frames = new FrameReader()
  output.on('data', (chunk: Buffer) => {
    for (const { type } of frames.push(chunk)) if (type === FRAME.stdout) echo.onOutput()
  })
  const keys = new PassThrough()
  const fed = jobs.input(id, 0, keys, true, never)
  return {
    key: () => echo.after(() => keys.write('x')),
    async [Symbol.asyncDispose]() {
      keys.end()
      await fed
      await jobs.forget(id, never)
    },
  }
}

async function typeOverApi({ client }: Supervised, sandbox: string): Promise<Typist> {
  const echo = new Echo()
  const id = jobId()
  const keys = new PassThrough()
  const started = Promise.withResolvers<void>()
  const running = runJob(
    client,
    sandbox,
    { kind: 'terminal', argv: [...PROGRAM], ...SIZE },
    { jobId: id, stdin: keys, onStdout: () => echo.onOutput(), onStarted: () => started.resolve() },
  )
  running.catch(started.reject)
  await started.promise
  return {
    key: () => echo.after(() => keys.write('x')),
    async [Symbol.asyncDispose]() {
      await client.jobs.cancel(sandbox, id)
      await running.catch(() => {})
    },
  }
}

/** `craik sandbox shell`: a terminal inside, in the terminal here. */
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { FRAME_HEADER_BYTES } from '../../lib/frames.ts'
import { parseReference } from '../../lib/ids.ts'
import type { JobBody } from '../../operator/api/bodies.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { isTakenOver } from '../../sdk/feed-job.ts'
import { attachJob, type JobEnd, type RunJobOptions, runJob } from '../../sdk/run-job.ts'
import type { CliContext } from '../context.ts'
import { connect } from './connect.ts'
import { DetachKeys } from './detach-keys.ts'
import { parseEnvironment } from './environment.ts'
import { jobIdOf } from './exec.ts'
import { parseFolder } from './inside-folder.ts'
import { exitCodeOf, explanationOf } from './outcome.ts'
import { RawTerminal, requireTerminal } from './raw-terminal.ts'
import { ReplayGate } from './replay-gate.ts'
import { writeTo } from './streams.ts'

interface ShellOptions {
  readonly attach?: string
  readonly cwd?: string
  readonly env?: readonly string[]
  readonly grant?: string
}

/** Bash where the sandbox has one. */
const LOGIN_SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash -l; exec sh -l']

/** How long leaving waits for what was typed before. */
const LEAVE_MS = 2_000
const POLL_MS = 20

export function shellCommand(context: CliContext): Command {
  return new Command('shell')
    .description('open a terminal inside')
    .argument('<id>', 'id or name')
    .argument('[argv...]', 'a program other than the shell, after --')
    .usage('[options] <id> [-- <program> [arguments...]]')
    .option('--attach <job>', 'go back to a terminal that was left')
    .option('--cwd <folder>', 'where to begin; relative to the workspace')
    .option('--env <name=value...>', 'variables for it')
    .option('--grant <id>', 'the grant to use; without it a usable one is looked up')
    .addHelpText('after', HELP)
    .action(async (id: string, argv: readonly string[], options: ShellOptions) => {
      if (options.attach !== undefined && argv.length > 0)
        throw new CraikError('usage', '--attach goes to what runs already, and starts nothing')
      const jobId = jobIdOf(context, options.attach)
      const env = parseEnvironment(options.env)
      const cwd = options.cwd === undefined ? undefined : parseFolder(options.cwd, '--cwd')
      const grant = options.grant === undefined ? undefined : parseReference<string>(options.grant, '--grant')
      requireTerminal(context, `craik sandbox exec ${id} -- ${argv[0] ?? 'ls'}`)
      using client = await connect(context)
      const sandbox = await client.sandboxes.get(id, { signal: context.signal })
      const session = new Session(context, client, sandbox.id, jobId, grant)
      const spec = (cols: number, rows: number): JobRequestBody => ({
        kind: 'terminal',
        argv: argv.length === 0 ? LOGIN_SHELL : [...argv],
        ...(cwd !== undefined && { cwd }),
        ...(Object.keys(env).length > 0 && { env }),
        ...{ cols, rows, term: termOf(context) },
      })
      const end = await session.run(options.attach === undefined ? spec : undefined)
      if (end === undefined) {
        context.stderr.write(`  left; it goes on:  craik sandbox shell ${id} --attach ${jobId}\n`)
        return
      }
      const explanation = explanationOf(end.result, id, { cwd: options.cwd, program: argv[0] })
      if (explanation !== undefined) context.stderr.write(`craik: ${explanation}\n`)
      context.setExitCode(exitCodeOf(end.result))
    })
}

/** The terminal here and the one inside, joined until one of them ends or the person leaves. */
class Session {
  readonly #context: CliContext
  readonly #client: ApiClient
  readonly #sandbox: string
  readonly #options: RunJobOptions
  readonly #left = new AbortController()
  readonly #typed = new PassThrough()
  #gate = new ReplayGate(0)
  /** Whether something of the terminal inside is on the screen. */
  #shown = false
  /** Where in the terminal's whole input begins what is typed here; undefined until that is known. */
  #inputBase: number | undefined
  #typedBytes = 0

  constructor(context: CliContext, client: ApiClient, sandbox: string, jobId: string, grant?: string) {
    this.#context = context
    this.#client = client
    this.#sandbox = sandbox
    this.#options = {
      jobId,
      stdin: this.#typed,
      signal: AbortSignal.any([this.#left.signal, context.signal]),
      onStdout: async (chunk) => {
        this.#shown = true
        await writeTo(context.stdout, chunk)
        this.#gate.passed(FRAME_HEADER_BYTES + chunk.length)
      },
      onInput: (offset) => {
        this.#inputBase = offset
      },
      onGap: (lostBytes) => this.#gate.passed(lostBytes),
      ...(grant !== undefined && { grantId: grant }),
    }
  }

  /** Undefined when the person left. Without a spec it goes to a terminal that runs. */
  async run(spec: ((cols: number, rows: number) => JobRequestBody) | undefined): Promise<JobEnd | undefined> {
    if (spec === undefined) {
      this.#gate = new ReplayGate((await this.#status()).position)
    }
    using terminal = new RawTerminal(this.#context)
    const { cols, rows } = terminal.size
    const resize = (size: { readonly cols: number; readonly rows: number }) => {
      // A size that did not arrive is made up for by the next.
      this.#client.jobs.resize(this.#sandbox, this.#options.jobId, size.cols, size.rows).catch(() => {})
    }
    terminal.onResize(resize)
    const stopTyping = this.#type()
    try {
      if (spec !== undefined)
        return await runJob(this.#client, this.#sandbox, spec(cols, rows), this.#options)
      resize(terminal.size)
      return await attachJob(this.#client, this.#sandbox, this.#options)
    } catch (error) {
      if (this.#shown) terminal.clear()
      if (this.#options.signal?.aborted) return undefined
      throw isTakenOver(error) ? this.#takenOver(error) : error
    } finally {
      stopTyping()
    }
  }

  #takenOver(error: CraikError): CraikError {
    const back = `craik sandbox shell ${this.#sandbox} --attach ${this.#options.jobId}`
    return new CraikError(error.code, error.message, {
      hint: `it goes on there; take it back with:  ${back}`,
      ...(error.details && { details: error.details }),
      cause: error,
    })
  }

  /** What was typed before the keys that leave still gets there, unless that takes too long. */
  async #leave(): Promise<void> {
    const patience = AbortSignal.timeout(LEAVE_MS)
    try {
      while (!patience.aborted && !(await this.#hasArrived())) await sleep(POLL_MS)
    } catch {
      // Whoever cannot be asked will not be told either.
    }
    this.#left.abort()
  }

  async #hasArrived(): Promise<boolean> {
    if (this.#typedBytes === 0) return true
    const base = this.#inputBase
    return base !== undefined && (await this.#status()).input_offset >= base + this.#typedBytes
  }

  #status(): Promise<JobBody> {
    return this.#client.jobs.get(this.#sandbox, this.#options.jobId, {
      signal: AbortSignal.timeout(LEAVE_MS),
    })
  }

  #type(): () => void {
    const { stdin } = this.#context
    const keys = new DetachKeys()
    const onData = (chunk: Buffer) => {
      // The keys that leave count at any time.
      const { data, detached } = keys.push(chunk)
      const admitted = this.#gate.admit(data)
      if (admitted.length > 0 && !this.#typed.destroyed) this.#typed.write(admitted)
      this.#typedBytes += admitted.length
      if (detached) void this.#leave()
    }
    stdin.on('data', onData)
    return () => {
      stdin.off('data', onData)
      this.#typed.destroy()
    }
  }
}

function termOf({ environment }: CliContext): string {
  const term = environment.TERM ?? ''
  return /^[A-Za-z0-9._+-]{1,64}$/.test(term) ? term : 'xterm-256color'
}

const HELP = `
Ctrl-] then d leaves it running; --attach goes back to it. Exits with the shell's own code, or with 4 when another
client attached: the last one to come has the input.
What a program inside writes reaches this terminal as it is, as with ssh.

Examples:
  craik sandbox shell parser
  craik sandbox shell parser -- vim README.md
`

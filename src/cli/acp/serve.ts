/** Serves an editor through the Agent Client Protocol on two streams. Each session is an agent in a sandbox. */
import { readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { type AgentContext, agent, ndJsonStream, RequestError } from '@agentclientprotocol/sdk'
import { CraikError } from '../../errors.ts'
import type { Harness, HarnessLogin } from '../../harnesses/harness.ts'
import { packageFile } from '../../lib/package-files.ts'
import type { PermissionMode } from '../../run/prompts/permissions.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { NO_LOGINS, readHarnessLogins, requireHarnessLogin } from '../prompt/harness-logins.ts'
import { limitSandbox } from '../prompt/prompt-budget.ts'
import { openPromptSandbox, type PromptSandboxOptions } from '../prompt/prompt-sandbox.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { EditorSession } from './editor-session.ts'
import { Outbox } from './outbox.ts'
import { withRequestErrors } from './request-error.ts'
import { runOfSession } from './session-id.ts'

export interface ServeOptions extends PromptSandboxOptions {
  readonly harness: Harness
  readonly model: string | undefined
  readonly budgetNanoUsd: number | undefined
  readonly permissions: PermissionMode
  readonly timeoutMs: number
  readonly isApplied: boolean
}

/** The limit for one message of the editor. Messages can contain files and pictures. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024

/** Returns when the editor disconnects or the command is interrupted. It stops the agents and keeps the sandboxes. */
export async function serveEditor(context: CliContext, options: ServeOptions): Promise<void> {
  const over = new AbortController()
  const server = new Server(
    // Only messages of the protocol may go to stdout.
    {
      ...context,
      stdout: context.stderr,
      signal: AbortSignal.any([context.signal, over.signal]),
    },
    options,
  )
  const connection = server
    .app()
    .connect(
      ndJsonStream(
        Writable.toWeb(context.stdout) as WritableStream<Uint8Array>,
        Readable.toWeb(context.stdin) as ReadableStream<Uint8Array>,
        { maxMessageBytes: MAX_MESSAGE_BYTES },
      ),
    )
  server.editor = connection.client
  await Promise.race([connection.closed, waitForAbort(context.signal)])
  over.abort(new CraikError('interrupted', 'the editor disconnected'))
  connection.close()
  await server.close()
}

class Server {
  readonly #context: CliContext
  readonly #options: ServeOptions
  readonly #sessions = new Map<string, EditorSession>()
  /** The request handlers that still run. Each one has to complete the record that it began. */
  readonly #working = new Set<Promise<unknown>>()
  #client: Promise<ApiClient> | undefined
  #outbox: Outbox | undefined
  #isReported = false
  editor: AgentContext | undefined

  constructor(context: CliContext, options: ServeOptions) {
    this.#context = context
    this.#options = options
  }

  app() {
    const { harness } = this.#options
    return agent({ name: 'craik' })
      .onRequest('initialize', () => ({
        protocolVersion: 1,
        agentInfo: { name: 'craik', title: `${harness.title} in a sandbox`, version: version() },
        agentCapabilities: {
          loadSession: true,
          promptCapabilities: { image: true, embeddedContext: true },
          sessionCapabilities: { close: {} },
        },
        authMethods:
          harness.logins.length === 0
            ? []
            : [
                {
                  id: LOGIN,
                  name: `${harness.title} login on this machine`,
                  description: harness.loginCommand,
                },
              ],
      }))
      .onRequest('authenticate', () => this.#work(async () => void (await this.#login())))
      .onRequest('session/new', ({ params }) =>
        this.#work(async () => {
          this.#warnUnavailable(params)
          const { session, answer } = await this.#open(params.cwd)
          // The response goes first, because the editor learns the session id from it and cannot assign earlier
          // updates.
          setImmediate(() => session.release())
          return { sessionId: session.id, ...answer }
        }),
      )
      .onRequest('session/load', ({ params }) =>
        this.#work(async () => {
          this.#warnUnavailable(params)
          await this.#sessions.get(params.sessionId)?.close()
          const run = await runOfSession(this.#context, harness.name, params.sessionId)
          return (await this.#open(params.cwd, { id: params.sessionId, run })).answer
        }),
      )
      .onRequest('session/prompt', ({ params, signal }) =>
        this.#work(() => this.#session(params.sessionId).prompt(params.prompt, signal)),
      )
      .onRequest('session/set_mode', ({ params }) =>
        this.#work(async () => {
          await this.#session(params.sessionId).setMode(params.modeId)
          return {}
        }),
      )
      .onRequest('session/set_config_option', ({ params }) =>
        this.#work(async () => {
          const { sessionId, configId, value } = params
          const { configOptions } = await this.#session(sessionId).setConfigOption(configId, value)
          return { configOptions: configOptions ?? [] }
        }),
      )
      .onRequest('session/close', ({ params }) =>
        this.#work(async () => {
          await this.#session(params.sessionId).close()
          this.#sessions.delete(params.sessionId)
          return {}
        }),
      )
      .onNotification('session/cancel', ({ params }) => this.#sessions.get(params.sessionId)?.cancel())
  }

  /** Always finishes, because each of its steps has a time limit. */
  async close(): Promise<void> {
    const closeAll = () => Promise.allSettled([...this.#sessions.values()].map((session) => session.close()))
    await closeAll()
    await Promise.allSettled(this.#working)
    // Closes the sessions that were still opening.
    await closeAll()
    const client = await this.#client?.catch(() => undefined)
    client?.[Symbol.dispose]()
  }

  #work<T>(work: () => Promise<T>): Promise<T> {
    const doing = withRequestErrors(work)
    this.#working.add(doing)
    void doing.catch(() => {}).finally(() => this.#working.delete(doing))
    return doing
  }

  #session(id: string): EditorSession {
    const session = this.#sessions.get(id)
    if (session === undefined) throw RequestError.sessionNotFound(id)
    return session
  }

  async #login(): Promise<HarnessLogin | undefined> {
    const { harness } = this.#options
    return requireHarnessLogin(
      harness,
      harness.logins.length === 0 ? NO_LOGINS : await readHarnessLogins(this.#context),
    )
  }

  async #open(cwd: string, known?: Known) {
    const run = known?.run
    const { harness, model, permissions, timeoutMs, isApplied, budgetNanoUsd } = this.#options
    if (!isAbsolute(cwd))
      throw new CraikError(
        'usage',
        `cwd must be an absolute path, not ${JSON.stringify(cwd.slice(0, 200))}`,
        { hint: 'open a folder of this machine in the editor' },
      )
    if (run !== undefined && run.workspace !== null && resolve(cwd) !== resolve(run.workspace))
      throw new CraikError('usage', `session ${known?.id} belongs to another folder than ${cwd}`, {
        hint: `start a new session here, or open the folder of that session in the editor (find it with  craik run show ${run.id})`,
      })
    const login = await this.#login()
    this.#client ??= connect(this.#context).catch((error) => {
      this.#client = undefined
      throw error
    })
    const client = await this.#client
    const context = this.#context
    const sandbox = await openPromptSandbox(
      context,
      client,
      harness,
      { ...this.#options, workspace: cwd },
      run,
    )
    if (budgetNanoUsd !== undefined && sandbox.made)
      await limitSandbox(context, sandbox.sandbox.id, budgetNanoUsd)
    const editor = this.editor!
    this.#outbox ??= new Outbox(editor)
    const session = new EditorSession(
      {
        context,
        client,
        editor,
        outbox: this.#outbox,
        harness,
        login,
        model,
        permissions,
        timeoutMs,
        isApplied,
      },
      sandbox,
    )
    const answer = known === undefined ? await session.begin() : await session.load(known.id, known.run)
    if (known === undefined && this.#sessions.has(session.id)) {
      await session.close()
      throw new CraikError(
        'harness_failed',
        `${harness.name} reported the id of a session that is already open: ${session.id}`,
        { hint: 'close the other session in the editor, then start a new one' },
      )
    }
    this.#sessions.set(session.id, session)
    context.stderr.write(`craik: ${harness.name} in ${sandbox.sandbox.name}\n`)
    return { session, answer }
  }

  /** Warns once about programs and folders of the host that the editor offers, because no sandbox can reach them. */
  #warnUnavailable({ mcpServers, additionalDirectories }: Left): void {
    const left = [
      ...(mcpServers.length > 0 ? ['MCP servers'] : []),
      ...((additionalDirectories?.length ?? 0) > 0 ? ['additional folders'] : []),
    ]
    if (left.length === 0 || this.#isReported) return
    this.#isReported = true
    this.#context.stderr.write(`craik: the editor's ${left.join(' and ')} are not available in the sandbox\n`)
  }
}

/** A session of an earlier run, with the editor's id for it. */
interface Known {
  readonly id: string
  readonly run: PromptRun & { readonly agent_session: string }
}

interface Left {
  readonly mcpServers: readonly unknown[]
  readonly additionalDirectories?: readonly string[]
}

const LOGIN = 'host-login'

function waitForAbort(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

function version(): string {
  return (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version
}

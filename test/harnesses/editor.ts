/** A minimal editor: it starts `craik acp`, sends prompts, records the updates and answers permission requests. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ClientContext,
  client,
  type McpServer,
  ndJsonStream,
  type PromptResponse,
  type RequestPermissionRequest,
  type SessionNotification,
  type SessionUpdate,
} from '@agentclientprotocol/sdk'
import type { SandboxHome } from '../sandbox-home.ts'

/** Methods that an editor offers on the host, and that no agent in a sandbox may use. */
const OF_THE_HOST = [
  'fs/write_text_file',
  'fs/read_text_file',
  'terminal/create',
  'terminal/output',
  'elicitation/create',
  'x/anything',
] as const

export type Tool = Extract<SessionUpdate, { sessionUpdate: 'tool_call' | 'tool_call_update' }>

export class Editor implements AsyncDisposable {
  readonly heard: SessionNotification[] = []
  readonly asked: RequestPermissionRequest[] = []
  /** Methods of the host that were called. */
  readonly reached: string[] = []
  /** The answer to permission requests. With `undefined`, the editor does not answer. */
  answer: 'allow' | 'reject' | undefined = 'allow'
  readonly agent: ClientContext
  readonly #child: ChildProcess
  readonly exited: Promise<number | null>
  stderr = ''
  /** Output lines that are not messages of the protocol. */
  readonly strange: string[] = []

  constructor(home: SandboxHome, args: readonly string[]) {
    const { node, main } = home.program
    const child = spawn(node, [main, 'acp', ...args], {
      ...home.user,
      cwd: home.folder,
      env: home.environment,
      stdio: 'pipe',
    })
    this.#child = child
    this.exited = once(child, 'close').then(([code]) => code as number | null)
    child.stdin.on('error', () => {})
    child.stderr.on('data', (piece) => {
      this.stderr += piece
    })
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!/^\{"jsonrpc":"2\.0",.*\}$/.test(line)) this.strange.push(line)
    })
    const app = client({ name: 'editor' })
      .onNotification('session/update', ({ params }) => {
        this.heard.push(params)
      })
      .onRequest('session/request_permission', async ({ params, signal }) => {
        this.asked.push(params)
        const { answer } = this
        if (answer !== undefined) return { outcome: { outcome: 'selected', optionId: answer } }
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        return { outcome: { outcome: 'cancelled' } }
      })
    for (const method of OF_THE_HOST)
      app.onRequest(
        method as string,
        (params: unknown) => params,
        () => {
          this.reached.push(method)
          return {}
        },
      )
    const output = Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>
    this.agent = app.connect(
      ndJsonStream(Writable.toWeb(child.stdin) as WritableStream<Uint8Array>, output),
    ).agent
  }

  initialize() {
    return this.agent.request('initialize', {
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
      clientInfo: { name: 'editor', version: '1' },
    })
  }

  /** Starts a session. It sends the editor's own MCP server, as editors do. */
  begin(cwd: string) {
    const tools: McpServer = { name: 'tools', command: '/bin/false', args: [], env: [] }
    return this.agent.request('session/new', { cwd, mcpServers: [tools] })
  }

  prompt(sessionId: string, text: string): Promise<PromptResponse> {
    return this.agent.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] })
  }

  /** Returns all text of the agent. */
  textOf(sessionId: string): string {
    return this.heard
      .filter((each) => each.sessionId === sessionId)
      .map(({ update }) =>
        update.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text'
          ? update.content.text
          : '',
      )
      .join('')
  }

  tools(): readonly Tool[] {
    return this.heard.flatMap(({ update }) =>
      update.sessionUpdate === 'tool_call' || update.sessionUpdate === 'tool_call_update' ? [update] : [],
    )
  }

  /** Waits until the condition about the received updates is true. */
  async until(holds: () => boolean): Promise<void> {
    for (const endsMs = performance.now() + 60_000; !holds(); await sleep(20))
      if (performance.now() > endsMs)
        throw new Error(`not heard: ${JSON.stringify(this.heard)} ${this.stderr}`)
  }

  /** Closes the input, as an editor does when the user closes it. */
  async hangUp(): Promise<number | null> {
    this.#child.stdin!.end()
    return this.exited
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.#child.kill(signal)
    return this.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.hangUp()
  }
}

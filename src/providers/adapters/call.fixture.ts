/** Calls an adapter the way dispatch does and gathers what comes, for tests. */
import type { Message, ModelRequest, StopReason, ToolCall, Usage } from '../conversation.ts'
import type { Adapter, Endpoint, Failure } from './adapter.ts'
import { failureOf } from './failure.ts'

/** No vendor's shape: only knowing it tells that it is a secret. */
export const KEY = 'correct-horse-battery-staple'

const RUN_COMMAND = {
  name: 'run_command',
  description: 'Runs a registered command.',
  parameters: { type: 'object', properties: { command_ref: { type: 'string' } }, required: ['command_ref'] },
}

export interface Gathered {
  readonly text: string
  readonly toolCalls: readonly ToolCall[]
  readonly usage: readonly Usage[]
  readonly reason: StopReason | undefined
  readonly model: string | undefined
  readonly failure: Failure | undefined
  /** Of the error, if there was one. */
  readonly message: string
}

export function endpointAt(baseUrl: string, changes: Partial<Endpoint> = {}): Endpoint {
  return {
    baseUrl,
    loopbackOnly: true,
    credential: Buffer.from(KEY),
    connectTimeoutMs: 5_000,
    headersTimeoutMs: 10_000,
    idleTimeoutMs: 10_000,
    ...changes,
  }
}

export function asking(
  messages: readonly Message[] | string,
  changes: Partial<ModelRequest> = {},
): ModelRequest {
  return {
    model: 'model-1',
    messages: typeof messages === 'string' ? [{ role: 'user', text: messages }] : messages,
    tools: [RUN_COMMAND],
    maxOutputTokens: 2_048,
    ...changes,
  }
}

/** Errors that are no failure of the provider are thrown on. */
export async function gather(
  adapter: Adapter,
  endpoint: Endpoint,
  request: ModelRequest,
  signal: AbortSignal = new AbortController().signal,
  onText: (text: string) => void = () => {},
): Promise<Gathered> {
  let text = ''
  const toolCalls: ToolCall[] = []
  const usage: Usage[] = []
  let reason: StopReason | undefined
  let model: string | undefined
  let failure: Failure | undefined
  let message = ''
  try {
    for await (const event of adapter.call(endpoint, request, adapter.encode(request), signal)) {
      if (reason !== undefined) throw new Error('something came after the end')
      if (event.type === 'text') {
        text += event.text
        onText(event.text)
      } else if (event.type === 'tool_call') toolCalls.push(event.call)
      else if (event.type === 'usage') usage.push(event.usage)
      else ({ reason, model } = event)
    }
  } catch (error) {
    failure = failureOf(error)
    if (failure === undefined) throw error
    message = `${(error as Error).message} ${(error as Error).stack}`
  }
  return { text, toolCalls, usage, reason, model, failure, message }
}

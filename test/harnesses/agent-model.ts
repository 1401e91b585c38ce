/**
 * Answers of a model to an agent, in the wire format of the request. The prompt decides the answer: to `RUN: command`,
 * the model answers with a call of the agent's shell tool, and to the tool's result with a short text.
 */

export type Wire = 'anthropic' | 'responses' | 'chat' | 'gemini'

/** The content of an answer, without a wire format. */
type Saying =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly tool: Tool; readonly command: string }

interface Tool {
  readonly name: string
  /** The JSON schema of its arguments. */
  readonly takes: { readonly properties?: Readonly<Record<string, { readonly type?: unknown }>> }
  /** True if the model calls the tool with a program instead of JSON. */
  readonly isCustom?: boolean
}

interface Answer {
  readonly isStream: boolean
  readonly text: string
}

// biome-ignore lint/suspicious/noExplicitAny: what agents send is looked at, not checked; the gateway's tests check it.
type Body = any

export const DONE = 'That is done'
const SHELL_TOOLS = [
  'Bash',
  'exec_command',
  'shell',
  'shell_command',
  'run_shell_command',
  'bash',
  'Shell',
  'exec',
]

/** How the model responds to prompts. */
export interface ModelScript {
  /** Matches a prompt that contains commands. */
  readonly order: RegExp
  /** Returns the model's next command after that many tool results, or only its answer. */
  next(prompt: string, results: number): { readonly command?: string | undefined; readonly text: string }
}

/** Runs the command in `RUN: command`. */
const RUN_ORDERS: ModelScript = {
  order: /RUN: /,
  next(prompt, results) {
    const command = results === 0 ? /RUN: (.+?)(?:"|\n|$)/.exec(prompt)?.[1] : undefined
    return { command, text: `${results > 0 ? DONE : 'Heard'}: ${prompt.slice(0, 40)}` }
  },
}

export function answerOf(wire: Wire, path: string, body: Body, script = RUN_ORDERS): Answer {
  const heard = PARSERS[wire](body, script)
  const reply = say(heard, script)
  return ENCODERS[wire](reply, body, path)
}

interface Heard {
  /** The newest text of the user that contains a command. */
  readonly prompt: string
  /** The number of tool results after it. */
  readonly results: number
  readonly tools: readonly Tool[]
}

function say({ prompt, results, tools }: Heard, script: ModelScript): Saying {
  const { command, text } = script.next(prompt, results)
  const tool = tools.find(({ name }) => SHELL_TOOLS.includes(name))
  return command === undefined || tool === undefined
    ? { kind: 'text', text }
    : { kind: 'call', tool, command }
}

/** Finds the last text with a command, and counts the results after it. */
function findHeard(
  items: readonly { readonly text?: string; readonly isResult?: boolean }[],
  tools: readonly Tool[],
  { order }: ModelScript,
): Heard {
  const at = items.findLastIndex(({ text }) => text !== undefined && order.test(text))
  const last = at === -1 ? items.findLastIndex(({ text }) => text !== undefined) : at
  return {
    prompt: items[last]?.text ?? '',
    results: items.slice(last + 1).filter(({ isResult }) => isResult === true).length,
    tools,
  }
}

const PARSERS: Readonly<Record<Wire, (body: Body, script: ModelScript) => Heard>> = {
  anthropic: ({ messages, tools = [] }, script) =>
    findHeard(
      messages.flatMap(({ role, content }: Body) =>
        role !== 'user'
          ? []
          : typeof content === 'string'
            ? [{ text: content }]
            : content.map((part: Body) => ({ text: part.text, isResult: part.type === 'tool_result' })),
      ),
      tools.map(({ name, input_schema }: Body) => ({ name, takes: input_schema ?? {} })),
      script,
    ),
  responses: ({ input, tools = [] }, script) =>
    findHeard(
      (typeof input === 'string' ? [{ role: 'user', content: input }] : input).flatMap((item: Body) =>
        /_output$/.test(item.type ?? '')
          ? [{ isResult: true }]
          : item.role !== 'user'
            ? []
            : typeof item.content === 'string'
              ? [{ text: item.content }]
              : item.content.map((part: Body) => ({ text: part.text })),
      ),
      [...tools, ...(Array.isArray(input) ? input.flatMap((item: Body) => item.tools ?? []) : [])]
        .flatMap((tool: Body) => (tool.type === 'namespace' ? tool.tools : [tool]))
        .map(({ name, parameters, type }: Body) => ({
          name: name ?? type,
          takes: parameters ?? {},
          isCustom: type === 'custom',
        })),
      script,
    ),
  chat: ({ messages, tools = [] }, script) =>
    findHeard(
      messages.flatMap(({ role, content }: Body) =>
        role === 'tool'
          ? [{ isResult: true }]
          : role !== 'user'
            ? []
            : typeof content === 'string'
              ? [{ text: content }]
              : content.map((part: Body) => ({ text: part.text })),
      ),
      tools.map(({ function: of }: Body) => ({ name: of.name, takes: of.parameters ?? {} })),
      script,
    ),
  gemini: (body, script) => {
    const { contents = [], tools = [] } = body.request ?? body
    return findHeard(
      contents.flatMap(({ role, parts }: Body) =>
        role === 'model'
          ? []
          : parts.map((part: Body) => ({ text: part.text, isResult: part.functionResponse !== undefined })),
      ),
      tools.flatMap(({ functionDeclarations = [] }: Body) =>
        functionDeclarations.map(({ name, parameters, parametersJsonSchema }: Body) => ({
          name,
          takes: parametersJsonSchema ?? parameters ?? {},
        })),
      ),
      script,
    )
  },
}

/** Returns arguments that match the tool's schema. Some tools take a list of words. */
function argumentsFor({ takes }: Tool, command: string): Record<string, unknown> {
  const properties = takes.properties ?? {}
  const name = ['command', 'cmd', 'script'].find((each) => each in properties) ?? 'command'
  const isList = properties[name]?.type === 'array'
  const described = 'description' in properties ? { description: 'as it was asked' } : {}
  return { [name]: isList ? ['bash', '-lc', command] : command, ...described }
}

const event = (data: unknown, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
const namedEvent = (data: { readonly type: string; readonly [name: string]: unknown }) =>
  event(data, data.type)

const ENCODERS: Readonly<Record<Wire, (reply: Saying, body: Body, path: string) => Answer>> = {
  anthropic(reply, { model, stream }) {
    const usage = {
      input_tokens: 12,
      output_tokens: 6,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
    }
    const block =
      reply.kind === 'text'
        ? { type: 'text', text: reply.text }
        : {
            type: 'tool_use',
            id: `toolu_${nextNumber()}`,
            name: reply.tool.name,
            input: argumentsFor(reply.tool, reply.command),
          }
    const stop_reason = reply.kind === 'text' ? 'end_turn' : 'tool_use'
    const message = {
      id: `msg_${nextNumber()}`,
      type: 'message',
      role: 'assistant',
      model,
      usage,
      stop_sequence: null,
    }
    if (!stream) return whole({ ...message, content: [block], stop_reason })
    const delta =
      block.type === 'text'
        ? { type: 'text_delta', text: block.text }
        : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    return streamAnswer([
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
      {
        type: 'content_block_start',
        index: 0,
        content_block: block.type === 'text' ? { ...block, text: '' } : { ...block, input: {} },
      },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
      { type: 'message_stop' },
    ])
  },
  responses(reply, { model, stream }) {
    const usage = {
      input_tokens: 12,
      output_tokens: 6,
      total_tokens: 18,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    }
    const item = responsesItem(reply)
    const response = {
      id: `resp_${nextNumber()}`,
      object: 'response',
      status: 'completed',
      model,
      output: [item],
      usage,
    }
    if (!stream) return whole(response)
    return streamAnswer([
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } },
      { type: 'response.output_item.added', output_index: 0, item },
      ...(reply.kind === 'text'
        ? [
            {
              type: 'response.output_text.delta',
              item_id: item.id,
              output_index: 0,
              content_index: 0,
              delta: reply.text,
            },
          ]
        : []),
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response },
    ])
  },
  chat(reply, { model, stream }) {
    const usage = { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18 }
    const common = { id: `chatcmpl-${nextNumber()}`, created: 1_767_225_600, model }
    const call = reply.kind === 'call' && {
      id: `call_${nextNumber()}`,
      type: 'function',
      function: { name: reply.tool.name, arguments: JSON.stringify(argumentsFor(reply.tool, reply.command)) },
    }
    const finish_reason = call ? 'tool_calls' : 'stop'
    const message = {
      role: 'assistant',
      content: reply.kind === 'text' ? reply.text : null,
      ...(call && { tool_calls: [call] }),
    }
    if (!stream)
      return whole({
        ...common,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason }],
        usage,
      })
    const chunk = (choices: unknown[], more = {}) =>
      event({ ...common, object: 'chat.completion.chunk', choices, ...more })
    const delta = { ...message, ...(call && { tool_calls: [{ index: 0, ...call }] }) }
    return {
      isStream: true,
      text: `${chunk([{ index: 0, delta, finish_reason: null }])}${chunk([{ index: 0, delta: {}, finish_reason }])}${chunk([], { usage })}data: [DONE]\n\n`,
    }
  },
  gemini(reply, body, path) {
    const usageMetadata = { promptTokenCount: 12, candidatesTokenCount: 6, totalTokenCount: 18 }
    const schema = (body.request ?? body).generationConfig?.responseJsonSchema
    const part = schema
      ? { text: JSON.stringify(sampleOf(schema)) }
      : reply.kind === 'text'
        ? { text: reply.text }
        : { functionCall: { name: reply.tool.name, args: argumentsFor(reply.tool, reply.command) } }
    const answer = {
      candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
      usageMetadata,
      modelVersion: body.model ?? 'gemini',
    }
    const provided =
      body.request === undefined ? answer : { response: answer, traceId: `trace-${nextNumber()}` }
    return path.includes(':streamGenerateContent')
      ? { isStream: true, text: event(provided) }
      : whole(provided)
  },
}

function responsesItem(reply: Saying) {
  if (reply.kind === 'text') {
    const content = [{ type: 'output_text', text: reply.text, annotations: [] }]
    return { type: 'message', id: `msg_${nextNumber()}`, role: 'assistant', status: 'completed', content }
  }
  const { tool, command } = reply
  const common = {
    id: `fc_${nextNumber()}`,
    call_id: `call_${nextNumber()}`,
    name: tool.name,
    status: 'completed',
  }
  // Codex's own models write a program instead. It calls the tools by their names.
  if (tool.isCustom) {
    const input = `text(await tools.exec_command({ cmd: ${JSON.stringify(command)} }))`
    return { type: 'custom_tool_call', ...common, input }
  }
  return { type: 'function_call', ...common, arguments: JSON.stringify(argumentsFor(tool, command)) }
}

/** Returns a value that matches the schema. Some agents send such requests to a model before the real one. */
function sampleOf({ properties = {} }: Body): Record<string, unknown> {
  const value = ({ type, enum: choices }: Body) =>
    choices?.[0] ?? (/^(?:integer|number)$/i.test(type) ? 10 : /^boolean$/i.test(type) ? false : 'a word')
  return Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, value(each)]))
}

let count = 0
const nextNumber = () => ++count

const whole = (value: unknown): Answer => ({ isStream: false, text: JSON.stringify(value) })
const streamAnswer = (
  events: readonly { readonly type: string; readonly [name: string]: unknown }[],
): Answer => ({
  isStream: true,
  text: events.map((each, sequence_number) => namedEvent({ ...each, sequence_number })).join(''),
})

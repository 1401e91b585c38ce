/** OpenAI Responses, as the gateway passes it on. */
import { responsesUsage } from '../../../providers/adapters/openai-responses.ts'
import type { Loose } from '../json-members.ts'
import { edited, type Members, valueAt } from '../json-members.ts'
import { AnswerReader, has, member } from './answer-reader.ts'
import type { Dialect, DialectError, Malformed, ModelRequest, ScannedBody } from './dialect.ts'
import {
  capAt,
  type Field,
  fieldsOf,
  isMalformed,
  isPremiumTier,
  malformedJson,
  modelAndCap,
  modelAt,
} from './fields.ts'
import { openaiProblem } from './openai-error.ts'

export const openaiResponses: Dialect = {
  name: 'openai_responses',
  wire: 'openai_responses',
  providerId: 'provider_openai',
  family: 'openai',
  spokenBy: ({ family }) => family === 'openai',
  // The endpoint of ChatGPT logins refuses requests that name a cap.
  takesCap: (account) => account === undefined || account.kind === 'api_key',
  lookInto: {},
  ask,
  reader: () => new ResponsesReader(),
  errorBody: (error) => JSON.stringify({ error: openaiProblem(error) }),
  errorEvent: (error) => `event: response.failed\ndata: ${failedMessage(error)}\n\n`,
}

const NAMES = {
  model: ['model'],
  cap: ['max_output_tokens'],
  tier: ['service_tier'],
  background: ['background'],
  previous: ['previous_response_id'],
  conversation: ['conversation'],
  prompt: ['prompt'],
} as const

function ask({ bytes: body, members }: ScannedBody): ModelRequest | Malformed {
  if (typeof members === 'string') return malformedJson(members)
  const fields = fieldsOf(members, NAMES)
  if (isMalformed(fields)) return fields
  const asked = askOf(body, members, fields)
  if (isMalformed(asked)) return asked
  // What is referred to is input too, and its size is not known here.
  return { ...asked, unpriced: asked.unpriced || isSet(body, fields.previous) }
}

/** The same as a message of a WebSocket: an answer of before may be referred to, and its size is for whoever saw it. */
export interface CreateAsk extends ModelRequest {
  readonly previousId: string | undefined
  /** Nothing is to be generated: what is sent is only made ready for the next. */
  readonly isWarmUp: boolean
}

const MESSAGE_NAMES = {
  ...NAMES,
  type: ['type'],
  stream: ['stream_id'],
  nested: ['response'],
  generate: ['generate'],
} as const

export function createAsk({ bytes: body, members }: ScannedBody): CreateAsk | Malformed {
  if (typeof members === 'string') return malformedJson(members)
  const fields = fieldsOf(members, MESSAGE_NAMES)
  if (isMalformed(fields)) return fields
  const type = fields.type && valueAt(body, fields.type)
  if (type !== 'response.create') return { malformed: 'the only supported message is response.create' }
  if (isSet(body, fields.stream))
    return { malformed: 'stream_id is not supported: open a connection for each conversation' }
  // A server that looks in there would read another model, and another cap.
  if (fields.nested !== undefined) return { malformed: 'put the request in the message, not under response' }
  const previous = fields.previous && valueAt(body, fields.previous)
  if (isSet(body, fields.previous) && typeof previous !== 'string')
    return { malformed: 'previous_response_id must be the id of a response' }
  const asked = askOf(body, members, fields)
  if (isMalformed(asked)) return asked
  const isWarmUp = fields.generate !== undefined && valueAt(body, fields.generate) !== true
  return { ...asked, previousId: typeof previous === 'string' ? previous : undefined, isWarmUp }
}

function askOf(
  body: Buffer,
  members: Members,
  fields: Readonly<Partial<Record<keyof typeof NAMES, Field>>>,
): ModelRequest | Malformed {
  const model = modelAt(fields.model && valueAt(body, fields.model))
  if (isMalformed(model)) return model
  const cap = capAt(body, fields.cap)
  if (isMalformed(cap)) return cap
  if (isSet(body, fields.background) && valueAt(body, fields.background!) !== false)
    return { malformed: 'background is not supported: Craik cannot see its usage' }
  return {
    model,
    maxOutputTokens: cap,
    unpriced:
      isPremiumTier(body, fields.tier) || isSet(body, fields.conversation) || isSet(body, fields.prompt),
    spelled: (changes) => edited(body, modelAndCap(members, fields, 'max_output_tokens', changes)),
  }
}

function isSet(body: Buffer, field: Field | undefined): boolean {
  return field !== undefined && valueAt(body, field) !== null
}

/** An error as a message of a WebSocket, where nothing of an answer has been said. */
export function errorMessage(
  error: DialectError & { readonly code?: string },
  headers: Readonly<Record<string, string>> = {},
): string {
  const { code, ...problem } = openaiProblem(error)
  return JSON.stringify({
    type: 'error',
    status: error.status,
    error: { ...problem, code: error.code ?? code },
    ...(Object.keys(headers).length > 0 && { headers }),
  })
}

/** The same in the middle of one. */
export function failedMessage(error: DialectError): string {
  const { code, message } = openaiProblem(error)
  const response = { id: 'resp_craik', object: 'response', status: 'failed', error: { code, message } }
  return JSON.stringify({ type: 'response.failed', response })
}

export class ResponsesReader extends AnswerReader {
  /** What the answer may be referred to by, once it is complete. */
  responseId: string | undefined
  /** It says that nothing at all was used: of what was only made ready that may be true. */
  saysNothingUsed = false
  /** The status that the provider gave its own error, where it is a message by itself. */
  problemStatus: number | undefined

  protected override read(event: Loose): void {
    const type = member(event, 'type')
    if (typeof type !== 'string') throw new SyntaxError('an event without a type')
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
        this.usage = responsesUsage(member(event, 'response', 'usage'))
        this.saysNothingUsed = ['input_tokens', 'output_tokens'].every(
          (each) => member(event, 'response', 'usage', each) === 0,
        )
        this.responseId = name(member(event, 'response', 'id'))
        this.complete = true
        return
      case 'response.failed':
        this.problem = member(event, 'response', 'error') ?? {}
        return
      case 'error':
        this.problem = member(event, 'error') ?? event
        this.problemStatus = status(member(event, 'status') ?? member(event, 'status_code'))
        return
      default:
        if (type.endsWith('.delta')) this.wrote(member(event, 'delta'))
    }
  }

  override whole(answer: Loose): boolean {
    // What is compacted comes back as a list of items.
    if (member(answer, 'object') === undefined || has(answer, 'error')) return false
    this.usage = responsesUsage(member(answer, 'usage'))
    this.complete = true
    return true
  }
}

function name(value: Loose): string | undefined {
  return typeof value === 'string' && value.length <= 200 ? value : undefined
}

function status(value: Loose): number | undefined {
  return Number.isInteger(value) && Number(value) >= 400 && Number(value) < 600 ? Number(value) : undefined
}

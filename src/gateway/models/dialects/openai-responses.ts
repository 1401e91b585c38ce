/** OpenAI Responses, as the gateway forwards it. */
import { responsesUsage } from '../../../providers/adapters/openai-responses.ts'
import type { Loose } from '../json-members.ts'
import { applyEdits, type Members, valueAt } from '../json-members.ts'
import { AnswerReader, has, member } from './answer-reader.ts'
import type { DialectError, DialectRequest, GatewayDialect, Malformed, ScannedBody } from './dialect.ts'
import { openaiProblem } from './openai-error.ts'
import {
  capAt,
  describeJsonFault,
  type Field,
  fieldsOf,
  isMalformed,
  isPremiumTier,
  modelAndCap,
  modelAt,
} from './request-fields.ts'

export const openaiResponsesDialect: GatewayDialect = {
  name: 'openai_responses',
  wire: 'openai_responses',
  providerId: 'provider_openai',
  family: 'openai',
  usedBy: ({ family }) => family === 'openai',
  // The endpoint of ChatGPT logins rejects requests that set an output limit.
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

function ask({ bytes: body, members }: ScannedBody): DialectRequest | Malformed {
  if (typeof members === 'string') return describeJsonFault(members)
  const fields = fieldsOf(members, NAMES)
  if (isMalformed(fields)) return fields
  const request = askOf(body, members, fields)
  if (isMalformed(request)) return request
  // Referenced responses are input too, and their size is unknown here.
  return { ...request, unpriced: request.unpriced || isSet(body, fields.previous) }
}

/** The same request as a WebSocket message. It can refer to an earlier response, whose size the session knows. */
export interface CreateRequestFields extends DialectRequest {
  readonly previousId: string | undefined
  /** Nothing is generated: the input is only prepared for the next request. */
  readonly isWarmUp: boolean
}

const MESSAGE_NAMES = {
  ...NAMES,
  type: ['type'],
  stream: ['stream_id'],
  nested: ['response'],
  generate: ['generate'],
} as const

export function createAsk({ bytes: body, members }: ScannedBody): CreateRequestFields | Malformed {
  if (typeof members === 'string') return describeJsonFault(members)
  const fields = fieldsOf(members, MESSAGE_NAMES)
  if (isMalformed(fields)) return fields
  const type = fields.type && valueAt(body, fields.type)
  if (type !== 'response.create') return { malformed: 'the only supported message is response.create' }
  if (isSet(body, fields.stream))
    return { malformed: 'stream_id is not supported: open a connection for each conversation' }
  // A server that reads the nested request would see another model and another limit.
  if (fields.nested !== undefined) return { malformed: 'put the request in the message, not under response' }
  const previous = fields.previous && valueAt(body, fields.previous)
  if (isSet(body, fields.previous) && typeof previous !== 'string')
    return { malformed: 'previous_response_id must be the id of a response' }
  const request = askOf(body, members, fields)
  if (isMalformed(request)) return request
  const isWarmUp = fields.generate !== undefined && valueAt(body, fields.generate) !== true
  return { ...request, previousId: typeof previous === 'string' ? previous : undefined, isWarmUp }
}

function askOf(
  body: Buffer,
  members: Members,
  fields: Readonly<Partial<Record<keyof typeof NAMES, Field>>>,
): DialectRequest | Malformed {
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
    spelled: (changes) => applyEdits(body, modelAndCap(members, fields, 'max_output_tokens', changes)),
  }
}

function isSet(body: Buffer, field: Field | undefined): boolean {
  return field !== undefined && valueAt(body, field) !== null
}

/** Returns an error as a WebSocket message, before any event of a response. */
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

/** Returns an error as a WebSocket message in the middle of a response. */
export function failedMessage(error: DialectError): string {
  const { code, message } = openaiProblem(error)
  const response = { id: 'resp_craik', object: 'response', status: 'failed', error: { code, message } }
  return JSON.stringify({ type: 'response.failed', response })
}

export class ResponsesReader extends AnswerReader {
  /** The id by which later requests can refer to the complete response. */
  responseId: string | undefined
  /** Whether the response reports zero usage, which can be true only for a warm-up. */
  saysNothingUsed = false
  /** The status in the provider's own error message, if it is a separate message. */
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
    // Compaction returns a list of items.
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

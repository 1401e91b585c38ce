/** Anthropic Messages, as the gateway forwards it. */
import { type AnthropicCounts, anthropicUsage } from '../../../providers/adapters/anthropic-messages.ts'
import type { Loose } from '../json-members.ts'
import { applyEdits, valueAt } from '../json-members.ts'
import { AnswerReader, has, member } from './answer-reader.ts'
import type { DialectError, DialectRequest, GatewayDialect, Malformed, ScannedBody } from './dialect.ts'
import {
  capAt,
  describeJsonFault,
  fieldsOf,
  isMalformed,
  isPremiumTier,
  modelAndCap,
  modelAt,
} from './request-fields.ts'

export const anthropicMessagesDialect: GatewayDialect = {
  name: 'anthropic_messages',
  wire: 'anthropic_messages',
  providerId: 'provider_anthropic',
  family: 'anthropic',
  usedBy: ({ family }) => family === 'anthropic',
  takesCap: () => true,
  lookInto: {},
  ask,
  reader: () => new Reader(),
  errorBody: (error) => JSON.stringify(problem(error)),
  errorEvent: (error) => `event: error\ndata: ${JSON.stringify(problem(error))}\n\n`,
}

const NAMES = { model: ['model'], cap: ['max_tokens'], tier: ['service_tier'] } as const

function ask({ bytes: body, members }: ScannedBody): DialectRequest | Malformed {
  if (typeof members === 'string') return describeJsonFault(members)
  const fields = fieldsOf(members, NAMES)
  if (isMalformed(fields)) return fields
  const model = modelAt(fields.model && valueAt(body, fields.model))
  if (isMalformed(model)) return model
  const cap = capAt(body, fields.cap)
  if (isMalformed(cap)) return cap
  return {
    model,
    maxOutputTokens: cap,
    unpriced: isPremiumTier(body, fields.tier),
    spelled: (changes) => applyEdits(body, modelAndCap(members, fields, 'max_tokens', changes)),
  }
}

class Reader extends AnswerReader {
  readonly #counts: AnthropicCounts = {}

  protected override read(event: Loose): void {
    switch (member(event, 'type')) {
      case 'message_start':
        this.#counts.start = countsIn(member(event, 'message', 'usage'))
        this.#readInputCounts()
        return
      case 'content_block_delta': {
        const delta = member(event, 'delta')
        this.wrote(member(delta, 'text'), member(delta, 'partial_json'), member(delta, 'thinking'))
        return
      }
      case 'message_delta':
        if (has(event, 'usage')) this.#counts.last = countsIn(member(event, 'usage'))
        return
      case 'message_stop':
        this.usage = anthropicUsage(this.#counts)
        this.complete = true
        return
      case 'error':
        this.problem = member(event, 'error') ?? {}
        return
      case undefined:
        throw new SyntaxError('an event without a type')
    }
  }

  override whole(answer: Loose): boolean {
    if (member(answer, 'type') !== 'message') return false
    const usage = member(answer, 'usage')
    this.usage = anthropicUsage({ last: countsIn(usage) })
    this.complete = true
    return true
  }

  #readInputCounts(): void {
    const begun = anthropicUsage({ ...this.#counts, last: { output_tokens: 0 } })
    if (begun.source === 'absent') return
    const { source: _, outputTokens: __, ...input } = begun
    this.input = input
  }
}

const COUNTS = [
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
] as const

/** Keeps only the known counts, and drops any other fields of a provider. */
function countsIn(usage: Loose): NonNullable<AnthropicCounts['last']> {
  const found = COUNTS.flatMap((name) => {
    const value = member(usage, name)
    return value === undefined || value === null
      ? []
      : [[name, typeof value === 'number' ? value : Number.NaN]]
  })
  return Object.fromEntries(found)
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

function problem({ status, message, names }: DialectError) {
  return { type: 'error', error: { type: names?.type ?? TYPES[status] ?? 'api_error', message } }
}

/** Gemini, as the gateway forwards it: with an API key, and in the envelope of Code Assist. */
import { geminiUsage } from '../../../providers/adapters/gemini.ts'
import type { Loose } from '../json-members.ts'
import { applyEdits, type Edit, insertMember, type Members, valueAt } from '../json-members.ts'
import { AnswerReader, has, list, member } from './answer-reader.ts'
import type { DialectError, DialectRequest, GatewayDialect, Malformed, RequestChanges } from './dialect.ts'
import {
  capAt,
  describeJsonFault,
  type Field,
  fieldsOf,
  isMalformed,
  isSeveral,
  modelAt,
} from './request-fields.ts'

/** Protocol buffers have two names for each field. */
const LOOK_INTO_REQUEST = { generationConfig: {}, generation_config: {} }

const COMMON = {
  wire: 'gemini',
  providerId: 'provider_gemini',
  family: 'gemini',
  takesCap: () => true,
  errorBody: (error: DialectError) => JSON.stringify(problem(error)),
  errorEvent: (error: DialectError) => `data: ${JSON.stringify(problem(error))}\n\n`,
} as const

export const geminiDialect: GatewayDialect = {
  ...COMMON,
  name: 'gemini',
  usedBy: ({ family, kind }) => family === 'gemini' && kind === 'api_key',
  lookInto: LOOK_INTO_REQUEST,
  ask({ bytes: body, members }, pathModel) {
    if (typeof members === 'string') return describeJsonFault(members)
    const model = modelAt(pathModel)
    return isMalformed(model) ? model : askOf(body, members, model, undefined)
  },
  reader: () => new Reader((event) => event),
}

export const codeAssistDialect: GatewayDialect = {
  ...COMMON,
  name: 'code_assist',
  usedBy: ({ family, kind }) => family === 'gemini' && kind === 'oauth',
  lookInto: { request: LOOK_INTO_REQUEST },
  ask({ bytes: body, members }) {
    if (typeof members === 'string') return describeJsonFault(members)
    const fields = fieldsOf(members, { model: ['model'], request: ['request'] })
    if (isMalformed(fields)) return fields
    const model = modelAt(fields.model && valueAt(body, fields.model))
    if (isMalformed(model)) return model
    const request = members.objects.get('request')
    if (request === undefined) return { malformed: 'request must be an object' }
    return askOf(body, request, model, fields.model)
  },
  reader: () => new Reader((event) => member(event, 'response') ?? event),
}

const REQUEST = {
  config: ['generationConfig', 'generation_config'],
  cached: ['cachedContent', 'cached_content'],
} as const
const CONFIG = {
  cap: ['maxOutputTokens', 'max_output_tokens'],
  answers: ['candidateCount', 'candidate_count'],
} as const

function askOf(
  body: Buffer,
  request: Members,
  model: string,
  modelField: Field | undefined,
): DialectRequest | Malformed {
  const requested = fieldsOf(request, REQUEST)
  if (isMalformed(requested)) return requested
  const { config: configField, cached } = requested
  const config = configField === undefined ? undefined : request.objects.get(configField.name)
  if (configField !== undefined && config === undefined)
    return { malformed: `${configField.name} must be an object` }
  const fields = config === undefined ? {} : fieldsOf(config, CONFIG)
  if (isMalformed(fields)) return fields
  const cap = capAt(body, fields.cap)
  if (isMalformed(cap)) return cap
  if (isSeveral(body, fields.answers))
    return { malformed: 'candidateCount must be 1: each response would have its own limit' }
  const capEdit = (value: number): Edit => {
    if (fields.cap !== undefined) return { ...fields.cap, text: String(value) }
    if (config !== undefined) return insertMember(config, 'maxOutputTokens', String(value))
    return insertMember(request, 'generationConfig', JSON.stringify({ maxOutputTokens: value }))
  }
  return {
    model,
    maxOutputTokens: cap,
    // Cached content at the provider is input too, and its size is unknown here.
    unpriced: cached !== undefined,
    spelled: (changes: RequestChanges) =>
      applyEdits(body, [
        // Without Code Assist's envelope, the model is in the path.
        ...(changes.model === undefined || modelField === undefined
          ? []
          : [{ ...modelField, text: JSON.stringify(changes.model) }]),
        ...(changes.cap === undefined ? [] : [capEdit(changes.cap)]),
      ]),
  }
}

class Reader extends AnswerReader {
  readonly #open: (event: Loose) => Loose
  #stopped = false

  constructor(open: (event: Loose) => Loose) {
    super()
    this.#open = open
  }

  protected override read(event: Loose): void {
    if (typeof event !== 'object' || event === null) throw new SyntaxError('an event that is not an object')
    if (has(event, 'error')) {
      this.problem = member(event, 'error')
      return
    }
    this.#piece(this.#open(event))
  }

  /** The last event has a `finishReason`. Another event with counts may follow. */
  override end(): void {
    this.complete = this.#stopped
  }

  override whole(answer: Loose): boolean {
    // A stream that is requested without `alt=sse` arrives as one list of chunks.
    const pieces = Array.isArray(answer) ? answer : [answer]
    for (const piece of pieces) {
      if (typeof piece !== 'object' || piece === null) return false
      this.read(piece)
    }
    this.end()
    return this.complete && this.problem === undefined
  }

  #piece(piece: Loose): void {
    if (has(piece, 'usageMetadata')) this.usage = geminiUsage(member(piece, 'usageMetadata'))
    if (has(member(piece, 'promptFeedback'), 'blockReason')) this.#stopped = true
    for (const candidate of list(member(piece, 'candidates'))) {
      for (const part of list(member(candidate, 'content', 'parts'))) {
        this.wrote(member(part, 'text'))
        this.wrote(member(part, 'functionCall'))
      }
      if (has(candidate, 'finishReason')) this.#stopped = true
    }
  }
}

const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'RESOURCE_EXHAUSTED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

function problem({ status, message, names }: DialectError) {
  return { error: { code: status, message, status: names?.status ?? STATUSES[status] ?? 'INTERNAL' } }
}

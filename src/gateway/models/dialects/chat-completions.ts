/** Chat Completions, as the gateway forwards it. */
import { chatUsage } from '../../../providers/adapters/chat-completions.ts'
import type { Loose } from '../json-members.ts'
import { applyEdits, type Edit, insertMember, valueAt } from '../json-members.ts'
import { AnswerReader, has, list, member } from './answer-reader.ts'
import type { DialectRequest, GatewayDialect, Malformed, ScannedBody } from './dialect.ts'
import { openaiProblem } from './openai-error.ts'
import {
  capAt,
  describeJsonFault,
  fieldsOf,
  isMalformed,
  isPremiumTier,
  isSeveral,
  modelAt,
} from './request-fields.ts'

export const chatCompletionsDialect: GatewayDialect = {
  name: 'chat_completions',
  wire: 'chat_completions',
  providerId: 'provider_openai_chat',
  family: 'openai',
  usedBy: ({ family, kind }) => family === 'openrouter' || family === 'kimi' || kind === 'api_key',
  takesCap: () => true,
  lookInto: {},
  ask,
  reader: () => new Reader(),
  errorBody: (error) => JSON.stringify({ error: openaiProblem(error) }),
  errorEvent: (error) => `data: ${JSON.stringify({ error: openaiProblem(error) })}\n\n`,
}

const NAMES = {
  model: ['model'],
  // A server reads whichever of the two fields it knows, so both are limited to the hold.
  cap: ['max_tokens'],
  newCap: ['max_completion_tokens'],
  answers: ['n'],
  tier: ['service_tier'],
} as const

function ask({ bytes: body, members }: ScannedBody): DialectRequest | Malformed {
  if (typeof members === 'string') return describeJsonFault(members)
  const fields = fieldsOf(members, NAMES)
  if (isMalformed(fields)) return fields
  const model = modelAt(fields.model && valueAt(body, fields.model))
  if (isMalformed(model)) return model
  const cap = capAt(body, fields.cap)
  if (isMalformed(cap)) return cap
  const newCap = capAt(body, fields.newCap)
  if (isMalformed(newCap)) return newCap
  if (isSeveral(body, fields.answers))
    return { malformed: 'n must be 1: each response would have its own limit' }
  const caps = [cap, newCap].filter((each) => each !== null)
  return {
    model,
    maxOutputTokens: caps.length === 0 ? null : Math.max(...caps),
    unpriced: isPremiumTier(body, fields.tier),
    spelled: (changes, baseUrl) => {
      const edits: Edit[] = []
      if (changes.model !== undefined) edits.push({ ...fields.model!, text: JSON.stringify(changes.model) })
      if (changes.cap !== undefined) {
        const provided = [fields.cap, fields.newCap].filter((field) => field !== undefined)
        for (const field of provided) edits.push({ ...field, text: String(changes.cap) })
        if (provided.length === 0) edits.push(insertMember(members, capName(baseUrl), String(changes.cap)))
      }
      return applyEdits(body, edits)
    },
  }
}

/** OpenAI's reasoning models reject `max_tokens`. Most other servers accept no other name. */
function capName(baseUrl: string): string {
  return URL.parse(baseUrl)?.hostname === 'api.openai.com' ? 'max_completion_tokens' : 'max_tokens'
}

class Reader extends AnswerReader {
  override event(data: string): void {
    if (data.trim() === '[DONE]') this.complete = true
    else super.event(data)
  }

  protected override read(event: Loose): void {
    if (typeof event !== 'object' || event === null) throw new SyntaxError('an event that is not an object')
    if (has(event, 'error')) {
      this.problem = member(event, 'error')
      return
    }
    if (has(event, 'usage')) this.usage = chatUsage(member(event, 'usage'))
    for (const choice of list(member(event, 'choices'))) {
      const delta = member(choice, 'delta')
      const texts = ['content', 'refusal', 'reasoning', 'reasoning_content'].map((name) =>
        member(delta, name),
      )
      this.wrote(...texts)
      for (const call of list(member(delta, 'tool_calls'))) this.wrote(member(call, 'function', 'arguments'))
    }
  }

  override whole(answer: Loose): boolean {
    if (!Array.isArray(member(answer, 'choices'))) return false
    this.usage = chatUsage(member(answer, 'usage'))
    this.complete = true
    return true
  }
}

/** Tool call ids that every dialect takes: after a failover a conversation holds another provider's ids. */
import { createHash } from 'node:crypto'
import type { ModelRequest } from '../conversation.ts'

/** Anthropic takes letters, digits, `_` and `-`; OpenAI's chat at most 40 characters. The same id, the same answer. */
export function portableCallId(id: string): string {
  if (/^[A-Za-z0-9_-]{1,40}$/.test(id)) return id
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 24)}`
}

/** Names the calls of servers that give them no id: no two of one conversation have the same. */
export function callNamer(request: ModelRequest): (at: number) => string {
  const before = request.messages.reduce(
    (sum, message) => sum + (message.role === 'assistant' ? message.toolCalls.length : 0),
    0,
  )
  return (at) => `call_${before + at + 1}`
}

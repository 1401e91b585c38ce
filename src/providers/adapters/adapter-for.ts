/** Finds the adapter of a dialect and loads nothing else. */
import type { Adapter, Dialect } from './adapter.ts'

/**
 * The base URL tells OpenAI's own Chat Completions from everybody else's: it alone has renamed the output cap.
 * Undefined where nothing is dialled.
 */
export async function adapterFor(dialect: Dialect, baseUrl: string | undefined): Promise<Adapter> {
  switch (dialect) {
    case 'anthropic_messages':
      return (await import('./anthropic-messages.ts')).anthropicMessages
    case 'openai_responses':
      return (await import('./openai-responses.ts')).openaiResponses
    case 'chat_completions':
      return (await import('./chat-completions.ts')).chatCompletions(baseUrl)
    case 'gemini':
      return (await import('./gemini.ts')).gemini
    case 'fixture':
      return (await import('./fixture.ts')).fixture
  }
}

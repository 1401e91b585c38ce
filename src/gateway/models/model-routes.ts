/** Maps requests to dialects, and to the path after the provider's base URL. */

import { WORKSPACE_PATH } from './chatgpt-workspace.ts'
import { anthropicMessagesDialect } from './dialects/anthropic-messages.ts'
import { chatCompletionsDialect } from './dialects/chat-completions.ts'
import type { GatewayDialect } from './dialects/dialect.ts'
import { codeAssistDialect, geminiDialect } from './dialects/gemini.ts'
import { openaiResponsesDialect } from './dialects/openai-responses.ts'

export interface ModelRoute {
  /**
   * `call`: a model's response. `side`: forwarded, decided and recorded, without cost. `list`, `workspace`: answered by
   * the gateway.
   */
  readonly kind: 'call' | 'side' | 'list' | 'workspace'
  readonly dialect: GatewayDialect
  readonly method: 'GET' | 'POST'
  /** The provider record that the path names. */
  readonly providerId: string | undefined
  /** Returns the path after the base URL, for the model that is finally called. */
  readonly path: (model: string) => string
  /** The model in the path. */
  readonly model: string | undefined
  /** Whether a login of the user is preferred over an API key. */
  readonly prefersLogin: boolean
}

interface Found extends Pick<ModelRoute, 'kind' | 'dialect' | 'path'> {
  readonly model?: string
  readonly method?: 'GET'
}

/** Returns `undefined` for an unknown route. `path` has no query. */
export function routeOf(method: string, path: string): ModelRoute | undefined {
  const named = /^\/p\/(provider_[a-z0-9][a-z0-9_]{0,79})(\/.*)$/.exec(path)
  const rest = named?.[2] ?? path
  const login = /^\/backend-api\/codex(\/.*)$/.exec(rest)
  const found = login === null ? findRoute(rest) : findCodex(login[1]!)
  if (found === undefined || method !== (found.method ?? 'POST')) return undefined
  return {
    model: undefined,
    method: 'POST',
    ...found,
    providerId: named?.[1],
    prefersLogin: login !== null,
  }
}

const FIXED: Readonly<Record<string, Found>> = {
  '/v1/messages': { kind: 'call', dialect: anthropicMessagesDialect, path: () => '/messages' },
  '/v1/messages/count_tokens': {
    kind: 'side',
    dialect: anthropicMessagesDialect,
    path: () => '/messages/count_tokens',
  },
  '/v1/responses': { kind: 'call', dialect: openaiResponsesDialect, path: () => '/responses' },
  '/v1/responses/compact': {
    kind: 'call',
    dialect: openaiResponsesDialect,
    path: () => '/responses/compact',
  },
  '/v1/responses/input_tokens': {
    kind: 'side',
    dialect: openaiResponsesDialect,
    path: () => '/responses/input_tokens',
  },
  '/v1/chat/completions': { kind: 'call', dialect: chatCompletionsDialect, path: () => '/chat/completions' },
  '/v1/models': { kind: 'list', method: 'GET', dialect: openaiResponsesDialect, path: () => '/models' },
  '/v1beta/models': { kind: 'list', method: 'GET', dialect: geminiDialect, path: () => '/models' },
  [WORKSPACE_PATH]: { kind: 'workspace', method: 'GET', dialect: openaiResponsesDialect, path: () => '' },
}

/** Gemini CLI's other requests to Code Assist. */
const SIDES = ['countTokens', 'loadCodeAssist', 'onboardUser', 'retrieveUserQuota', 'listExperiments']

function findRoute(path: string): Found | undefined {
  if (Object.hasOwn(FIXED, path)) return FIXED[path]
  const google =
    /^\/v1beta\/models\/([^/:]{1,200}):(generateContent|streamGenerateContent|countTokens)$/.exec(path)
  if (google !== null) {
    const [, model, verb] = google as unknown as [string, string, string]
    return {
      kind: verb === 'countTokens' ? 'side' : 'call',
      dialect: geminiDialect,
      model: decode(model),
      path: (requested) => `/models/${encodeURIComponent(requested)}:${verb}`,
    }
  }
  const verb = /^\/v1internal:([A-Za-z]{1,60})$/.exec(path)?.[1]
  if (verb === 'generateContent' || verb === 'streamGenerateContent')
    return { kind: 'call', dialect: codeAssistDialect, path: () => `:${verb}` }
  if (verb !== undefined && SIDES.includes(verb))
    return { kind: 'side', dialect: codeAssistDialect, path: () => `:${verb}` }
  return undefined
}

function findCodex(path: string): Found | undefined {
  if (path === '/models')
    return { kind: 'side', method: 'GET', dialect: openaiResponsesDialect, path: () => '/models' }
  return path === '/responses' || path === '/responses/compact' ? FIXED[`/v1${path}`] : undefined
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/** Returns the dialect for the error response to an unknown path. */
export function dialectOfPath(path: string): GatewayDialect {
  const rest = path.replace(/^\/p\/[^/]*/, '')
  if (rest.startsWith('/v1/messages')) return anthropicMessagesDialect
  if (rest.startsWith('/v1beta/') || rest.startsWith('/v1internal')) return geminiDialect
  return openaiResponsesDialect
}

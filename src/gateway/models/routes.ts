/** Which request is for which dialect, and what stands behind the base URL of whoever is asked. */
import { anthropicMessages } from './dialects/anthropic-messages.ts'
import { chatCompletions } from './dialects/chat-completions.ts'
import type { Dialect } from './dialects/dialect.ts'
import { codeAssist, geminiDialect } from './dialects/gemini.ts'
import { openaiResponses } from './dialects/openai-responses.ts'
import { WORKSPACE_PATH } from './workspace.ts'

export interface ModelRoute {
  /**
   * `call`: an answer by a model. `side`: passed on, decided and receipted, and costs nothing. `list`, `workspace`: answered
   * here.
   */
  readonly kind: 'call' | 'side' | 'list' | 'workspace'
  readonly dialect: Dialect
  readonly method: 'GET' | 'POST'
  /** The record that the path names. */
  readonly providerId: string | undefined
  /** What follows the base URL, by the model that is asked for in the end. */
  readonly path: (model: string) => string
  /** The model in the path. */
  readonly model: string | undefined
  /** Whether a login of the person's, rather than a key, is asked first. */
  readonly prefersLogin: boolean
}

interface Found extends Pick<ModelRoute, 'kind' | 'dialect' | 'path'> {
  readonly model?: string
  readonly method?: 'GET'
}

/** Undefined: no such route. `path` has no query. */
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
  '/v1/messages': { kind: 'call', dialect: anthropicMessages, path: () => '/messages' },
  '/v1/messages/count_tokens': {
    kind: 'side',
    dialect: anthropicMessages,
    path: () => '/messages/count_tokens',
  },
  '/v1/responses': { kind: 'call', dialect: openaiResponses, path: () => '/responses' },
  '/v1/responses/compact': { kind: 'call', dialect: openaiResponses, path: () => '/responses/compact' },
  '/v1/responses/input_tokens': {
    kind: 'side',
    dialect: openaiResponses,
    path: () => '/responses/input_tokens',
  },
  '/v1/chat/completions': { kind: 'call', dialect: chatCompletions, path: () => '/chat/completions' },
  '/v1/models': { kind: 'list', method: 'GET', dialect: openaiResponses, path: () => '/models' },
  '/v1beta/models': { kind: 'list', method: 'GET', dialect: geminiDialect, path: () => '/models' },
  [WORKSPACE_PATH]: { kind: 'workspace', method: 'GET', dialect: openaiResponses, path: () => '' },
}

/** What Gemini's CLI asks of Code Assist besides answers. */
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
      model: decoded(model),
      path: (asked) => `/models/${encodeURIComponent(asked)}:${verb}`,
    }
  }
  const verb = /^\/v1internal:([A-Za-z]{1,60})$/.exec(path)?.[1]
  if (verb === 'generateContent' || verb === 'streamGenerateContent')
    return { kind: 'call', dialect: codeAssist, path: () => `:${verb}` }
  if (verb !== undefined && SIDES.includes(verb))
    return { kind: 'side', dialect: codeAssist, path: () => `:${verb}` }
  return undefined
}

function findCodex(path: string): Found | undefined {
  if (path === '/models')
    return { kind: 'side', method: 'GET', dialect: openaiResponses, path: () => '/models' }
  return path === '/responses' || path === '/responses/compact' ? FIXED[`/v1${path}`] : undefined
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/** What an answer to an unknown path is spelled in. */
export function dialectOfPath(path: string): Dialect {
  const rest = path.replace(/^\/p\/[^/]*/, '')
  if (rest.startsWith('/v1/messages')) return anthropicMessages
  if (rest.startsWith('/v1beta/') || rest.startsWith('/v1internal')) return geminiDialect
  return openaiResponses
}

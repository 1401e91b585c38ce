/** The models that a caller can use, as far as they are known: one per provider that it has a grant for. */
import type { Account } from '../../accounts/account.ts'
import { findRoute } from '../../providers/dispatch/route.ts'
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import type { ProviderRecord } from '../../providers/provider-record.ts'
import type { GatewayCaller } from '../caller.ts'
import { loginsFor, takesLogin } from './choose-login.ts'
import { anthropicMessagesDialect } from './dialects/anthropic-messages.ts'
import { chatCompletionsDialect } from './dialects/chat-completions.ts'
import type { GatewayDialect } from './dialects/dialect.ts'
import { geminiDialect } from './dialects/gemini.ts'
import { openaiResponsesDialect } from './dialects/openai-responses.ts'

interface Model {
  readonly id: string
  readonly providerId: string
}

const DIALECTS: readonly GatewayDialect[] = [
  anthropicMessagesDialect,
  openaiResponsesDialect,
  chatCompletionsDialect,
  geminiDialect,
]

/**
 * Returns only models that can be called at this moment: the provider is granted and enabled, and has a login or needs
 * none.
 */
export async function usableModels(
  deps: Pick<ProviderDeps, 'store' | 'environment'>,
  caller: GatewayCaller,
  records: readonly ProviderRecord[],
  accounts: readonly Account[],
): Promise<readonly Model[]> {
  const models: Model[] = []
  for (const record of records) {
    const dialect = DIALECTS.find(({ wire }) => wire === (record.metadata.dialect ?? wireOf(record)))
    if (dialect === undefined) continue
    if (takesLogin(record) && loginsFor(record, dialect, accounts, false).length === 0) continue
    if ((await caller.grantFor('model.chat', 'chat', record.id)) === undefined) continue
    const route = await findRoute(deps, record, { transport: 'live' }).catch(() => undefined)
    if (route === undefined || 'rule' in route || models.some(({ id }) => id === route.model)) continue
    models.push({ id: route.model, providerId: record.id })
  }
  return models
}

function wireOf({ provider }: ProviderRecord): string {
  if (provider === 'openai') return 'openai_responses'
  return provider === 'anthropic' ? 'anthropic_messages' : provider
}

/** Formats the list for the client: Anthropic's clients send a version header, Gemini's use their own path. */
export function listBody(
  models: readonly Model[],
  style: 'openai' | 'anthropic' | 'gemini',
  createdAt: string,
): string {
  if (style === 'gemini')
    return JSON.stringify({ models: models.map(({ id }) => ({ name: `models/${id}`, displayName: id })) })
  if (style === 'anthropic') {
    const data = models.map(({ id }) => ({ type: 'model', id, display_name: id, created_at: createdAt }))
    return JSON.stringify({
      data,
      has_more: false,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
    })
  }
  const created = Math.floor(Date.parse(createdAt) / 1000)
  const data = models.map(({ id, providerId }) => ({ id, object: 'model', created, owned_by: providerId }))
  return JSON.stringify({ object: 'list', data })
}

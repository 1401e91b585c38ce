/** The record of a model provider: routing metadata and names of references, never the value of a secret. */
import { z } from 'zod'
import { REFERENCE } from '../lib/ids.ts'
import { isSecretKey, redactValue } from '../receipts/redaction/redact.ts'
import type { Dialect } from './adapters/adapter.ts'
import { checkBaseUrl } from './base-url.ts'

const FAMILIES = ['openai', 'anthropic', 'gemini', 'chat_completions', 'fixture'] as const
const MODES = ['chat', 'completion', 'embedding', 'tool', 'runner'] as const
const TRUST_BOUNDARIES = ['local', 'self-hosted', 'hosted', 'third-party'] as const
const CAPABILITIES = [
  'model.chat',
  'model.streaming',
  'model.tool_calls',
  'model.structured_output',
  'model.usage_metadata',
  'runner.execute',
] as const

/** The wire formats of each family. The first is the default when the metadata names none. */
const DIALECTS: Readonly<Record<(typeof FAMILIES)[number], readonly [Dialect, ...Dialect[]]>> = {
  openai: ['openai_responses', 'chat_completions'],
  anthropic: ['anthropic_messages'],
  gemini: ['gemini'],
  chat_completions: ['chat_completions'],
  fixture: ['fixture'],
}

const id = z
  .string()
  .regex(
    /^provider_[a-z0-9][a-z0-9_]{0,79}$/,
    'must be provider_ followed by at most 80 lower-case letters, digits and _',
  )
const reference = z
  .string()
  .regex(REFERENCE, 'must consist of letters, digits and . _ : / @ -, at most 200 characters')
const variable = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'must be the name of an environment variable, such as OLLAMA_BASE_URL')
const secretName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_.-]{0,127}$/, 'must be the name of a secret, such as OPENAI_API_KEY')
const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, 'must be one line of printable text')
const docsLink = line(300).regex(
  /^(?:https:\/\/[^\s@]+|(?!\/)(?!.*\.\.)[\w./#-]+)$/,
  'must be an https URL or a path in the documentation',
)

const capability = z.strictObject({
  name: z.enum(CAPABILITIES),
  mode: z.enum(MODES),
  description: line(300),
  grant_required: z.boolean().default(true),
})

const metadata = z
  .object({
    /** The wire format, for a family with several. */
    dialect: z
      .enum(['anthropic_messages', 'openai_responses', 'chat_completions', 'gemini', 'fixture'])
      .optional(),
    /** Includes the version segment, without a slash at the end, such as `https://api.openai.com/v1`. */
    base_url: z.string().max(500).optional(),
    default_model: reference.optional(),
    billing: z.enum(['metered', 'subscription', 'free']).optional(),
    /**
     * Whether the provider also speaks Responses over WebSocket. OpenAI's own address does. For other addresses Craik
     * does not assume it.
     */
    websocket: z.boolean().optional(),
  })
  .catchall(z.union([z.boolean(), z.int(), line(300)], 'must be one line of text, an integer or a boolean'))
  .default({})

export const providerRecord = z
  .strictObject({
    schema: z.literal('craik.model_provider'),
    version: z.literal('0.1.0'),
    id,
    name: line(100),
    /** The provider family. */
    provider: z.enum(FAMILIES),
    modes: distinct(z.enum(MODES), 1, MODES.length),
    capabilities: z.array(capability).min(1).max(30),
    trust_boundary: z.enum(TRUST_BOUNDARIES),
    config_refs: distinct(variable, 0, 20).default([]),
    secret_ref_names: distinct(secretName, 0, 10).default([]),
    budget_ref: reference.optional(),
    quota_ref: reference.optional(),
    runtime_path: reference.nullable().default(null),
    metadata,
    docs: distinct(docsLink, 1, 10),
    created_at: z.iso.datetime({ error: 'must be a UTC time such as 2026-01-01T00:00:00Z' }),
  })
  .superRefine((record, context) => {
    for (const { path, message } of problemsOf(record)) context.addIssue({ code: 'custom', path, message })
  })
  .transform(({ budget_ref, quota_ref, ...record }) => ({
    ...record,
    budget_ref: budget_ref ?? `budget_${record.id}`,
    quota_ref: quota_ref ?? `quota_${record.id}`,
  }))

export type ProviderRecord = z.output<typeof providerRecord>

interface Problem {
  readonly path: (string | number)[]
  readonly message: string
}

type RecordFields = Pick<
  z.output<typeof providerRecord>,
  'provider' | 'modes' | 'capabilities' | 'trust_boundary' | 'config_refs' | 'secret_ref_names' | 'metadata'
>

/** Returns the problems that concern several fields, and those that no field may have. */
function problemsOf(record: RecordFields): readonly Problem[] {
  const problems: Problem[] = []
  for (const [i, { mode }] of record.capabilities.entries()) {
    if (!record.modes.includes(mode)) {
      problems.push({
        path: ['capabilities', i, 'mode'],
        message: `'${mode}' is not one of the modes (${record.modes.join(', ')})`,
      })
    }
  }
  const both = record.config_refs.findIndex((name) => record.secret_ref_names.includes(name))
  if (both !== -1) {
    problems.push({
      path: ['config_refs', both],
      message: 'is also in secret_ref_names; a name can be in only one of them',
    })
  }
  const open = record.config_refs.findIndex(isSecretKey)
  if (open !== -1) {
    problems.push({
      path: ['config_refs', open],
      message: 'names a secret; it belongs in secret_ref_names',
    })
  }
  return [...problems, ...metadataProblems(record), ...secretsIn(record, [])]
}

function metadataProblems({ metadata, provider, trust_boundary }: RecordFields): readonly Problem[] {
  const problems: Problem[] = []
  const names = Object.keys(metadata)
  if (names.length > 20) problems.push({ path: ['metadata'], message: 'must have at most 20 members' })
  for (const name of names) {
    if (!/^[a-z][a-z0-9_]{0,63}$/.test(name)) {
      problems.push({
        path: ['metadata'],
        message: 'has a name with characters other than lower-case letters, digits and _',
      })
    } else if (namesSecret(name)) {
      problems.push({
        path: ['metadata', name],
        message: 'has the name of a secret; metadata cannot contain secrets: use secret_ref_names',
      })
    }
  }
  const { dialect, base_url: url } = metadata
  if (dialect !== undefined && !DIALECTS[provider].includes(dialect)) {
    const spoken = DIALECTS[provider].join(', ')
    problems.push({
      path: ['metadata', 'dialect'],
      message: `${provider} does not support '${dialect}' (supported: ${spoken})`,
    })
  }
  if (url === undefined && provider === 'chat_completions') {
    problems.push({
      path: ['metadata', 'base_url'],
      message: 'is required: this family has no default address',
    })
  }
  const refusal = url === undefined ? undefined : checkBaseUrl(url, { local: trust_boundary === 'local' })
  if (refusal !== undefined) problems.push({ path: ['metadata', 'base_url'], message: refusal })
  return problems
}

function namesSecret(name: string): boolean {
  return /secret|token|apikey|password|credential/.test(name.replaceAll('_', '')) || isSecretKey(name)
}

/** Checks each text without its field name, because the name shows nothing about the value. */
function secretsIn(value: unknown, path: readonly (string | number)[]): readonly Problem[] {
  if (typeof value === 'string') {
    return redactValue(value).redacted
      ? [{ path: [...path], message: 'looks like a secret; records contain names of secrets, never values' }]
      : []
  }
  if (Array.isArray(value)) return value.flatMap((member, i) => secretsIn(member, [...path, i]))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, member]) => secretsIn(member, [...path, key]))
}

function distinct<T extends z.ZodType<string>>(item: T, min: number, max: number) {
  return z
    .array(item)
    .min(min)
    .max(max)
    .refine((items) => new Set(items).size === items.length, 'must not contain duplicates')
}

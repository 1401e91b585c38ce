/** Validates the response of an OpenAI-compatible `/models`: a list of names. */

interface ModelList {
  readonly status: 'ok' | 'unexpected'
  readonly detail: string
  readonly models?: readonly string[]
  readonly warnings?: readonly string[]
}

const MAX_MODELS = 500
const MODEL_NAME = /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]{1,200}$/u

export function readModels(body: Buffer): ModelList {
  const list = listOf(body)
  if (typeof list === 'string') return { status: 'unexpected', detail: list }
  const names = list.map((model) => (model as { id?: unknown } | null)?.id)
  if (!names.every((name) => typeof name === 'string' && MODEL_NAME.test(name)))
    return { status: 'unexpected', detail: 'the response lists a model without a valid name' }
  const models = [...new Set(names as string[])].sort()
  const count = models.length === 1 ? '1 model' : `${models.length} models`
  return {
    status: 'ok',
    detail: models.length === 0 ? 'serves no models yet' : `serves ${count}`,
    models: models.slice(0, MAX_MODELS),
    ...(models.length > MAX_MODELS && { warnings: [`only the first ${MAX_MODELS} models are listed`] }),
  }
}

function listOf(body: Buffer): readonly unknown[] | string {
  let answer: unknown
  try {
    answer = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return 'the response is not JSON'
  }
  const data = (answer as { data?: unknown } | null)?.data
  // A server without models may send null for an empty list.
  if (data === null) return []
  return Array.isArray(data) ? data : 'the response is JSON, but not a list of models'
}

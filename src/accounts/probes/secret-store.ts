/** API keys in Craik's own secret store, under the names of the provider catalogue. */
import { CraikError } from '../../errors.ts'
import { resolveSecret } from '../../secrets/resolve.ts'
import type { Home } from '../../store/home.ts'
import type { SecretRow, Store } from '../../store/store.ts'
import { API_KEYS, isHeaderSafe, keyHeaders } from '../api-keys.ts'
import type { HostEnvironment, Probe, ProbeProblem, ProbeResult } from '../probe-result.ts'

/** How long a value that came from a program stays valid. */
const GOOD_FOR_MS = 5 * 60_000

/**
 * Sources that the probe reads to check for a value. A keyring or a command may prompt the user, so the probe does not
 * read those.
 */
const READ_AT_ONCE: ReadonlySet<string> = new Set(['stored', 'env', 'file'])

/** `store` returns `undefined` when no database exists: a probe must not create one. */
export function secretStoreProbe(home: Home, store: () => Promise<Store | undefined>): Probe {
  const rowsNow = async (): Promise<readonly SecretRow[]> => {
    const opened = await store()
    const rows = (await opened?.read((tables) => tables.secrets.list())) ?? []
    return rows.filter((row) => API_KEYS.some(({ name }) => name === row.name))
  }
  return {
    name: 'secret',
    searchedLocations: () => API_KEYS.map(({ name }) => name),
    async stamp({ nowMs }) {
      const rows = await rowsNow()
      // Files and variables change without a change in the store.
      if (rows.some(({ source }) => source === 'env' || source === 'file')) return undefined
      const bucket = Math.floor(nowMs() / GOOD_FOR_MS)
      return JSON.stringify([bucket, ...rows.map((row) => [row.name, row.source, row.updatedAtMs])])
    },
    async probe(hostEnvironment, until) {
      const rows = await rowsNow()
      const opened = await store()
      if (opened === undefined) return []
      const findings = API_KEYS.map(({ name }) => rows.find((row) => row.name === name))
        .filter((row) => row !== undefined)
        .map((row) => findingFor(row, opened, home, hostEnvironment, until))
      return (await Promise.all(findings)).filter((finding) => finding !== undefined)
    },
  }
}

async function findingFor(
  row: SecretRow,
  store: Store,
  home: Home,
  { environment, overrides }: HostEnvironment,
  until: AbortSignal,
): Promise<ProbeResult | undefined> {
  const { family, baseUrl } = API_KEYS.find(({ name }) => name === row.name)!
  const id = `secret/${row.name}`
  const source = `secret ${row.name} (${row.source})`
  let value: Promise<string> | undefined
  const read = (stop: AbortSignal) => {
    value ??= resolveText(store, home, environment, row.name, stop)
    value.catch(() => {
      value = undefined
    })
    return value
  }
  if (READ_AT_ONCE.has(row.source)) {
    const problem = await problemOf(id, source, read(until))
    if (problem !== undefined) return problem
  }
  return {
    account: {
      id,
      family,
      kind: 'api_key',
      source,
      expiresAtMs: undefined,
      who: undefined,
      billing: 'metered',
      baseUrl: overrides[id]?.base_url ?? baseUrl,
    },
    login: { kind: 'key', headers: keyHeaders(family), read },
  }
}

async function resolveText(
  store: Store,
  home: Home,
  environment: NodeJS.ProcessEnv,
  name: string,
  until: AbortSignal,
): Promise<string> {
  const bytes = await resolveSecret(store, home, environment, name, until)
  const key = bytes.toString('utf8').trim()
  bytes.fill(0)
  if (isHeaderSafe(key)) return key
  const problem = key === '' ? 'it is empty' : 'it is too long, or contains spaces or special characters'
  throw new CraikError('unavailable', `the value of secret ${name} is not an API key: ${problem}`, {
    hint: `set it again:  craik secret set ${name}`,
  })
}

async function problemOf(
  id: string,
  source: string,
  reading: Promise<string>,
): Promise<ProbeProblem | undefined> {
  try {
    await reading
    return undefined
  } catch (error) {
    if (!(error instanceof CraikError) || error.code === 'interrupted') throw error
    return { id, source, problem: error.message, hint: error.hint }
  }
}

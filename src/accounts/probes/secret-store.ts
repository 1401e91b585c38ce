/** API keys in Craik's own secret store, under the names that the provider catalogue gives them. */
import { CraikError } from '../../errors.ts'
import { resolveSecret } from '../../secrets/resolve.ts'
import type { Home } from '../../store/home.ts'
import type { SecretRow, Store } from '../../store/store.ts'
import { API_KEYS, isHeaderSafe, keyHeaders } from '../keys.ts'
import type { HostEnvironment, Probe, ProbeProblem, ProbeResult } from '../probe-result.ts'

/** How long a value is good for that a program had to be run for. */
const GOOD_FOR_MS = 5 * 60_000

/** These are read to see whether there is a value; a keyring or a command may ask the person something, and is not. */
const READ_AT_ONCE: ReadonlySet<string> = new Set(['stored', 'env', 'file'])

/** `store` gives undefined where nothing was ever kept: looking makes no database. */
export function secretStoreProbe(home: Home, store: () => Promise<Store | undefined>): Probe {
  const rowsNow = async (): Promise<readonly SecretRow[]> => {
    const opened = await store()
    const rows = (await opened?.read((tables) => tables.secrets.list())) ?? []
    return rows.filter((row) => API_KEYS.some(({ name }) => name === row.name))
  }
  return {
    name: 'secret',
    places: () => API_KEYS.map(({ name }) => name),
    async stamp({ nowMs }) {
      const rows = await rowsNow()
      // Files and variables change without a trace in the store.
      if (rows.some(({ source }) => source === 'env' || source === 'file')) return undefined
      const bucket = Math.floor(nowMs() / GOOD_FOR_MS)
      return JSON.stringify([bucket, ...rows.map((row) => [row.name, row.source, row.updatedAtMs])])
    },
    async probe(surroundings, until) {
      const rows = await rowsNow()
      const opened = await store()
      if (opened === undefined) return []
      const findings = API_KEYS.map(({ name }) => rows.find((row) => row.name === name))
        .filter((row) => row !== undefined)
        .map((row) => findingFor(row, opened, home, surroundings, until))
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
    value ??= resolved(store, home, environment, row.name, stop)
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

async function resolved(
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
  throw new CraikError('unavailable', `the value of secret ${name} is not an API key`, {
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

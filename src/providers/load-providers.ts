/** Loads all providers: the catalogue, and the user's own in `config/providers/`. */
import { CraikError } from '../errors.ts'
import type { Home } from '../store/home.ts'
import { invalidConfig, listConfigFiles, readConfigFile } from './config-file.ts'
import { CATALOGUE } from './provider-catalogue.ts'
import type { ProviderRecord } from './provider-record.ts'

/**
 * Returns the providers sorted by id. One file that does not parse, does not validate or repeats an id fails everything
 * with `invalid_config`.
 */
export async function loadProviders(home: Home): Promise<readonly ProviderRecord[]> {
  const names = await listConfigFiles(home.config, 'providers')
  const found = new Map(CATALOGUE.map((record) => [record.id, { record, from: 'the built-in catalogue' }]))
  for (const name of names) {
    const record = await readRecord(home, name)
    const other = record && found.get(record.id)
    if (other !== undefined) {
      throw invalidConfig(
        name,
        `id: ${record!.id} is already used in ${other.from}`,
        'change one of the two ids',
      )
    }
    if (record !== undefined) found.set(record.id, { record, from: `config/${name}` })
  }
  return [...found.values()].map(({ record }) => record).sort((a, b) => (a.id < b.id ? -1 : 1))
}

export function findProvider(records: readonly ProviderRecord[], id: string): ProviderRecord {
  const found = records.find((record) => record.id === id)
  if (found !== undefined) return found
  const shown = /^[\w.-]{1,100}$/.test(id) ? id : JSON.stringify(id.slice(0, 60))
  const near = findNearestIds(
    records.map((record) => record.id),
    id,
  )
  throw new CraikError('not_found', `unknown model provider: ${shown}`, {
    hint: `${near.length === 0 ? '' : `did you mean ${near.join(' or ')}? `}list all:  craik provider list`,
  })
}

/** Loads the schema only here, because most homes have no such files. */
async function readRecord(home: Home, name: string): Promise<ProviderRecord | undefined> {
  const value = await readConfigFile(home.config, name)
  // The file was removed after the folder was listed, so it is not part of the configuration.
  if (value === undefined) return undefined
  const { providerRecord } = await import('./provider-record.ts')
  const parsed = providerRecord.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]!
  const field = issue.path.length === 0 ? '' : `${issue.path.join('.')}: `
  throw invalidConfig(
    name,
    `${field}${issue.message}`,
    'fix the field, then run  craik provider list  (fields: docs/reference/providers.md)',
  )
}

/** Returns up to three ids that the user may have meant. */
function findNearestIds(ids: readonly string[], typed: string): readonly string[] {
  const wanted = typed
    .toLowerCase()
    .slice(0, 100)
    .replaceAll('-', '_')
    .replace(/^provider_?/, '')
  if (wanted === '') return []
  const scored = ids.map((id) => {
    const name = id.replace(/^provider_/, '')
    const inside = name.includes(wanted) || wanted.includes(name)
    return { id, distance: inside ? Math.abs(name.length - wanted.length) / 10 : editDistance(name, wanted) }
  })
  return scored
    .filter(({ distance }) => distance <= Math.max(2, wanted.length / 4))
    .sort((a, b) => a.distance - b.distance || (a.id < b.id ? -1 : 1))
    .slice(0, 3)
    .map(({ id }) => id)
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}

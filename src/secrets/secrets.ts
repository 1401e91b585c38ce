/** The operations on secrets, for the command line and anything else that manages them. */
import type { Home } from '../store/home.ts'
import type { SecretRow, Store } from '../store/store.ts'
import { readOrCreateAtRestKey } from './at-rest-key.ts'
import { sealValue } from './seal.ts'
import { type Binding, parseBinding, parseSecretName, requireValueSize } from './secret.ts'
import { putSecret, removeSecret } from './secret-writes.ts'

/** The part of a secret that can be displayed: everything except the value. */
export type SecretEntry = Omit<SecretRow, 'sealed'>

/** Records where to find the value. The source is not read. */
export async function bindSecret(
  store: Store,
  operator: string,
  name: string,
  binding: Binding,
): Promise<{ readonly replaced: boolean }> {
  const { source, reference } = parseBinding(binding.source, binding.reference)
  return store.write(putSecret, { operator, name: parseSecretName(name), source, reference, sealed: null })
}

/** Seals the value in this thread and stores it. The plain bytes go nowhere else. */
export async function storeSecret(
  store: Store,
  home: Home,
  operator: string,
  name: string,
  value: Uint8Array,
): Promise<{ readonly replaced: boolean }> {
  parseSecretName(name)
  requireValueSize(value)
  const key = await readOrCreateAtRestKey(store, home)
  const sealed = sealValue(key, name, value)
  key.fill(0)
  return store.write(putSecret, { operator, name, source: 'stored', reference: null, sealed })
}

export async function deleteSecret(store: Store, operator: string, name: string): Promise<void> {
  return store.write(removeSecret, { operator, name: parseSecretName(name) })
}

export async function listSecrets(store: Store): Promise<readonly SecretEntry[]> {
  const rows = await store.read((tables) => tables.secrets.list())
  return rows.map(({ sealed: _sealed, ...entry }) => entry)
}

/**
 * The operator. A login names the operator of all later actions. It does not authenticate the person at the keyboard.
 */
import { existsSync } from 'node:fs'
import { CraikError } from '../../errors.ts'
import { REFERENCE } from '../../lib/ids.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { LoginRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import { procedure, type Store } from '../../store/store.ts'

/** Short enough for the prefixes and suffixes of ids and receipts. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/

export interface LoggedIn {
  readonly login: LoginRow
  /** False when the same subject was already logged in. */
  readonly began: boolean
  /** The subject of the login that this one replaced. */
  readonly replaced: string | null
  readonly receipt: ReceiptRef | null
}

export const logInProcedure = procedure<{ readonly subject: string }, LoggedIn>('agents.login')
export const logOutProcedure = procedure<
  Record<never, never>,
  { readonly login: LoginRow; readonly receipt: ReceiptRef }
>('agents.logout')

export function logIn(store: Store, subject: string): Promise<LoggedIn> {
  return store.write(logInProcedure, { subject })
}

export function logOut(store: Store): Promise<{ readonly login: LoginRow; readonly receipt: ReceiptRef }> {
  return store.write(logOutProcedure, {})
}

/** Returns the active login. Throws when its name is not valid for a login. */
export async function activeLogin(store: Store): Promise<LoginRow | undefined> {
  const login = await store.read((tables) => tables.logins.active())
  if (login === undefined || isSubject(login.subject)) return login
  throw new CraikError(
    'tampered',
    `login ${loginName(login)} was changed outside Craik: it names no operator`,
    {
      hint: 'log out:  craik logout   then:  craik login',
    },
  )
}

const SUBJECT = /^(?:operator|local-user):[A-Za-z0-9._@-]{1,100}$/

export function isSubject(subject: string): boolean {
  return SUBJECT.test(subject)
}

function loginName({ id }: LoginRow): string {
  return REFERENCE.test(id) ? id : 'row'
}

/** Returns the active login. Throws without one, because some commands require an operator. */
export async function requireLogin(store: Store): Promise<LoginRow> {
  const login = await activeLogin(store)
  if (login !== undefined) return login
  throw new CraikError('login_required', 'active operator session required; run craik login')
}

/** Returns the active login's subject, or `fallback`. Does not create a database to look for a login. */
export async function actingOperator(
  deps: { readonly home: Home; store(): Promise<Store> },
  fallback: string,
): Promise<string> {
  if (!existsSync(deps.home.database)) return fallback
  return (await activeLogin(await deps.store()))?.subject ?? fallback
}

/** Returns `operator:<name>` for a name that a user chose. */
export function operatorSubject(name: string): string {
  if (NAME.test(name) && redactText(name).labels.length === 0) return `operator:${name}`
  throw new CraikError('usage', 'invalid --as: use letters, digits and . _ @ -, at most 64 characters', {
    hint: 'run:  craik login --as ada',
  })
}

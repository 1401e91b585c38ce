/** Logins in the writer thread: one transaction writes the row and its receipt. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { newId } from '../../lib/ids.ts'
import type { ReceiptRef, ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { LoginRow } from '../../store/agent-tables.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import { isSubject, type LoggedIn, logInProcedure, logOutProcedure } from './operator-login.ts'

export function loginProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    [logInProcedure.name]: async (
      tables: Tables,
      { subject }: { readonly subject: string },
    ): Promise<LoggedIn> => {
      const before = await tables.logins.active()
      if (before?.subject === subject) return { login: before, began: false, replaced: null, receipt: null }
      if (before !== undefined) await end(tables, before, receipts, clock)
      const sinceMs = clock.nowMs()
      const id = newId<string>('login', sinceMs)
      const login: LoginRow = { id, subject, issuer: 'local', sinceMs, endedAtMs: null }
      await tables.logins.insert(login)
      const receipt = await write(tables, login, 'login', receipts)
      return { login, began: true, replaced: before?.subject ?? null, receipt }
    },

    [logOutProcedure.name]: async (tables: Tables) => {
      const login = await tables.logins.active()
      if (login === undefined) {
        throw new CraikError('login_required', 'no operator is logged in')
      }
      return end(tables, login, receipts, clock)
    },
  }
}

async function end(
  tables: Tables,
  login: LoginRow,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<{ readonly login: LoginRow; readonly receipt: ReceiptRef }> {
  const endedAtMs = clock.nowMs()
  await tables.logins.end(login.id, endedAtMs)
  return { login: { ...login, endedAtMs }, receipt: await write(tables, login, 'logout', receipts) }
}

function write(
  tables: Tables,
  { id, subject, issuer }: LoginRow,
  operation: 'login' | 'logout',
  receipts: ReceiptWriter,
): Promise<ReceiptRef> {
  return receipts.append(tables, {
    kind: 'login',
    phase: 'point',
    status: 'passed',
    // The owner of a changed row is unknown.
    operator: isSubject(subject) ? subject : 'unknown',
    capability: 'operator.session',
    operation,
    target: id,
    links: {},
    // Nothing was authenticated: Craik trusts any process that can write to the home.
    metadata: { issuer, authenticated: false },
  })
}

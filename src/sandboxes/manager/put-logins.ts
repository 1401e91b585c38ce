/** Gives a sandbox that runs what it gets of the logins of this machine. */
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { LoginSetup, ManagerOptions } from './manager-options.ts'
import { ask } from './operation.ts'
import { reasonOf } from './transition.ts'

const DEADLINE_MS = 15_000

/**
 * When it begins to run. A sandbox without its logins is one all the same: what is missing is told where it is missed.
 */
export async function sendLogins(
  options: ManagerOptions,
  active: ActiveSandbox,
  record: SandboxRecord,
  { operator, signal }: ManagerCaller,
): Promise<void> {
  const { logins } = options
  if (logins === undefined || record.spec.credentials === 'none') return
  // The grant that a request brought is for what it asked; this one came with the sandbox.
  const caller = { operator, signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]) }
  try {
    const provided = await logins.files(record, caller.signal)
    active.accounts = provided.accounts
    if (provided.leftOut.length > 0 || provided.files.some(({ content }) => content !== null))
      await putLogins(options, active, caller, async () => provided)
  } catch (error) {
    const why = `could not copy its logins into the sandbox: ${reasonOf(error)}`
    active.session.events.add('logins_missing', { message: reasonOf(error) })
    active.leftOut = why
    delete active.accounts
    options.logger('warn', why, { sandbox: record.id })
  }
}

const NOTHING: LoginSetup = { files: [], accounts: [], leftOut: [] }

/** When somebody asks for it: as they are now. Decided before any of them is read. */
export function putLogins(
  options: ManagerOptions,
  active: ActiveSandbox,
  caller: ManagerCaller,
  read: (until: AbortSignal) => Promise<LoginSetup> = async (until) =>
    active.owned === undefined || active.owned.spec.credentials === 'none'
      ? NOTHING
      : ((await options.logins?.files(active.owned, until)) ?? NOTHING),
): Promise<readonly string[]> {
  const { session, owned } = active
  const metadata = { logins: owned?.spec.credentials ?? 'none' }
  return ask(options, session, caller, 'put_logins', { metadata }, async (boundary, until) => {
    const { files, accounts, leftOut } = await read(until)
    await boundary.inside.putLogins(files, until)
    active.accounts = accounts
    messageOf(active, leftOut)
    return files.flatMap(({ name, content }) => (content === null ? [] : [name]))
  })
}

/** Once, until something else is left out. */
function messageOf(active: ActiveSandbox, leftOut: readonly string[]): void {
  const message = leftOut.join('; ')
  if (message !== '' && message !== active.leftOut) active.session.events.add('logins_left_out', { message })
  if (message === '') delete active.leftOut
  else active.leftOut = message
}

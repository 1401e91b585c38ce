/** Copies the host's logins into a running sandbox, as its credential mode allows. */
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { LoginSetup, ManagerOptions } from './manager-options.ts'
import { requestSidecar } from './operation.ts'
import { reasonOf } from './transition.ts'

const DEADLINE_MS = 15_000

/**
 * Copies the logins when the sandbox starts to run. It runs without them if that fails; an event and the notice say
 * what is missing.
 */
export async function sendLogins(
  options: ManagerOptions,
  active: ActiveSandbox,
  record: SandboxRecord,
  { operator, signal }: ManagerCaller,
): Promise<void> {
  const { logins } = options
  if (logins === undefined || record.spec.credentials === 'none') return
  // The request's grant is for what it requested. The grant for the logins came with the sandbox.
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

/** Copies the logins on request, as they are now. Policy decides before any of them is read. */
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
  return requestSidecar(options, session, caller, 'put_logins', { metadata }, async (boundary, until) => {
    const { files, accounts, leftOut } = await read(until)
    await boundary.inside.putLogins(files, until)
    active.accounts = accounts
    reportLeftOut(active, leftOut)
    return files.flatMap(({ name, content }) => (content === null ? [] : [name]))
  })
}

/** Adds one event, and another only when something else is left out. */
function reportLeftOut(active: ActiveSandbox, leftOut: readonly string[]): void {
  const message = leftOut.join('; ')
  if (message !== '' && message !== active.leftOut) active.session.events.add('logins_left_out', { message })
  if (message === '') delete active.leftOut
  else active.leftOut = message
}

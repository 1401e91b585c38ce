/** Reports which logins of this host a sandbox would get, and whether `craik up` would be refused. */
import { CraikError } from '../../errors.ts'
import { loadSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { refuseHostVariables } from '../../login-sandbox/refuse-host-variables.ts'
import type { CliContext } from '../context.ts'
import { hostLogins } from '../host-logins.ts'
import type { HealthRow } from './row.ts'

export async function loginsHealth(context: CliContext): Promise<HealthRow> {
  const { environment, signal } = context
  try {
    refuseHostVariables(environment, loadSettings({}, environment, process.cwd()).refusePattern, 'craik up')
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    return { name: 'logins', state: 'warn', detail: `craik up is refused: ${error.message}`, fix: error.hint }
  }
  const logins = await hostLogins(context)
  const names = (await logins.accounts(signal)).map(({ id }) => id)
  const problems = await logins.problems(signal)
  if (problems.length > 0)
    return {
      name: 'logins',
      state: 'warn',
      fix: 'craik accounts',
      detail: [
        ...names,
        ...problems.map(({ id, ended }) => `${id} ${ended ? 'has expired' : 'cannot be read'}`),
      ].join(', '),
    }
  if (names.length > 0) return { name: 'logins', state: 'ok', detail: names.join(', ') }
  return {
    name: 'logins',
    state: 'none',
    detail: 'no agent is logged in on this machine',
    fix: 'claude /login',
  }
}

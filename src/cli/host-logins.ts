/** Opens the logins of this host for a command. */
import { homedir } from 'node:os'
import type { HostLogins } from '../accounts/broker.ts'
import type { HostLoginsOptions } from '../accounts/open-host-logins.ts'
import type { CliContext } from './context.ts'

/**
 * Reading logins writes no receipt, so the default operator has no effect. A caller that refreshes logins passes
 * `operator` and `log`.
 */
export async function hostLogins(
  context: CliContext,
  more: Partial<Pick<HostLoginsOptions, 'operator' | 'log' | 'asksAgain'>> = {},
): Promise<HostLogins> {
  const [{ openHostLogins }, { ACCOUNTS_FILE, parseOverrides }, { readConfigFile }] = await Promise.all([
    import('../accounts/open-host-logins.ts'),
    import('../accounts/overrides.ts'),
    import('../providers/config-file.ts'),
  ])
  const { home, environment, localUser } = context
  const overrides = parseOverrides(await readConfigFile(home.config, ACCOUNTS_FILE))
  return openHostLogins({
    home,
    environment,
    userHome: environment.HOME || homedir(),
    store: () => context.store(),
    overrides: async () => overrides,
    operator: localUser,
    ...more,
  })
}

/** The logins of this machine, as a command looks at them. */
import { homedir } from 'node:os'
import type { HostLogins } from '../accounts/broker.ts'
import type { HostLoginsOptions } from '../accounts/host-logins.ts'
import type { CliContext } from './context.ts'

/** Looking leaves no trace, and is done in nobody's name; whoever refreshes says more. */
export async function hostLogins(
  context: CliContext,
  more: Partial<Pick<HostLoginsOptions, 'operator' | 'log' | 'asksAgain'>> = {},
): Promise<HostLogins> {
  const [{ openHostLogins }, { readConfigFile }] = await Promise.all([
    import('../accounts/host-logins.ts'),
    import('../providers/config-file.ts'),
  ])
  const { home, environment, localUser } = context
  return openHostLogins({
    ...{ home, environment, userHome: environment.HOME || homedir(), store: () => context.store() },
    config: await readConfigFile(home.config, 'accounts.yaml'),
    operator: localUser,
    ...more,
  })
}

/** Commands look for an engine in their own environment, the supervisor in that of whoever started it: the two may differ. */
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

const NAMES = ['CRAIK_ENGINE', 'DOCKER_HOST'] as const
const HINT =
  'stop the supervisor; sandboxes keep running, and the next command restarts it:  craik supervisor stop'

/** Whoever names an engine here gets that one, or is told why not. Who names none gets the supervisor's. */
export async function requireSameEngine(
  { environment, signal }: Pick<CliContext, 'environment' | 'signal'>,
  client: Pick<ApiClient, 'supervisor'>,
): Promise<void> {
  const name = NAMES.find((one) => environment[one])
  if (name === undefined) return
  const { engine } = await client.supervisor.status({ signal })
  if (engine === environment[name]) return
  const its = engine === null ? 'the default sockets' : engine
  throw new CraikError(
    'conflict',
    `${name} is ${environment[name]}, but the supervisor was started without it and uses ${its}`,
    { hint: HINT },
  )
}

/** The same for who names none, when the one that the supervisor was started with does not answer. */
export async function withOtherEngine(
  error: unknown,
  { environment, signal }: Pick<CliContext, 'environment' | 'signal'>,
  client: Pick<ApiClient, 'supervisor'>,
): Promise<unknown> {
  if (!(error instanceof CraikError) || error.details?.engine !== 'silent') return error
  if (NAMES.some((one) => environment[one])) return error
  const { engine } = await client.supervisor.status({ signal })
  if (engine === null) return error
  return new CraikError(error.code, `${error.message}; the supervisor was started with that address`, {
    hint: HINT,
    details: error.details,
    cause: error,
  })
}

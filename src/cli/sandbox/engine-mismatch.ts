/**
 * Commands find the engine through their own environment, and the supervisor through that of the command that started
 * it. The two may differ.
 */
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

const NAMES = ['CRAIK_ENGINE', 'DOCKER_HOST'] as const
const HINT =
  'stop the supervisor; sandboxes keep running, and the next command restarts it:  craik supervisor stop'

/**
 * Fails if the environment names another engine than that of the supervisor. If it names none, the supervisor's engine
 * is used.
 */
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

/**
 * Explains an error if the environment names no engine, and the one that the supervisor was started with does not
 * answer.
 */
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

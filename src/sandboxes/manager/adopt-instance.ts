/** Makes a sandbox of a place that waits for one, when there is one that fits: nothing is started, and no engine asked. */
import { deniedOperation } from '../lifecycle/denied.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { type BeginCreateInput, type BeginCreateOutput, beginCreate } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { Shape } from '../pool/shape.ts'
import type { ManagerOptions } from './options.ts'
import { bringLogins } from './put-logins.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import type { Started } from './start-instance.ts'
import type { WarmInstance } from './warm-instance.ts'
import type { WarmPool } from './warm-pool.ts'

export interface Adopted {
  readonly record: SandboxRecord
  /** What is its own now. */
  readonly made: Required<Started>
}

/** Undefined when none fits. It runs, or it is being created and is still to be shown its folders. */
export async function adoptInstance(
  options: ManagerOptions,
  holder: SandboxRegistry,
  pool: WarmPool,
  shape: Shape,
  caller: ManagerCaller,
  input: Omit<BeginCreateInput, 'adopt' | 'container'>,
  beganAtMs: number,
): Promise<Adopted | undefined> {
  for (;;) {
    const warm = pool.take(shape)
    if (warm === undefined) return undefined
    const answer = await offered(options, pool, warm, input, beganAtMs)
    if (answer.effect === 'denied') {
      pool.giveBack(warm)
      throw deniedOperation(answer)
    }
    const { held } = warm
    if (answer.effect !== 'adopted' && answer.effect !== 'taken') {
      // Whoever has taken it off the record sees to it.
      await holder.letGo(held)
      continue
    }
    const { record } = answer
    held.session.countFromNow()
    holder.adopt(held, record)
    const place = held.session.place!
    if (answer.effect === 'adopted') {
      held.session.events.add('created')
      holder.watch(held, place)
      pool.note(shape, record.spec.container)
      await bringLogins(options, held, record, caller)
    }
    return { record, made: { held, place } }
  }
}

async function offered(
  { store }: ManagerOptions,
  pool: WarmPool,
  warm: WarmInstance,
  input: Omit<BeginCreateInput, 'adopt' | 'container'>,
  beganAtMs: number,
): Promise<BeginCreateOutput> {
  const { id, spec } = warm.record
  const { epoch } = warm.held.session
  try {
    return await store.write(beginCreate, {
      ...input,
      ...(spec.container && { container: spec.container }),
      adopt: { id, epoch, beganAtMs },
    })
  } catch (error) {
    pool.giveBack(warm)
    throw error
  }
}

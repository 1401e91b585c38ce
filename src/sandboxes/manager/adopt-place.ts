/** Makes a sandbox of a place that waits for one, when there is one that fits: nothing is started, and nothing waited for. */
import { deniedOperation } from '../lifecycle/denied.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { type BeginCreateInput, type BeginCreateOutput, beginCreate } from '../lifecycle/tokens.ts'
import type { Shape } from '../pool/shape.ts'
import type { Holder } from './holder.ts'
import type { ManagerOptions } from './options.ts'
import type { WarmPlace } from './warm-place.ts'
import type { WarmPool } from './warm-pool.ts'

/** Undefined when none fits. */
export async function adoptPlace(
  options: ManagerOptions,
  holder: Holder,
  pool: WarmPool,
  shape: Shape,
  input: Omit<BeginCreateInput, 'adopt' | 'container'>,
  beganAtMs: number,
): Promise<SandboxRecord | undefined> {
  for (;;) {
    const warm = pool.take(shape)
    if (warm === undefined) return undefined
    const answer = await offered(options, pool, warm, input, beganAtMs)
    if (answer.effect === 'denied') {
      pool.giveBack(warm)
      throw deniedOperation(answer)
    }
    const { held } = warm
    if (answer.effect !== 'adopted') {
      // Whoever has taken it off the record sees to it.
      await holder.letGo(held)
      continue
    }
    const { record } = answer
    held.session.countFromNow()
    holder.adopt(held, record)
    held.session.events.add('created')
    holder.watch(held, held.session.place!)
    pool.note(shape, record.spec.container)
    return record
  }
}

async function offered(
  { store }: ManagerOptions,
  pool: WarmPool,
  warm: WarmPlace,
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

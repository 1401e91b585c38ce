/** Turns a matching warm instance into a sandbox, without starting anything and without a call to the engine. */
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { type BeginCreateInput, type BeginCreateOutput, beginCreate } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { Shape } from '../pool/instance-shape.ts'
import type { ManagerOptions } from './manager-options.ts'
import { sendLogins } from './put-logins.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import type { Started } from './start-instance.ts'
import type { WarmInstance } from './warm-instance.ts'
import type { WarmPool } from './warm-pool.ts'

export interface Adopted {
  readonly record: SandboxRecord
  /** The parts that belong to the sandbox from now on. */
  readonly made: Required<Started>
}

/**
 * Returns `undefined` when no warm instance matches. The sandbox runs, or it is still `creating` until its folders are
 * mounted.
 */
export async function adoptInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  pool: WarmPool,
  shape: Shape,
  caller: ManagerCaller,
  input: Omit<BeginCreateInput, 'adopt' | 'container'>,
  beganAtMs: number,
): Promise<Adopted | undefined> {
  for (;;) {
    const warm = pool.take(shape)
    if (warm === undefined) return undefined
    const answer = await offerInstance(options, pool, warm, input, beganAtMs)
    if (answer.effect === 'denied') {
      pool.giveBack(warm)
      throw deniedOperationError(answer)
    }
    const { held: active } = warm
    if (answer.effect !== 'adopted' && answer.effect !== 'taken') {
      // Another process took it off the record and cleans it up.
      await registry.release(active)
      continue
    }
    const { record } = answer
    active.session.countFromNow()
    registry.adopt(active, record)
    const instance = active.session.instance!
    if (answer.effect === 'adopted') {
      active.session.events.add('created')
      registry.watch(active, instance)
      pool.note(shape, record.spec.container)
      await sendLogins(options, active, record, caller)
    }
    return { record, made: { active: active, instance: instance } }
  }
}

async function offerInstance(
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

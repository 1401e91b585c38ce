/** Makes a sandbox: decided first, undone whole when anything fails on the way. */
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { deniedOperation } from '../lifecycle/denied.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { refuseStated } from '../lifecycle/stated.ts'
import { beginCreate, endCreate } from '../lifecycle/tokens.ts'
import type { Caller, CreateRequest } from '../manager-types.ts'
import { shapeOf } from '../pool/shape.ts'
import { adoptPlace } from './adopt-place.ts'
import { firstDisk, planned, requestFrom } from './create-from.ts'
import { parseCreate } from './create-request.ts'
import { makeFolder } from './folders.ts'
import type { Holder } from './holder.ts'
import { observed } from './operation.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { removeDisk, type Started, startPlace, undoPlace } from './start-place.ts'
import { reasonOf } from './transition.ts'
import type { WarmPool } from './warm-pool.ts'

export async function createSandbox(
  options: ManagerOptions,
  holder: Holder,
  retries: RecoveryRetries,
  pool: WarmPool,
  caller: Caller,
  asked: CreateRequest,
): Promise<SandboxRecord> {
  const { store, log, clock, home } = options
  const { forkOf, ...wish } = asked
  const { request, snapshot } = await requestFrom(options, wish)
  // Looks at the workspace before anything is decided: the decision is about the folder as it is, links resolved. Who
  // gets this far has the home's token, so they are the user that Craik runs as, and can look at it themselves.
  const parsed = parseCreate(request, {
    craikHome: home.root,
    environment: options.environment ?? process.env,
    uid: process.geteuid?.() ?? -1,
  })
  const backend = backendCalled(options.backends, parsed.backend)
  const beganAtMs = clock.nowMs()
  const { name, policyEnvelopeId, container: wanted, ends, ...rest } = parsed
  const input = {
    id: newId<SandboxId>('sbx', clock.nowMs()),
    ...(name !== undefined && { name }),
    ...(policyEnvelopeId !== undefined && { policyEnvelopeId }),
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    ...rest,
    ...(forkOf !== undefined && { forkOf }),
    ...(snapshot && { snapshot: snapshot.id }),
    ends: { idle_ms: ends.idleMs, lifetime_ms: ends.lifetimeMs, keep_ms: ends.keepMs },
    ...(options.admission && { admission: options.admission }),
    owner: log.owner,
  }
  // Nothing is looked for, and no engine asked, for what is denied for what it says.
  const isRefused = refuseStated(parsed.backend, parsed.stated) !== undefined
  const shape = snapshot === undefined && !isRefused ? shapeOf(parsed) : undefined
  const adopted = shape && (await adoptPlace(options, holder, pool, shape, input, beganAtMs))
  if (adopted !== undefined) return adopted
  const container = isRefused ? undefined : await planned(backend, wanted ?? {}, snapshot)
  const answer = await store.write(beginCreate, { ...input, ...(container && { container }) })
  if (answer.effect === 'denied') throw deniedOperation(answer)
  if (answer.effect !== 'allowed')
    throw new CraikError('internal', 'a place was adopted that was not offered')
  const { record } = answer
  const spec = holder.specOf(record)
  const made: Started = {}
  try {
    caller.signal.throwIfAborted()
    await makeFolder(home.sandboxes, record.id)
    if (snapshot !== undefined) await firstDisk(options, caller, snapshot, spec, record.backend)
    const place = await startPlace(options, holder, record, made, caller.signal)
    const ended = await store.write(endCreate, {
      id: record.id,
      status: 'passed',
      place,
      measures: [observed('duration_ms', clock.nowMs() - beganAtMs)],
    })
    made.held!.session.events.add('created')
    holder.watch(made.held!, made.place!)
    if (shape !== undefined) pool.note(shape, record.spec.container)
    return ended.record!
  } catch (error) {
    try {
      await undoPlace(holder, spec, backend, made)
      await removeDisk(options, holder, record)
      await store.write(endCreate, { id: record.id, status: 'failed' })
    } catch (left) {
      // The record stays as `creating`: this is finished as soon as it can be.
      options.logger('error', `a sandbox that was not made could not be undone: ${reasonOf(left)}`, {
        sandbox: spec.id,
      })
      retries.later(spec.id, left)
    }
    throw error
  }
}

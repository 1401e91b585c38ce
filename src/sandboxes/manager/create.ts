/** Makes a sandbox: decided first, undone whole when anything fails on the way. */
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import type { RunningPlace, SandboxBackend, SandboxSpec } from '../backend.ts'
import { deniedOperation } from '../lifecycle/denied.ts'
import type { RecordedPlace, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { beginCreate, changeSandbox, endCreate } from '../lifecycle/tokens.ts'
import type { Caller, CreateRequest } from '../manager-types.ts'
import { parseCreate } from './create-request.ts'
import { closeFolder, makeFolder, removeFolder } from './folders.ts'
import type { Held } from './held.ts'
import type { Holder } from './holder.ts'
import { observed } from './operation.ts'
import type { ManagerOptions } from './options.ts'

/** From the start of the place to its sidecar's greeting; a loaded machine takes seconds. */
const READY_MS = 20_000

export async function createSandbox(
  options: ManagerOptions,
  holder: Holder,
  caller: Caller,
  request: CreateRequest,
): Promise<SandboxRecord> {
  const { store, log, clock, home } = options
  // Looks at the workspace before anything is decided: the decision is about the folder as it is, links resolved. Who
  // gets this far has the home's token, so they are the user that Craik runs as, and can look at it themselves.
  const parsed = parseCreate(request, {
    craikHome: home.root,
    environment: options.environment ?? process.env,
    uid: process.geteuid?.() ?? -1,
  })
  const backend = options.backends[request.backend]
  const beganAtMs = clock.nowMs()
  const { name, policyEnvelopeId, ...rest } = parsed
  const answer = await store.write(beginCreate, {
    id: newId<SandboxId>('sbx', clock.nowMs()),
    ...(name !== undefined && { name }),
    ...(policyEnvelopeId !== undefined && { policyEnvelopeId }),
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    backend: request.backend,
    ...rest,
    owner: log.owner,
  })
  if (answer.effect === 'denied') throw deniedOperation(answer)
  const { record } = answer
  const spec = holder.specOf(record)
  const made: { held?: Held; place?: RunningPlace } = {}
  try {
    const place = await start(options, holder, record, spec, backend, made, caller)
    const ended = await store.write(endCreate, {
      id: record.id,
      status: 'passed',
      place,
      measures: [observed('duration_ms', clock.nowMs() - beganAtMs)],
    })
    made.held!.session.events.add('created')
    holder.watch(made.held!, made.place!)
    return ended.record!
  } catch (error) {
    try {
      await undo(options, holder, spec, backend, made)
      await store.write(endCreate, { id: record.id, status: 'failed' })
    } catch (left) {
      // The record stays as `creating`: the next process finishes this.
      const why = left instanceof Error ? left.message : String(left)
      options.logger('error', `a sandbox that was not made could not be undone: ${why}`, { sandbox: spec.id })
    }
    throw error
  }
}

async function start(
  { store, home }: ManagerOptions,
  holder: Holder,
  record: SandboxRecord,
  spec: SandboxSpec,
  backend: SandboxBackend,
  made: { held?: Held; place?: RunningPlace },
  caller: Caller,
): Promise<RecordedPlace> {
  caller.signal.throwIfAborted()
  await makeFolder(home.sandboxes, record.id)
  const held = await holder.take(record)
  made.held = held
  const place = await backend.create(spec)
  made.place = place
  if (place.socketFolder !== join(spec.folder, 'socket')) {
    throw new CraikError('internal', 'the backend shows another socket than the one that is listened on')
  }
  // Whoever comes after a crash finds it by what is recorded.
  const recorded = store.write(changeSandbox, {
    id: record.id,
    place: recordedPlace(place),
    epoch: held.session.epoch,
  })
  const ended = place.ended.then((why) => {
    throw new CraikError('boundary_failed', `the sandbox ended before it was ready: ${why}`, {
      hint: 'see whether this machine can run it:  craik doctor',
    })
  })
  const [boundary] = await Promise.all([
    Promise.race([held.session.boundary(caller.signal, READY_MS), ended]),
    recorded,
  ])
  await closeFolder(home.sandboxes, record.id)
  const { handle, ...reached } = recordedPlace(place)
  return { ...reached, handle: { ...handle, sidecar: boundary.hello.instance } }
}

function recordedPlace({ handle, isolation, hostUid, limits }: RunningPlace): RecordedPlace {
  return { handle, isolation, hostUid, enforced: { ...limits } }
}

async function undo(
  options: ManagerOptions,
  holder: Holder,
  spec: SandboxSpec,
  backend: SandboxBackend,
  { held, place }: { held?: Held; place?: RunningPlace },
): Promise<void> {
  if (held !== undefined) await holder.letGo(held)
  await place?.destroy()
  await backend.sweep(spec, place?.handle)
  await removeFolder(options.home.sandboxes, spec.id)
}

/**
 * Jobs in a sandbox. Each begins once per id, however often it is requested. Only the operator who began it may read
 * it, send it input and end it.
 */
import type { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import { type JobSpec, LIMITS } from '../../sidecar/protocol.ts'
import type { Boundary, JobOutput } from '../boundary/boundary.ts'
import { isJobGone } from '../boundary/job-calls.ts'
import { restartJob } from '../lifecycle/tokens.ts'
import type { JobRequest, ManagedJobs, ManagerCaller, StartedJob } from '../manager-types.ts'
import { refuseVariables } from '../refused-variables.ts'
import type { ActiveSandbox, SandboxAccess } from './active-sandbox.ts'
import type { OpenJobEntry } from './job-book.ts'
import type { ManagerOptions } from './manager-options.ts'
import { meterStream, sendMetered } from './metered-streams.ts'
import {
  type CrossingName,
  failedOperation,
  isCertain,
  requestSidecar,
  startOperation,
  toJson,
} from './operation.ts'
import { ownJob } from './own-job.ts'

const OPERATION: Readonly<Record<JobSpec['kind'], CrossingName>> = {
  exec: 'exec',
  terminal: 'terminal',
  'tar-in': 'tar_in',
  'tar-out': 'tar_out',
}

/**
 * A client that began a job longer ago than this does not wait for it. Within this time, the sidecar decides whether an
 * unknown id may have run: it keeps the ids of jobs that it forgot, and the time since when these ids are complete.
 */
const RESTART_MS = LIMITS.endedJobKeepMs / 3

export function createManagedJobs(options: ManagerOptions, access: SandboxAccess): ManagedJobs {
  const { store, log } = options

  async function requireOwnJob(active: ActiveSandbox, caller: ManagerCaller, job: JobId, action: string) {
    const entry = await ownJob(options, active, caller, job, action)
    if (entry === 'unknown') throw unknownJobError(job)
    return entry
  }

  /** Runs one call about a job, under the decision that was made when the job began. */
  async function callJob<T>(
    caller: ManagerCaller,
    id: ActiveSandbox['session']['id'],
    job: JobId,
    action: string,
    work: (boundary: Boundary, active: ActiveSandbox, entry: OpenJobEntry | undefined) => Promise<T>,
  ): Promise<T> {
    const active = await access.require(id)
    const entry = await requireOwnJob(active, caller, job, action)
    if (entry !== undefined) entry.touchedAtMs = options.clock.nowMs()
    const release = active.session.hold()
    try {
      return await work(await active.session.boundary(caller.signal), active, entry)
    } finally {
      release()
    }
  }

  /**
   * Starts the job, or attaches to the started one. A job that the sandbox refuses has ended. A job whose start broke
   * off stays open.
   */
  async function attach(
    active: ActiveSandbox,
    entry: OpenJobEntry,
    spec: JobSpec,
    isNew: boolean,
    caller: ManagerCaller,
  ) {
    const boundary = await active.session.boundary(caller.signal)
    if (entry.started) return { created: false, output: await readFrom(boundary, entry.id, 0, caller) }
    if (!isNew) {
      if ((await boundary.jobs.status(entry.id, caller.signal)) !== undefined) {
        entry.started = true
        return { created: false, output: await readFrom(boundary, entry.id, 0, caller) }
      }
      // The job may have run and been forgotten by now, so it is not run a second time.
      const isOther = active.instance !== undefined && boundary.hello.instance !== active.instance
      if (isOther || ageOf(entry) > RESTART_MS) throw await endLost(active, entry)
    }
    if (!entry.accounted) {
      await store.write(restartJob, {
        id: active.session.id,
        jobId: entry.id,
        epoch: active.session.epoch,
        owner: log.owner,
      })
      entry.accounted = true
    }
    entry.crossed = true
    try {
      const ageMs = isNew ? undefined : ageOf(entry)
      const { created, output } = await boundary.jobs.start(
        entry.id,
        withSandboxEnvironment(spec, active, boundary, options.logins),
        caller.signal,
        ageMs,
      )
      entry.started = true
      entry.touchedAtMs = options.clock.nowMs()
      active.session.events.add('job_started', { job: entry.id })
      return { created: created && isNew, output }
    } catch (error) {
      if (isJobGone(error)) throw await endLost(active, entry)
      if (isCertain(error)) await active.book.end(entry, 'failed', failureFacts(error))
      throw error
    }
  }

  const ageOf = (entry: OpenJobEntry) => Math.max(0, options.clock.nowMs() - entry.beganAtMs)

  async function endLost(active: ActiveSandbox, entry: OpenJobEntry): Promise<CraikError> {
    await active.book.end(entry, 'indeterminate', { metadata: { outcome: 'lost' } })
    return new CraikError('boundary_failed', `job ${entry.id} is lost: the sandbox no longer knows it`, {
      hint: 'check what the command did, then run it again',
      details: { inside: 'gone' },
    })
  }

  function meterOutput(
    active: ActiveSandbox,
    entry: OpenJobEntry | undefined,
    output: JobOutput,
    release: () => void,
  ): Readable {
    if (entry === undefined) return meterStream(output, release)
    entry.readers++
    const detach = active.attached.add({
      begun: entry.begun,
      jobId: entry.id,
      action: 'output',
      end: (denied) => passed.destroy(denied),
    })
    const settle = async () => {
      if (output.result !== undefined) await active.book.endWith(entry, output.result)
    }
    const passed = meterStream(
      output,
      () => {
        detach()
        entry.readers--
        entry.touchedAtMs = options.clock.nowMs()
        release()
        void settle()
      },
      {
        onBytes(bytes) {
          entry.bytesIn += bytes
          entry.movedAtMs = options.clock.nowMs()
        },
        // When the stream ends, the job's receipt is on disk.
        beforeEnd: settle,
      },
    )
    return passed
  }

  return {
    async start(caller, id, job, request): Promise<StartedJob> {
      const active = await access.require(id)
      active.book.requireCapacity()
      const release = active.session.hold()
      try {
        refuseVariables(
          { ...active.record.spec.environment, ...request.spec.env },
          'the environment of the job',
        )
        const operation = OPERATION[request.spec.kind]
        const answer = await startOperation(options, active.session, caller, operation, {
          job: jobInput(job, request),
        })
        const spec = answer.argv === undefined ? request.spec : { ...request.spec, argv: answer.argv }
        const receiptId = answer.begun.id
        const isNew = answer.known === undefined
        const entry =
          answer.known?.state === 'ended'
            ? undefined
            : active.book.add({
                id: job,
                operation,
                operator: caller.operator,
                begun: answer.begun,
                adopted: false,
                ...(request.endsWhenLeftMs !== undefined && { endsWhenLeftMs: request.endsWhenLeftMs }),
              })
        if (entry !== undefined) entry.touchedAtMs = options.clock.nowMs()
        const attached =
          entry &&
          (await active.book.inTurn(entry, () => attach(active, entry, spec as JobSpec, isNew, caller)))
        if (attached !== undefined) {
          const { created, output } = attached
          return { created, receiptId, output: meterOutput(active, entry, output, release) }
        }
        // The job ended before this call, or while the call waited for its turn. Only its output is left, if it ran.
        const boundary = await active.session.boundary(caller.signal)
        const output = await readFrom(boundary, job, 0, caller)
        return { created: false, receiptId, output: meterOutput(active, undefined, output, release) }
      } catch (error) {
        release()
        throw error
      }
    },

    status: (caller, id, job) =>
      callJob(caller, id, job, 'status', async (boundary) => {
        const status = await boundary.jobs.status(job, caller.signal)
        if (status === undefined) throw unknownJobError(job)
        return status
      }),

    async list(caller, id) {
      const { session } = await access.require(id)
      const inside = await requestSidecar(options, session, caller, 'jobs', {}, (boundary, until) =>
        boundary.inside.jobs(until),
      )
      const ours = await store.read(async (tables) => {
        const rows = await Promise.all(inside.map((status) => tables.sandboxJobs.get(id, status.id)))
        return new Set(rows.flatMap((row) => (row?.operator === caller.operator ? [row.jobId] : [])))
      })
      return inside.filter((status) => ours.has(status.id as JobId))
    },

    async output(caller, id, job, after) {
      const active = await access.require(id)
      const entry = await requireOwnJob(active, caller, job, 'output')
      if (entry !== undefined) entry.touchedAtMs = options.clock.nowMs()
      const release = active.session.hold()
      try {
        const boundary = await active.session.boundary(caller.signal)
        return meterOutput(active, entry, await readFrom(boundary, job, after, caller), release)
      } catch (error) {
        release()
        throw error
      }
    },

    input: (caller, id, job, { offset, end, body, turn }) =>
      callJob(caller, id, job, 'input', (boundary, active, entry) => {
        const send = (until: AbortSignal) =>
          sendMetered(
            body,
            (metered) => boundary.jobs.input(job, offset, metered, end, until, turn),
            (bytes) => {
              if (entry !== undefined) entry.bytesOut += bytes
            },
          )
        if (entry === undefined) return send(caller.signal)
        entry.feeders++
        return active.attached
          .during({ begun: entry.begun, jobId: job, action: 'input' }, caller.signal, send)
          .finally(() => {
            entry.feeders--
            entry.touchedAtMs = options.clock.nowMs()
          })
      }),

    acknowledge: (caller, id, job, position) =>
      callJob(caller, id, job, 'acknowledge', (boundary) =>
        boundary.jobs.acknowledge(job, position, caller.signal),
      ),

    control: (caller, id, job, what) =>
      callJob(caller, id, job, 'control', (boundary) => boundary.jobs.control(job, what, caller.signal)),

    cancel: (caller, id, job) =>
      callJob(caller, id, job, 'cancel', async (boundary, active, entry) => {
        const forget = () => boundary.jobs.forget(job, caller.signal)
        // The sandbox forgets the job first. A receipt that is written before could record the end of a job that
        // continues. After a crash between the two steps, the sandbox refuses the job's id. So the job is lost and does
        // not run again.
        const done =
          entry &&
          (await active.book.inTurn(entry, async () => {
            await forget()
            await active.book.end(entry, 'failed', { metadata: { outcome: 'cancelled' } })
            return true
          }))
        if (!done) await forget()
      }),
  }
}

/**
 * Adds the sandbox's own environment to a job. It is not part of the instance's environment, because engines show that
 * to every caller, and because the instance may have started before it had an owner.
 */
function withSandboxEnvironment(
  spec: JobSpec,
  { record, owned }: ActiveSandbox,
  { hello }: Boundary,
  logins: ManagerOptions['logins'],
): JobSpec {
  const reached =
    owned === undefined || owned.spec.isolation === 'none'
      ? {}
      : (logins?.environment(owned, hello.gatewayPort) ?? {})
  // The client of a terminal reports its type, because only the client has the terminal.
  const { TERM: _, ...others } = record.spec.environment
  const own = spec.kind === 'terminal' ? others : record.spec.environment
  return { ...spec, env: { ...reached, ...own, ...spec.env } }
}

function jobInput(id: JobId, { spec, commandRef, endsWhenLeftMs }: JobRequest) {
  const argv = 'argv' in spec ? spec.argv : undefined
  if (commandRef !== undefined && (argv === undefined || argv.length > 0)) {
    throw new CraikError('usage', 'a job takes either command (a registered name) or argv, not both', {
      hint: 'omit one of the two fields',
    })
  }
  return {
    id,
    spec: toJson(spec),
    ...(argv !== undefined && { argv }),
    ...(commandRef !== undefined && { commandRef }),
    ...(endsWhenLeftMs !== undefined && { endsWhenLeftMs }),
  }
}

async function readFrom(
  boundary: Boundary,
  job: JobId,
  after: number,
  caller: ManagerCaller,
): Promise<JobOutput> {
  try {
    return await boundary.jobs.output(job, after, caller.signal)
  } catch (error) {
    if (error instanceof CraikError && error.code === 'not_found') throw unknownJobError(job)
    throw error
  }
}

function unknownJobError(job: JobId): CraikError {
  return new CraikError('not_found', `the sandbox has no record of job ${job}`, {
    hint: 'list the jobs:  craik sandbox logs ID',
  })
}

function failureFacts(error: unknown) {
  const { metadata } = failedOperation(error, true)
  return { metadata: { outcome: 'not_started', error: String(metadata?.error) } }
}

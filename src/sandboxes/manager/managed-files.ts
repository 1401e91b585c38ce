/** Reads and writes the files of a sandbox across its boundary. An upload continues under the receipt that began it. */
import type { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { Boundary, FileChange, UploadSpec } from '../boundary/boundary.ts'
import { isJobGone } from '../boundary/job-calls.ts'
import { restartJob } from '../lifecycle/tokens.ts'
import type { ManagedFiles, ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox, SandboxAccess } from './active-sandbox.ts'
import type { OpenJobEntry } from './job-book.ts'
import type { ManagerOptions } from './manager-options.ts'
import { meterStream, sendMetered } from './metered-streams.ts'
import {
  type CrossingName,
  failedOperation,
  isCertain,
  observedMeasure,
  openOperation,
  requestSidecar,
  startOperation,
} from './operation.ts'
import { ownJob } from './own-job.ts'

const CHANGE: Readonly<Record<FileChange['kind'], CrossingName>> = {
  move: 'file_move',
  remove: 'file_remove',
  mkdir: 'file_mkdir',
}

export function createManagedFiles(options: ManagerOptions, access: SandboxAccess): ManagedFiles {
  const { store, log, clock } = options

  async function send(
    active: ActiveSandbox,
    entry: OpenJobEntry,
    upload: UploadSpec,
    offset: number,
    body: Readable,
    caller: ManagerCaller,
  ) {
    const boundary = await active.session.boundary(caller.signal)
    if (!entry.accounted) {
      const { id, epoch } = active.session
      await store.write(restartJob, { id, jobId: entry.id, epoch, owner: log.owner })
      entry.accounted = true
    }
    entry.crossed = true
    const attached = { begun: entry.begun, jobId: entry.id, action: 'upload' }
    return active.attached.during(attached, caller.signal, (until) =>
      sendMetered(
        body,
        (metered) => boundary.files.write(upload, offset, metered, until),
        (bytes) => {
          entry.bytesOut += bytes
        },
      ),
    )
  }

  /** Returns the state of an upload that has ended. */
  async function outcomeOf(active: ActiveSandbox, { upload }: UploadSpec, caller: ManagerCaller) {
    const boundary = await active.session.boundary(caller.signal)
    const there = await boundary.files.getUpload(upload, caller.signal)
    if (there !== undefined) return there
    throw new CraikError('conflict', `upload ${upload} has ended, and the sandbox no longer knows it`, {
      hint: 'start a new upload',
    })
  }

  /**
   * Ends an upload that is either complete or never happened. The sandbox forgot it, and does not write it a second
   * time.
   */
  async function unknownEnd(active: ActiveSandbox, entry: OpenJobEntry): Promise<CraikError> {
    await active.book.end(entry, 'indeterminate', { metadata: { outcome: 'lost' } })
    return new CraikError('conflict', 'the upload may already be complete: the sandbox no longer knows it', {
      hint: 'check the file, and start a new upload if its content is wrong',
    })
  }

  return {
    async read(caller, id, path, range) {
      const { session, attached } = await access.require(id)
      const release = session.hold()
      try {
        const operated = await openOperation(options, session, caller, 'file_read', {
          pinned: { path },
          metadata: { offset: range.offset, ...(range.length !== undefined && { length: range.length }) },
        })
        let boundary: Boundary | undefined
        try {
          boundary = await session.boundary(caller.signal)
          const content = await boundary.files.read(path, range, caller.signal)
          const end = (status: 'passed' | 'failed', how: string, bytes: number) =>
            operated.end({ status, measures: [observedMeasure('bytes_in', bytes)], metadata: { end: how } })
          const detach = attached.add({
            begun: operated.begun,
            action: 'read',
            end: (denied) => body.destroy(denied),
          })
          const body: Readable = meterStream(
            content.body,
            ({ end: how }, bytes) => {
              detach()
              release()
              void end(how === 'whole' ? 'passed' : 'failed', how, bytes)
            },
            { beforeEnd: (bytes) => end('passed', 'whole', bytes) },
          )
          return { ...content, body }
        } catch (error) {
          await operated.end(failedOperation(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },

    async write(caller, id, upload, offset, body) {
      const active = await access.require(id)
      active.book.requireCapacity()
      const release = active.session.hold()
      try {
        const { begun, known } = await startOperation(options, active.session, caller, 'file_write', {
          job: {
            id: upload.upload as JobId,
            spec: { kind: 'upload', path: upload.path, bytes: upload.bytes, mode: upload.mode },
          },
          pinned: { path: upload.path },
        })
        const entry =
          known?.state === 'ended'
            ? undefined
            : active.book.add({
                id: upload.upload as JobId,
                operation: 'file_write',
                operator: caller.operator,
                begun,
                adopted: false,
              })
        if (entry === undefined) return await outcomeOf(active, upload, caller)
        entry.readers++
        try {
          const answer = await active.book.inTurn(entry, () =>
            send(active, entry, upload, offset, body, caller),
          )
          // The upload ended while this call waited for its turn.
          if (answer === undefined) return await outcomeOf(active, upload, caller)
          if (answer.committed) await active.book.end(entry, 'passed', { metadata: { outcome: 'committed' } })
          return answer
        } catch (error) {
          if (isJobGone(error)) throw await unknownEnd(active, entry)
          if (isCertain(error)) {
            const code = error instanceof CraikError ? error.code : 'internal'
            await active.book.end(entry, 'failed', { metadata: { outcome: 'refused', error: code } })
          }
          throw error
        } finally {
          entry.readers--
          entry.touchedAtMs = clock.nowMs()
        }
      } finally {
        release()
      }
    },

    async getUpload(caller, id, upload) {
      const active = await access.require(id)
      const entry = await ownJob(options, active, caller, upload as JobId, 'uploaded')
      if (entry === 'unknown') return undefined
      if (entry !== undefined) entry.touchedAtMs = clock.nowMs()
      const boundary = await active.session.boundary(caller.signal)
      return boundary.files.getUpload(upload, caller.signal)
    },

    async stat(caller, id, path) {
      const { session } = await access.require(id)
      return requestSidecar(options, session, caller, 'file_stat', { pinned: { path } }, (boundary, until) =>
        boundary.files.stat(path, until),
      )
    },

    async list(caller, id, path, after, limit) {
      const { session } = await access.require(id)
      return requestSidecar(options, session, caller, 'file_list', { pinned: { path } }, (boundary, until) =>
        boundary.files.list(path, after, limit, until),
      )
    },

    async change(caller, id, change) {
      const { session } = await access.require(id)
      const { kind, ...what } = change
      await requestSidecar(options, session, caller, CHANGE[kind], { pinned: what }, (boundary, until) =>
        boundary.files.change(change, until),
      )
    },

    async watch(caller, id, path, recursive, after) {
      const { session, attached } = await access.require(id)
      const release = session.hold()
      try {
        const operated = await openOperation(options, session, caller, 'file_watch', {
          pinned: { path },
          metadata: { recursive },
        })
        let boundary: Boundary | undefined
        try {
          boundary = await session.boundary(caller.signal)
          const events = await boundary.files.watch(path, recursive, after, caller.signal)
          const detach = attached.add({
            begun: operated.begun,
            action: 'watch',
            end: (denied) => reported.destroy(denied),
          })
          // A watch has no end of its own, so a reader that stops has received what it requested.
          const reported: Readable = meterStream(events, ({ end }, bytes) => {
            detach()
            release()
            void operated.end({
              status: end === 'broken' ? 'failed' : 'passed',
              measures: [observedMeasure('bytes_in', bytes)],
              metadata: { end },
            })
          })
          return reported
        } catch (error) {
          await operated.end(failedOperation(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },
  }
}

/** Files of a sandbox, read and written across its boundary; an upload goes on under the receipt that began it. */
import type { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { Boundary, FileChange, UploadSpec } from '../boundary/boundary.ts'
import { isJobGone } from '../boundary/jobs.ts'
import { restartJob } from '../lifecycle/tokens.ts'
import type { ManagedFiles, ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox, SandboxHold } from './active-sandbox.ts'
import type { OpenJobEntry } from './job-book.ts'
import { ask, type CrossingName, failure, isCertain, observed, open, startOperation } from './operation.ts'
import type { ManagerOptions } from './options.ts'
import { ownJob } from './own-job.ts'
import { metered, sendMetered } from './streams.ts'

const CHANGE: Readonly<Record<FileChange['kind'], CrossingName>> = {
  move: 'file_move',
  remove: 'file_remove',
  mkdir: 'file_mkdir',
}

export function managedFiles(options: ManagerOptions, holding: SandboxHold): ManagedFiles {
  const { store, log, clock } = options

  async function send(
    held: ActiveSandbox,
    entry: OpenJobEntry,
    upload: UploadSpec,
    offset: number,
    body: Readable,
    caller: ManagerCaller,
  ) {
    const boundary = await held.session.boundary(caller.signal)
    if (!entry.accounted) {
      const { id, epoch } = held.session
      await store.write(restartJob, { id, jobId: entry.id, epoch, owner: log.owner })
      entry.accounted = true
    }
    entry.crossed = true
    const attached = { begun: entry.begun, jobId: entry.id, action: 'upload' }
    return held.attached.during(attached, caller.signal, (until) =>
      sendMetered(
        body,
        (metered) => boundary.files.write(upload, offset, metered, until),
        (bytes) => {
          entry.bytesOut += bytes
        },
      ),
    )
  }

  /** Of an upload that has ended. */
  async function whatCameOf(held: ActiveSandbox, { upload }: UploadSpec, caller: ManagerCaller) {
    const boundary = await held.session.boundary(caller.signal)
    const there = await boundary.files.uploaded(upload, caller.signal)
    if (there !== undefined) return there
    throw new CraikError('conflict', 'the upload has ended, and the sandbox no longer knows it', {
      hint: 'start a new upload',
    })
  }

  /** It is in place, or never came to be: the sandbox forgot it, and does not write it a second time. */
  async function unknownEnd(held: ActiveSandbox, entry: OpenJobEntry): Promise<CraikError> {
    await held.book.end(entry, 'indeterminate', { metadata: { outcome: 'lost' } })
    return new CraikError('conflict', 'the upload may already be complete: the sandbox no longer knows it', {
      hint: 'check the file, and start a new upload if its content is wrong',
    })
  }

  return {
    async read(caller, id, path, range) {
      const { session, attached } = await holding.require(id)
      const release = session.hold()
      try {
        const operated = await open(options, session, caller, 'file_read', {
          pinned: { path },
          metadata: { offset: range.offset, ...(range.length !== undefined && { length: range.length }) },
        })
        let boundary: Boundary | undefined
        try {
          boundary = await session.boundary(caller.signal)
          const content = await boundary.files.read(path, range, caller.signal)
          const end = (status: 'passed' | 'failed', how: string, bytes: number) =>
            operated.end({ status, measures: [observed('bytes_in', bytes)], metadata: { end: how } })
          const detach = attached.add({
            begun: operated.begun,
            action: 'read',
            end: (denied) => body.destroy(denied),
          })
          const body: Readable = metered(
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
          await operated.end(failure(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },

    async write(caller, id, upload, offset, body) {
      const held = await holding.require(id)
      held.book.requireRoom()
      const release = held.session.hold()
      try {
        const { begun, known } = await startOperation(options, held.session, caller, 'file_write', {
          job: {
            id: upload.upload as JobId,
            spec: { kind: 'upload', path: upload.path, bytes: upload.bytes, mode: upload.mode },
          },
          pinned: { path: upload.path },
        })
        const entry =
          known?.state === 'ended'
            ? undefined
            : held.book.add({
                id: upload.upload as JobId,
                operation: 'file_write',
                operator: caller.operator,
                begun,
                adopted: false,
              })
        if (entry === undefined) return await whatCameOf(held, upload, caller)
        entry.readers++
        try {
          const answer = await held.book.inTurn(entry, () => send(held, entry, upload, offset, body, caller))
          // It ended while this waited for its turn.
          if (answer === undefined) return await whatCameOf(held, upload, caller)
          if (answer.committed) await held.book.end(entry, 'passed', { metadata: { outcome: 'committed' } })
          return answer
        } catch (error) {
          if (isJobGone(error)) throw await unknownEnd(held, entry)
          if (isCertain(error)) {
            const code = error instanceof CraikError ? error.code : 'internal'
            await held.book.end(entry, 'failed', { metadata: { outcome: 'refused', error: code } })
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

    async uploaded(caller, id, upload) {
      const held = await holding.require(id)
      const entry = await ownJob(options, held, caller, upload as JobId, 'uploaded')
      if (entry === 'unknown') return undefined
      if (entry !== undefined) entry.touchedAtMs = clock.nowMs()
      const boundary = await held.session.boundary(caller.signal)
      return boundary.files.uploaded(upload, caller.signal)
    },

    async stat(caller, id, path) {
      const { session } = await holding.require(id)
      return ask(options, session, caller, 'file_stat', { pinned: { path } }, (boundary, until) =>
        boundary.files.stat(path, until),
      )
    },

    async list(caller, id, path, after, limit) {
      const { session } = await holding.require(id)
      return ask(options, session, caller, 'file_list', { pinned: { path } }, (boundary, until) =>
        boundary.files.list(path, after, limit, until),
      )
    },

    async change(caller, id, change) {
      const { session } = await holding.require(id)
      const { kind, ...what } = change
      await ask(options, session, caller, CHANGE[kind], { pinned: what }, (boundary, until) =>
        boundary.files.change(change, until),
      )
    },

    async watch(caller, id, path, recursive, after) {
      const { session, attached } = await holding.require(id)
      const release = session.hold()
      try {
        const operated = await open(options, session, caller, 'file_watch', {
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
            end: (denied) => told.destroy(denied),
          })
          // A watch has no end of its own: who leaves has got what was asked for.
          const told: Readable = metered(events, ({ end }, bytes) => {
            detach()
            release()
            void operated.end({
              status: end === 'broken' ? 'failed' : 'passed',
              measures: [observed('bytes_in', bytes)],
              metadata: { end },
            })
          })
          return told
        } catch (error) {
          await operated.end(failure(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },
  }
}

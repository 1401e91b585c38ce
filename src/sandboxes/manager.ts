/** The sandboxes of one home, as one process holds them: every call is decided, receipted and only then done. */
import type { SandboxId } from '../lib/ids.ts'
import { getSandbox, listSandboxes } from './lifecycle/read-records.ts'
import { createSandbox } from './manager/create.ts'
import { EventLog } from './manager/events.ts'
import { managedFiles } from './manager/files.ts'
import { folderOf } from './manager/folders.ts'
import { Holder } from './manager/holder.ts'
import { managedInside } from './manager/inside.ts'
import { managedJobs } from './manager/jobs.ts'
import type { ManagerOptions } from './manager/options.ts'
import { recoverSandboxes } from './manager/recover.ts'
import { deleteSandbox } from './manager/remove.ts'
import { viewOf } from './manager/view.ts'
import type { SandboxEvent, SandboxManager } from './manager-types.ts'

export interface HeldSandboxes extends SandboxManager {
  /** Once, before anything else: takes over what an earlier process left. */
  recover(): Promise<void>
  /** Lets go of all of them. They go on; the next process finds them again. Idempotent. */
  close(): Promise<void>
  /** Whether there is a reason to stay: a sandbox is held, made or removed. */
  readonly busy: boolean
}

export function createSandboxManager(options: ManagerOptions): HeldSandboxes {
  const { clock, home, logger } = options
  const holder = new Holder(options)
  const working = new Set<Promise<unknown>>()
  let closing: Promise<void> | undefined

  /** Closing waits for it: half of it would have to be undone by the next process. */
  function whole<T>(work: Promise<T>): Promise<T> {
    working.add(work)
    const over = () => working.delete(work)
    work.then(over, over)
    return work
  }

  async function* events(id: SandboxId, follow: boolean, until: AbortSignal): AsyncGenerator<SandboxEvent> {
    const held = holder.get(id)
    if (held !== undefined) return yield* held.session.events.read(follow, until)
    const record = await getSandbox(options, id)
    const log = await EventLog.open(folderOf(home.sandboxes, record.id), () => clock.nowMs())
    yield* log.read(false, until)
  }

  return {
    get busy() {
      return holder.size > 0 || working.size > 0
    },
    async create(caller, request) {
      const record = await whole(createSandbox(options, holder, caller, request))
      return viewOf(record, holder.get(record.id))
    },
    async list() {
      return (await listSandboxes(options)).map((listed) => {
        if (listed.record !== undefined) return viewOf(listed.record, holder.get(listed.record.id))
        const { id, name, problem } = listed
        logger('error', problem, { sandbox: id })
        return { id, name, state: 'damaged', notice: problem }
      })
    },
    async get(idOrName) {
      const record = await getSandbox(options, idOrName)
      return viewOf(record, holder.get(record.id))
    },
    delete: (caller, id) => whole(deleteSandbox(options, holder, caller, id)),
    events,
    jobs: managedJobs(options, holder),
    files: managedFiles(options, holder),
    inside: managedInside(options, holder),
    recover: () => whole(recoverSandboxes(options, holder)),
    close() {
      closing ??= Promise.allSettled([...working]).then(async () => {
        await Promise.all(holder.all().map((held) => holder.letGo(held)))
      })
      return closing
    },
  }
}

/** Serves the files of the sandbox over the boundary, with the rights of the sandbox's own user. */
import type { Clock } from '../../lib/clock.ts'
import type { SidecarRoute } from '../router.ts'
import { makeFolder, moveFile, remove } from './change-files.ts'
import { readContent } from './read.ts'
import { answerList, answerStat } from './stat-and-list.ts'
import { Uploads } from './uploads.ts'
import { Watches } from './watches.ts'

export interface FileOptions {
  /** The folder that relative paths start from. */
  readonly workspace: string
  readonly clock: Clock
  /** An upload that no client continues for this long is dropped. */
  readonly uploadIdleMs?: number
}

const UPLOAD_IDLE_MS = 3600_000

export function fileRoutes(options: FileOptions): readonly SidecarRoute[] {
  const { workspace } = options
  const uploads = new Uploads(workspace, options.uploadIdleMs ?? UPLOAD_IDLE_MS)
  const watches = new Watches(workspace, options.clock)
  return [
    { method: 'GET', path: '/files/content', handle: (call) => readContent(call, workspace) },
    { method: 'PUT', path: '/files/content', handle: (call) => uploads.write(call) },
    { method: 'GET', path: '/files/upload', handle: (call) => uploads.state(call) },
    { method: 'GET', path: '/files/stat', handle: (call) => answerStat(call, workspace) },
    { method: 'GET', path: '/files/list', handle: (call) => answerList(call, workspace) },
    { method: 'POST', path: '/files/move', handle: (call) => moveFile(call, workspace) },
    { method: 'POST', path: '/files/remove', handle: (call) => remove(call, workspace) },
    { method: 'POST', path: '/files/mkdir', handle: (call) => makeFolder(call, workspace) },
    { method: 'GET', path: '/files/watch', handle: (call) => watches.follow(call) },
  ]
}

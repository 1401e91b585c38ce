/** The folder `run` of a home: the supervisor's files while it runs, which only the home's owner can access. */
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { ensurePrivateFolder, readPrivateFile } from '../lib/private-files.ts'
import type { Home } from '../store/home.ts'
import { runningLockOwner } from './lock-owner.ts'

export interface RunFolder {
  readonly folder: string
  readonly socket: string
  readonly token: string
  readonly lock: string
  /**
   * Names the process that has the lock, from the moment that it has it. The file is for users and for waiting
   * processes. Nothing trusts it.
   */
  readonly info: string
  readonly log: string
}

const TOKEN = /^[0-9a-f]{64}$/

export function runFolder(home: Home): RunFolder {
  return {
    folder: home.run,
    socket: join(home.run, 'craik.sock'),
    token: join(home.run, 'token'),
    lock: join(home.run, 'supervisor.lock'),
    info: join(home.run, 'supervisor.json'),
    log: join(home.state, 'supervisor.log'),
  }
}

/** Creates the home, its `run` and its `state` if they are missing. Refuses them if other users can access them. */
export function ensureRunFolder(home: Home): RunFolder {
  ensurePrivateFolder(home.root, 'home folder')
  ensurePrivateFolder(home.run)
  ensurePrivateFolder(home.state)
  return runFolder(home)
}

export function readToken(folder: RunFolder): string {
  const token = readPrivateFile(folder.token, 128, 'supervisor’s token').toString().trim()
  if (TOKEN.test(token)) return token
  throw new CraikError('key_unreadable', 'the supervisor’s token is damaged', {
    hint: `end the supervisor (sandboxes keep running, the next command starts a new one):  kill -9 ${runningLockOwner(folder) ?? 'PID'}`,
  })
}

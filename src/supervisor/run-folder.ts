/** The folder `run` of a home: what the supervisor holds while it lives, for nobody but the home's owner. */
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
  /** Who holds it, from the moment it does; for people and for who waits, nothing trusts it. */
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

/** The home, its `run` and its `state`: made when missing, refused when others may use them. */
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

/** Where a Craik home keeps what: the only place that knows the folder names. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

export interface Home {
  readonly root: string
  readonly config: string
  readonly secrets: string
  readonly state: string
  readonly database: string
  readonly shellOutput: string
}

/** `CRAIK_HOME`, or `~/.craik`. Names paths only; creates nothing. */
export function homeAt(root = process.env.CRAIK_HOME || join(homedir(), '.craik')): Home {
  const at = resolve(root)
  const state = join(at, 'state')
  return {
    root: at,
    config: join(at, 'config'),
    secrets: join(at, 'secrets'),
    state,
    database: join(state, 'craik.sqlite3'),
    shellOutput: join(state, 'shell-output'),
  }
}

/** The folders of a Craik home. Only this file contains their names. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

export interface Home {
  readonly root: string
  readonly config: string
  readonly secrets: string
  readonly state: string
  readonly database: string
  readonly shellOutput: string
  /** The supervisor's socket, token and lock. */
  readonly run: string
  /** One folder for each sandbox. */
  readonly sandboxes: string
  /** One folder for each snapshot. */
  readonly snapshots: string
  /** One folder for each volume. */
  readonly volumes: string
  /** One folder for each run with a change set. */
  readonly runs: string
  /** The records of which transcripts were saved, and where. */
  readonly transcripts: string
  /** The records of each login's sandbox. */
  readonly loginSandboxes: string
}

/** Returns the paths of `CRAIK_HOME`, or of `~/.craik`. Creates no folder. */
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
    run: join(at, 'run'),
    sandboxes: join(at, 'sandboxes'),
    snapshots: join(at, 'snapshots'),
    volumes: join(at, 'volumes'),
    runs: join(at, 'runs'),
    transcripts: join(state, 'transcripts'),
    loginSandboxes: join(state, 'login-sandboxes'),
  }
}

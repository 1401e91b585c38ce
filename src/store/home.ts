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
  /** The supervisor's socket, token and lock. */
  readonly run: string
  /** One folder for each sandbox. */
  readonly sandboxes: string
  /** One folder for each snapshot. */
  readonly snapshots: string
  /** One folder for each volume of sandboxes. */
  readonly volumes: string
  /** One folder for each run that keeps something. */
  readonly runs: string
  /** What was written of transcripts, and where. */
  readonly transcripts: string
  /** What is known of the sandbox of each login. */
  readonly loginSandboxes: string
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
    run: join(at, 'run'),
    sandboxes: join(at, 'sandboxes'),
    snapshots: join(at, 'snapshots'),
    volumes: join(at, 'volumes'),
    runs: join(at, 'runs'),
    transcripts: join(state, 'transcripts'),
    loginSandboxes: join(state, 'login-sandboxes'),
  }
}

/** Whether a bubblewrap does here what sandboxes rest on: it is run, and what it made is looked at from inside. */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { RunResult } from '../../../lib/child.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import { type Invocation, invocation } from './bubblewrap.ts'
import { faultIn, PROOF_COMMAND, readOwnNamespaces } from './isolation-probe.ts'
import { runInside, type User } from './run-inside.ts'
import { readUsernsFix } from './userns.ts'
import type { ProjectFolder } from './workspace.ts'

const TIMEOUT_MS = 10_000
const INSTALL = 'apt-get install bubblewrap'

/** Stands for a workspace until there is one: a folder that every machine has, and that nothing could harm. */
const ANY_FOLDER: ProjectFolder = { folder: '/usr', covered: [] }

/** Owns nothing, may do nothing. */
export const NOBODY = { uid: 65534, gid: 65534 }

export interface Bubblewrap {
  readonly path: string
  readonly version: string
  readonly disableUserns: boolean
}

export type FoundBubblewrap =
  | { readonly bubblewrap: Bubblewrap }
  | { readonly reason: string; readonly fix: string }

/** The system's own, examined; or why there is none, and what would help. */
export async function findBubblewrap(environment: NodeJS.ProcessEnv): Promise<FoundBubblewrap> {
  if (seccompFilter({ unixSockets: true }) === undefined) {
    return {
      reason: `no system call filter for ${process.arch}`,
      fix: 'use an x64 or arm64 machine',
    }
  }
  const path = findSystemProgram('bwrap', environment.PATH)
  if (path !== undefined) return probeBubblewrap(path)
  const isElsewhere = (environment.PATH ?? '')
    .split(delimiter)
    .some((folder) => existsSync(join(folder, 'bwrap')))
  const reason = isElsewhere
    ? 'the bubblewrap on PATH is not the system’s own; Craik trusts no other'
    : 'bubblewrap is not installed'
  return { reason, fix: INSTALL }
}

/** The same for sandboxes that live on: root never runs them as itself, so it is proved for somebody without rights. */
export async function findSandboxPrograms(environment: NodeJS.ProcessEnv): Promise<FoundBubblewrap> {
  const found = await findBubblewrap(environment)
  if (!('bubblewrap' in found) || process.getuid?.() !== 0) return found
  const { bubblewrap } = found
  const fault = await prove(bubblewrap, ANY_FOLDER, NOBODY)
  if (fault === undefined) return found
  const reason = `bubblewrap ${bubblewrap.version} cannot isolate ordinary users here: ${fault}`
  return { reason, fix: readUsernsFix() }
}

/** Finding it is not enough: many systems forbid what it needs, and another program may have its name. */
export async function probeBubblewrap(path: string): Promise<FoundBubblewrap> {
  const { out } = await collect({ argv: [path, '--version'], inputs: [] }, undefined)
  const [, version, major, minor] = /^bubblewrap ((\d+)\.(\d+)[.\d]*)\n$/.exec(out) ?? []
  if (version === undefined) return { reason: 'cannot read the version of bubblewrap', fix: INSTALL }
  const bubblewrap = { path, version, disableUserns: Number(major) > 0 || Number(minor) >= 8 }
  const fault = await prove(bubblewrap, ANY_FOLDER, undefined)
  if (fault === undefined) return { bubblewrap }
  return { reason: `bubblewrap ${version} cannot isolate here: ${fault}`, fix: readUsernsFix() }
}

/** What is wrong with the sandboxes that it makes; undefined when they hold what they promise. */
export async function prove(
  bubblewrap: Bubblewrap,
  workspace: ProjectFolder,
  user: User,
): Promise<string | undefined> {
  const made = invocation(bubblewrap.path, workspace, {}, PROOF_COMMAND, bubblewrap)
  const { run, out } = await collect(made, user)
  if (run.end === 'not_started') return run.message
  if (run.end !== 'exited') return `the test program did not finish (${run.end})`
  if (run.exitCode !== 0) return `the test program failed (exit code ${run.exitCode})`
  return faultIn(out, readOwnNamespaces())
}

async function collect(
  made: Invocation,
  user: User,
): Promise<{ readonly run: RunResult; readonly out: string }> {
  let out = ''
  const run = await runInside(made, user, {
    argv: PROOF_COMMAND,
    env: {},
    timeoutMs: TIMEOUT_MS,
    maxOutputBytes: 256 * 1024,
    onStdout: (chunk) => {
      out += chunk
    },
    onStderr: () => {},
  })
  return { run, out }
}

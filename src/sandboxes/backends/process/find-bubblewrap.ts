/** Checks whether bubblewrap works on this host: runs it, and inspects the sandbox from a program in it. */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { RunResult } from '../../../lib/child.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import { buildCommandInvocation, type Invocation } from './bubblewrap.ts'
import { findReportFault, PROBE_COMMAND, readOwnNamespaces } from './isolation-probe.ts'
import { runInside, type User } from './run-inside.ts'
import { readUsernsFix } from './userns.ts'
import type { ProjectFolder } from './workspace.ts'

const TIMEOUT_MS = 10_000
const INSTALL = 'apt-get install bubblewrap'

/** Replaces the workspace in the test: a folder that exists on every host and that needs no protection. */
const TEST_WORKSPACE: ProjectFolder = { folder: '/usr', covered: [] }

/** A user that owns nothing and has no rights. */
export const NOBODY = { uid: 65534, gid: 65534 }

export interface Bubblewrap {
  readonly path: string
  readonly version: string
  readonly disableUserns: boolean
}

export type FoundBubblewrap =
  | { readonly bubblewrap: Bubblewrap }
  | { readonly reason: string; readonly fix: string }

/** Returns the system's own bubblewrap after a test, or why it is not usable and what would help. */
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

/**
 * Does the same for sandboxes that continue to run. Root never runs those as root, so this tests bubblewrap as a user
 * without rights.
 */
export async function findBubblewrapForSandboxes(environment: NodeJS.ProcessEnv): Promise<FoundBubblewrap> {
  const found = await findBubblewrap(environment)
  if (!('bubblewrap' in found) || process.getuid?.() !== 0) return found
  const { bubblewrap } = found
  const fault = await testIsolation(bubblewrap, TEST_WORKSPACE, NOBODY)
  if (fault === undefined) return found
  const reason = `bubblewrap ${bubblewrap.version} cannot isolate ordinary users here: ${fault}`
  return { reason, fix: readUsernsFix() }
}

/** Finding the program is not enough: many systems forbid what it needs, and another program can have its name. */
export async function probeBubblewrap(path: string): Promise<FoundBubblewrap> {
  const { out } = await collect({ argv: [path, '--version'], inputs: [] }, undefined)
  const [, version, major, minor] = /^bubblewrap ((\d+)\.(\d+)[.\d]*)\n$/.exec(out) ?? []
  if (version === undefined) return { reason: 'cannot read the version of bubblewrap', fix: INSTALL }
  const bubblewrap = { path, version, disableUserns: Number(major) > 0 || Number(minor) >= 8 }
  const fault = await testIsolation(bubblewrap, TEST_WORKSPACE, undefined)
  if (fault === undefined) return { bubblewrap }
  return { reason: `bubblewrap ${version} cannot isolate here: ${fault}`, fix: readUsernsFix() }
}

/** Returns what is wrong with the sandboxes that it creates. `undefined` when their isolation is complete. */
export async function testIsolation(
  bubblewrap: Bubblewrap,
  workspace: ProjectFolder,
  user: User,
): Promise<string | undefined> {
  const made = buildCommandInvocation(bubblewrap.path, workspace, {}, PROBE_COMMAND, bubblewrap)
  const { run, out } = await collect(made, user)
  if (run.end === 'not_started') return run.message
  if (run.end !== 'exited') return `the test program did not finish (${run.end})`
  if (run.exitCode !== 0) return `the test program failed (exit code ${run.exitCode})`
  return findReportFault(out, readOwnNamespaces())
}

async function collect(
  made: Invocation,
  user: User,
): Promise<{ readonly run: RunResult; readonly out: string }> {
  let out = ''
  const run = await runInside(made, user, {
    argv: PROBE_COMMAND,
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

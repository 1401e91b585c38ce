/** Commands on this machine: in namespaces of their own by bubblewrap, or, when that is asked for by name, in none. */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { type RunResult, runChild } from '../../../lib/child.ts'
import type { Availability, ExecOptions, Sandbox, SandboxBackend, SandboxSpec } from '../../backend.ts'
import {
  ENVIRONMENT_INSIDE,
  type Invocation,
  invocation,
  PROGRAM_FOLDERS,
  WORKSPACE_INSIDE,
} from './bubblewrap.ts'
import { signalDescendants } from './descendants.ts'
import { seccompFilter } from './seccomp.ts'
import { readUsernsFix } from './userns.ts'
import { resolveWorkspace, type Workspace } from './workspace.ts'

export interface ProcessBackendOptions {
  /** Craik's own home: no sandbox sees it. */
  readonly craikHome: string
  /** PATH in it is where bubblewrap is looked for, HOME what is never a workspace. */
  readonly environment: NodeJS.ProcessEnv
}

/** `nobody`: owns nothing, may do nothing. */
const UNPRIVILEGED = { uid: 65534, gid: 65534 }
const PROBE_TIMEOUT_MS = 10_000
const INSTALL = 'apt-get install bubblewrap'

interface Bubblewrap {
  readonly path: string
  readonly version: string
  readonly disableUserns: boolean
}

type Found = { readonly bubblewrap: Bubblewrap } | { readonly reason: string; readonly fix: string }

export function processBackend({ craikHome, environment }: ProcessBackendOptions): SandboxBackend {
  let found: Promise<Found> | undefined
  const look = () => {
    found ??= findBubblewrap(environment)
    return found
  }
  return {
    kind: 'local_process',
    async probe() {
      const state = await look()
      return 'bubblewrap' in state
        ? { isolation: 'process', version: `bubblewrap ${state.bubblewrap.version}` }
        : ({ isolation: 'none', reason: state.reason, fix: state.fix } satisfies Availability)
    },
    async create(spec: SandboxSpec) {
      if (spec.isolation === 'none') return hostSandbox(spec.workspace)
      if (spec.isolation !== 'process') {
        throw new CraikError('unavailable', `a local process cannot be isolated as ${spec.isolation}`)
      }
      const state = await look()
      if (!('bubblewrap' in state)) {
        throw new CraikError('unavailable', `isolation by process cannot be reached: ${state.reason}`, {
          hint: state.fix,
        })
      }
      const workspace = resolveWorkspace(spec.workspace, craikHome, environment)
      return isolatedSandbox(state.bubblewrap, workspace, await chooseUser(state.bubblewrap, workspace))
    },
  }
}

type Exec = (options: ExecOptions) => Promise<RunResult>

/** Ends what still runs when it is destroyed; between commands there is nothing to hold. */
function sandboxOf(about: Pick<Sandbox, 'isolation' | 'hostUid'>, exec: Exec): Sandbox {
  const running = new Set<AbortController>()
  const destroy = async () => {
    for (const one of running) one.abort()
  }
  return {
    ...about,
    boundary: {
      async exec(options) {
        const end = new AbortController()
        running.add(end)
        const signals = options.killSignal ? [end.signal, options.killSignal] : [end.signal]
        try {
          return await exec({ ...options, killSignal: AbortSignal.any(signals) })
        } finally {
          running.delete(end)
        }
      },
    },
    destroy,
    [Symbol.asyncDispose]: destroy,
  }
}

/** The host itself, with the workspace as working folder. */
function hostSandbox(workspace: string): Sandbox {
  return sandboxOf({ isolation: 'none' }, (options) => runChild({ ...options, cwd: workspace }))
}

type User = typeof UNPRIVILEGED | undefined

/** Every command gets namespaces of its own, which end with it. */
function isolatedSandbox(bubblewrap: Bubblewrap, workspace: Workspace, user: User): Sandbox {
  const hostUid = user?.uid ?? process.getuid?.()
  return sandboxOf({ isolation: 'process', ...(hostUid !== undefined && { hostUid }) }, async (options) => {
    const missing = missingProgram(options, workspace)
    if (missing !== undefined) return missing
    return runInside(
      invocation(bubblewrap.path, workspace, options.env, options.argv, bubblewrap),
      user,
      options,
    )
  })
}

function runInside({ argv, inputs }: Invocation, user: User, options: ExecOptions): Promise<RunResult> {
  return runChild({
    ...options,
    argv,
    inputs,
    cwd: '/',
    env: {},
    sendFirstSignal: signalDescendants,
    ...(user && { user }),
  })
}

/**
 * bubblewrap as root is still the host's root underneath: it could read what only root may, once it is shown. So root
 * gives its identity up first, unless the workspace, or bubblewrap itself, cannot be reached without it.
 */
async function chooseUser(bubblewrap: Bubblewrap, workspace: Workspace): Promise<User> {
  if (process.getuid?.() !== 0) return undefined
  const { end } = await tryOut(bubblewrap, workspace, UNPRIVILEGED, ['ls', '.'])
  return end === undefined ? UNPRIVILEGED : undefined
}

/** Inside, a program is looked for where it is on the host: what is not there is said before anything starts. */
function missingProgram({ argv, env }: ExecOptions, workspace: Workspace): RunResult | undefined {
  const [program = ''] = argv
  const places = program.includes('/')
    ? [outside(program, workspace)]
    : ({ ...ENVIRONMENT_INSIDE, ...env }.PATH ?? '').split(delimiter).map((folder) => join(folder, program))
  if (program !== '' && places.some((place) => place === undefined || isFile(place))) return undefined
  const message = `there is no program ${JSON.stringify(program)} in the sandbox`
  return { end: 'not_started', reason: 'missing', message, durationMs: 0 }
}

/** Where a path of the sandbox is on the host; undefined where only bubblewrap can tell. */
function outside(program: string, { folder }: Workspace): string | undefined {
  const path = isAbsolute(program) ? program : join(WORKSPACE_INSIDE, program)
  if (path.startsWith(`${WORKSPACE_INSIDE}/`)) return join(folder, path.slice(WORKSPACE_INSIDE.length))
  return PROGRAM_FOLDERS.some((shown) => path.startsWith(`${shown}/`)) ? path : undefined
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** Finding it is not enough: many systems forbid what it needs, so it is run once. */
async function findBubblewrap(environment: NodeJS.ProcessEnv): Promise<Found> {
  if (seccompFilter() === undefined) {
    return {
      reason: `there is no system call filter for ${process.arch}`,
      fix: 'use an x64 or arm64 machine',
    }
  }
  const path = onPath('bwrap', environment.PATH)
  if (path === undefined) return { reason: 'bubblewrap is not installed', fix: INSTALL }
  const { out } = await collect({ argv: [path, '--version'], inputs: [] }, undefined)
  const [, version, major, minor] = /((\d+)\.(\d+)[.\d]*)/.exec(out) ?? []
  if (version === undefined) return { reason: 'bubblewrap does not say its version', fix: INSTALL }
  const disableUserns = Number(major) > 0 || Number(minor) >= 8
  const bubblewrap = { path, version, disableUserns }
  const { end } = await tryOut(bubblewrap, undefined, undefined, ['true'])
  return end === undefined
    ? { bubblewrap }
    : { reason: `bubblewrap ${version} cannot make namespaces here (${end})`, fix: readUsernsFix() }
}

async function tryOut(
  bubblewrap: Bubblewrap,
  workspace: Workspace | undefined,
  user: User,
  command: readonly string[],
): Promise<{ readonly end?: string }> {
  const { run, err } = await collect(invocation(bubblewrap.path, workspace, {}, command, bubblewrap), user)
  if (run.end === 'exited' && run.exitCode === 0) return {}
  return { end: /bwrap: ([^\n]{1,120})/.exec(err)?.[1] ?? run.end.replace('_', ' ') }
}

async function collect(made: Invocation, user: User) {
  let [out, err] = ['', '']
  const run = await runInside(made, user, {
    argv: [],
    env: {},
    timeoutMs: PROBE_TIMEOUT_MS,
    maxOutputBytes: 64 * 1024,
    onStdout: (chunk) => {
      out += chunk
    },
    onStderr: (chunk) => {
      err += chunk
    },
  })
  return { run, out, err }
}

/** Only absolute folders: a relative one would let the place where a command starts choose the program. */
function onPath(name: string, path = ''): string | undefined {
  return path
    .split(delimiter)
    .filter(isAbsolute)
    .map((folder) => join(folder, name))
    .find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return isFile(path)
  } catch {
    return false
  }
}

/**
 * Runs commands on this host: each in its own namespaces by bubblewrap, or, if requested by name, without isolation.
 */
import { CraikError } from '../../../errors.ts'
import { type RunResult, runChild } from '../../../lib/child.ts'
import { cacheSuccess } from '../../../lib/memoize.ts'
import type { Availability } from '../../backend.ts'
import type { CommandBackend, CommandSandbox, CommandSpec, ExecOptions } from '../../command-backend.ts'
import { requireResolved } from '../../workspace-path.ts'
import { buildCommandInvocation } from './bubblewrap.ts'
import {
  type Bubblewrap,
  type FoundBubblewrap,
  findBubblewrap,
  NOBODY,
  testIsolation,
} from './find-bubblewrap.ts'
import { runInside, type User } from './run-inside.ts'
import { resolveWorkspace, type Workspace } from './workspace.ts'

export interface ProcessBackendOptions {
  /** The Craik home. No sandbox can see it. */
  readonly craikHome: string
  /** Craik searches only the system folders of its PATH for bubblewrap. Its HOME is never a workspace. */
  readonly environment: NodeJS.ProcessEnv
}

export function processCommands({ craikHome, environment }: ProcessBackendOptions): CommandBackend {
  const look = cacheSuccess<FoundBubblewrap>(
    () => findBubblewrap(environment),
    (found) => 'bubblewrap' in found,
  )
  return {
    kind: 'local_process',
    async probe() {
      const state = await look()
      return 'bubblewrap' in state
        ? { isolation: 'process', version: `bubblewrap ${state.bubblewrap.version}` }
        : ({ isolation: 'none', reason: state.reason, fix: state.fix } satisfies Availability)
    },
    async create(spec: CommandSpec) {
      if (spec.isolation === 'none') return hostSandbox(spec.workspace)
      if (spec.isolation !== 'process') {
        throw new CraikError('unavailable', `commands do not support isolation ${spec.isolation}`, {
          hint: 'use  --isolation process  or  --isolation none',
        })
      }
      const state = await look()
      if (!('bubblewrap' in state)) {
        throw new CraikError('unavailable', `process isolation is not available: ${state.reason}`, {
          hint: state.fix,
        })
      }
      const workspace = resolveWorkspace(spec.workspace, craikHome, environment)
      return isolatedSandbox(state.bubblewrap, workspace, await chooseUser(state.bubblewrap, workspace))
    },
  }
}

type Exec = (options: ExecOptions) => Promise<RunResult>

/** Creates a sandbox whose `destroy` ends the commands that still run. Between commands nothing exists to remove. */
function sandboxOf(about: Pick<CommandSandbox, 'isolation' | 'hostUid'>, exec: Exec): CommandSandbox {
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

/**
 * Runs commands directly on the host, with the workspace as working folder. They end with Craik only if Craik can end
 * them. After a SIGKILL of Craik they continue, because no tool that every system gives an ordinary user can end
 * everything that a program started.
 */
function hostSandbox(workspace: string): CommandSandbox {
  requireResolved(workspace)
  return sandboxOf({ isolation: 'none' }, (options) => runChild({ ...options, cwd: workspace }))
}

/** Runs each command in its own namespaces, which end with the command. */
function isolatedSandbox(bubblewrap: Bubblewrap, workspace: Workspace, user: User): CommandSandbox {
  const hostUid = user?.uid ?? process.getuid?.()
  return sandboxOf({ isolation: 'process', ...(hostUid !== undefined && { hostUid }) }, async (options) => {
    const made = buildCommandInvocation(bubblewrap.path, workspace, options.env, options.argv, bubblewrap)
    return runInside(made, user, options)
  })
}

/**
 * Chooses the user that runs bubblewrap. When root runs it, the sandbox is still the host's root underneath, and could
 * read mounted files that only root may read. So root gives up its identity, unless the workspace or bubblewrap is
 * unreachable without it.
 */
async function chooseUser(bubblewrap: Bubblewrap, workspace: Workspace): Promise<User> {
  if (process.getuid?.() !== 0) return undefined
  const fault = await testIsolation(bubblewrap, workspace, NOBODY)
  return fault === undefined ? NOBODY : undefined
}

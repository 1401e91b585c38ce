/** Commands on this machine: in namespaces of their own by bubblewrap, or, when that is asked for by name, in none. */
import { CraikError } from '../../../errors.ts'
import { type RunResult, runChild } from '../../../lib/child.ts'
import type { Availability } from '../../backend.ts'
import type { CommandBackend, CommandSandbox, CommandSpec, ExecOptions } from '../../command-backend.ts'
import { requireResolved } from '../../workspace-path.ts'
import { invocation } from './bubblewrap.ts'
import { type Bubblewrap, type FoundBubblewrap, findBubblewrap, NOBODY, prove } from './find-bubblewrap.ts'
import { runInside, type User } from './run-inside.ts'
import { resolveWorkspace, type Workspace } from './workspace.ts'

export interface ProcessBackendOptions {
  /** Craik's own home: no sandbox sees it. */
  readonly craikHome: string
  /** Of PATH in it only folders of the system are searched for bubblewrap. HOME is never a workspace. */
  readonly environment: NodeJS.ProcessEnv
}

export function processCommands({ craikHome, environment }: ProcessBackendOptions): CommandBackend {
  let found: Promise<FoundBubblewrap> | undefined
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
    async create(spec: CommandSpec) {
      if (spec.isolation === 'none') return hostSandbox(spec.workspace)
      if (spec.isolation !== 'process') {
        throw new CraikError('unavailable', `a local process does not support isolation ${spec.isolation}`)
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

/** Ends what still runs when it is destroyed; between commands there is nothing to hold. */
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
 * The host itself, with the workspace as working folder. What runs here ends with us only if we get to end it: after a
 * SIGKILL it lives on, because nothing that an ordinary user has on every system ends all that a program started.
 */
function hostSandbox(workspace: string): CommandSandbox {
  requireResolved(workspace)
  return sandboxOf({ isolation: 'none' }, (options) => runChild({ ...options, cwd: workspace }))
}

/** Every command gets namespaces of its own, which end with it. */
function isolatedSandbox(bubblewrap: Bubblewrap, workspace: Workspace, user: User): CommandSandbox {
  const hostUid = user?.uid ?? process.getuid?.()
  return sandboxOf({ isolation: 'process', ...(hostUid !== undefined && { hostUid }) }, async (options) => {
    const made = invocation(bubblewrap.path, workspace, options.env, options.argv, bubblewrap)
    return runInside(made, user, options)
  })
}

/**
 * bubblewrap as root is still the host's root underneath: it could read what only root may, once it is shown. So root
 * gives its identity up first, unless the workspace, or bubblewrap itself, cannot be reached without it.
 */
async function chooseUser(bubblewrap: Bubblewrap, workspace: Workspace): Promise<User> {
  if (process.getuid?.() !== 0) return undefined
  const fault = await prove(bubblewrap, workspace, NOBODY)
  return fault === undefined ? NOBODY : undefined
}

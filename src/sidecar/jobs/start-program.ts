/** What each kind of job runs. */
import { mkdir } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { SidecarError } from '../routes.ts'
import { startChild } from './child-program.ts'
import { environmentOf, type JobFolders } from './environment.ts'
import { requireFolder } from './find-program.ts'
import type { StartProgram } from './job.ts'
import type { Leaks } from './leaks.ts'
import type { PipePool } from './pipes.ts'
import { type Launch, NotStarted } from './program.ts'
import type { PtyBinding } from './pty-binding.ts'
import { startOnTerminal } from './terminal-program.ts'

const DEFAULT_TERM = 'xterm-256color'

/** What the programs of a sidecar share. */
export interface Means {
  readonly pipes: PipePool
  readonly leaks: Leaks
  readonly pty: PtyBinding | undefined
}

export function programStarter(place: JobFolders, { pipes, leaks, pty }: Means): StartProgram {
  const launch = (argv: readonly string[], cwd = '.', env?: Readonly<Record<string, string>>): Launch => {
    const folder = resolve(place.workspace, cwd)
    requireFolder(folder)
    return { argv, cwd: folder, env: environmentOf(place, env) }
  }
  return async (spec, events) => {
    switch (spec.kind) {
      case 'exec':
        return startChild(
          launch(spec.argv, spec.cwd, spec.env),
          spec.stdin === true,
          { pipes, leaks },
          events,
        )
      case 'terminal': {
        if (!pty) throw new SidecarError('refused', 'this sandbox does not support terminals')
        const env = { TERM: spec.term ?? DEFAULT_TERM, ...spec.env }
        return startOnTerminal(pty, leaks, launch(spec.argv, spec.cwd, env), spec, events)
      }
      case 'tar-in':
        return startChild(
          launch(await unpacking(resolve(place.workspace, spec.path)), '/', spec.env),
          true,
          { pipes, leaks },
          events,
        )
      case 'tar-out':
        return startChild(
          launch(packing(resolve(place.workspace, spec.path)), '/', spec.env),
          false,
          { pipes, leaks },
          events,
        )
    }
  }
}

/** Modes are kept as they come; whoever unpacks owns what it unpacks. */
async function unpacking(path: string): Promise<string[]> {
  await mkdir(path, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new NotStarted(error.code ?? 'EIO')
  })
  return ['tar', '-x', '-p', '-f', '-', '--no-same-owner', '-C', path]
}

function packing(path: string): string[] {
  const name = path === '/' ? '.' : basename(path)
  return ['tar', '-c', '-f', '-', '--format=posix', '-C', dirname(path), '--', name]
}

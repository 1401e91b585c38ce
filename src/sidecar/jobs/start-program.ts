/** Starts the program of each kind of job. */
import { mkdir } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { SidecarError } from '../router.ts'
import { startChild } from './child-program.ts'
import { requireFolder } from './find-program.ts'
import type { StartProgram } from './job.ts'
import { environmentOf, type JobFolders } from './job-environment.ts'
import type { Leaks } from './leaks.ts'
import type { PipePool } from './pipes.ts'
import { type Launch, NotStarted } from './program.ts'
import type { PtyBinding } from './pty-binding.ts'
import { startOnTerminal } from './terminal-program.ts'

const DEFAULT_TERM = 'xterm-256color'

/** The resources that the programs of a sidecar share. */
export interface ProgramDeps {
  readonly pipes: PipePool
  readonly leaks: Leaks
  readonly pty: PtyBinding | undefined
}

export function programStarter(folders: JobFolders, { pipes, leaks, pty }: ProgramDeps): StartProgram {
  const launch = (argv: readonly string[], cwd = '.', env?: Readonly<Record<string, string>>): Launch => {
    const folder = resolve(folders.workspace, cwd)
    requireFolder(folder)
    return { argv, cwd: folder, env: environmentOf(folders, env) }
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
          launch(await unpackCommand(resolve(folders.workspace, spec.path)), '/', spec.env),
          true,
          { pipes, leaks },
          events,
        )
      case 'tar-out':
        return startChild(
          launch(packCommand(resolve(folders.workspace, spec.path)), '/', spec.env),
          false,
          { pipes, leaks },
          events,
        )
    }
  }
}

/** Keeps the modes of the archive. The user who unpacks owns the files. */
async function unpackCommand(path: string): Promise<string[]> {
  await mkdir(path, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new NotStarted(error.code ?? 'EIO')
  })
  return ['tar', '-x', '-p', '-f', '-', '--no-same-owner', '-C', path]
}

function packCommand(path: string): string[] {
  const name = path === '/' ? '.' : basename(path)
  return ['tar', '-c', '-f', '-', '--format=posix', '-C', dirname(path), '--', name]
}

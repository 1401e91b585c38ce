/** Finds a program as `execvp` would, so that a missing program is reported before a process is forked. */
import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Launch, NotStarted } from './program.ts'

/**
 * Returns the path to run. Throws `NotStarted` with ENOENT, or with EACCES when the file exists but cannot be executed.
 */
export function findProgram({ argv, cwd, env }: Launch): string {
  const name = argv[0]!
  if (name.includes('/')) return runnable(resolve(cwd, name))
  let reason: unknown = new NotStarted('ENOENT')
  for (const folder of (env.PATH ?? '').split(':')) {
    try {
      return runnable(resolve(cwd, folder, name))
    } catch (error) {
      if (error instanceof NotStarted && error.reason === 'EACCES') reason = error
    }
  }
  throw reason
}

/** Throws `NotStarted` with ENOTDIR when the working folder does not exist. */
export function requireFolder(path: string): void {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  if (!isFolder) throw new NotStarted('ENOTDIR')
}

function runnable(path: string): string {
  try {
    if (!statSync(path).isFile()) throw new NotStarted('EACCES')
    accessSync(path, constants.X_OK)
  } catch (error) {
    throw error instanceof NotStarted
      ? error
      : new NotStarted((error as NodeJS.ErrnoException).code ?? 'ENOENT')
  }
  return path
}

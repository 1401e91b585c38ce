/** Finds a program as `execvp` would, so that one that is missing is told before anything is forked. */
import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Launch, NotStarted } from './program.ts'

/** The path to run. Throws `NotStarted` with ENOENT, or EACCES when there is one that may not be run. */
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

/** Throws `NotStarted` with ENOTDIR when there is no such folder to work in. */
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

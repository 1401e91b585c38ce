/** The prebuilt native part of @lydell/node-pty: beside the bundle, or in the package when run from source. */
import { createRequire } from 'node:module'

export interface PtyBinding {
  /** Neither end is closed when a child is started: see `Leaks`. */
  open(cols: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string }
  resize(fd: number, cols: number, rows: number): void
}

/** Undefined where there is none for this machine: then there are no terminals, and everything else works. */
export function loadPty(): PtyBinding | undefined {
  const load = createRequire(import.meta.url)
  const package_ = `@lydell/node-pty-${process.platform}-${process.arch}`
  for (const path of ['./pty.node', `${package_}/pty.node`]) {
    try {
      return load(path)
    } catch {
      // The next one, or none.
    }
  }
  return undefined
}

/** The prebuilt native part of @lydell/node-pty: beside the bundle, or in the package when Craik runs from source. */
import { createRequire } from 'node:module'

export interface PtyBinding {
  /** Neither descriptor is close-on-exec: see `Leaks`. */
  open(cols: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string }
  resize(fd: number, cols: number, rows: number): void
}

/**
 * Returns `undefined` when there is no binding for this platform. Then there are no terminals, and everything else
 * works.
 */
export function loadPty(): PtyBinding | undefined {
  const load = createRequire(import.meta.url)
  const package_ = `@lydell/node-pty-${process.platform}-${process.arch}`
  for (const path of ['./pty.node', `${package_}/pty.node`]) {
    try {
      return load(path)
    } catch {
      // Try the next path, if there is one.
    }
  }
  return undefined
}

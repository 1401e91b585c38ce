/** What a place to run things in can do. A backend is a folder with one exported object of this shape. */

/** The seed's names for the kinds of place. */
export const BACKEND_KINDS = ['local_process', 'container', 'remote_shell', 'browser_tool'] as const
export type BackendKind = (typeof BACKEND_KINDS)[number]

/** Weakest first. `none`: the host itself. `process`: namespaces of its own (bubblewrap). */
export const ISOLATIONS = ['none', 'process', 'container', 'remote', 'browser'] as const
export type Isolation = (typeof ISOLATIONS)[number]

export interface Availability {
  readonly isolation: Isolation
  /** Why it is no stronger, for a person. */
  readonly reason?: string
  /** The command that would improve it. */
  readonly fix?: string
  /** What provides it, such as `bubblewrap 0.8.0`. */
  readonly version?: string
}

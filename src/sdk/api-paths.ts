/** Builds the paths, queries and headers of API requests. */
import { CraikError } from '../errors.ts'
import { HEADER, SANDBOX_NAME } from '../operator/api/api-constants.ts'

export interface CallOptions {
  readonly signal?: AbortSignal
  /** The grant for the decision. Without it, the supervisor looks up a usable one. */
  readonly grantId?: string
}

/** Returns the part of a request that every call has. */
export function common({ signal, grantId }: CallOptions = {}) {
  return {
    ...(signal && { signal }),
    ...(grantId !== undefined && { headers: { [HEADER.grant]: grantId } }),
  }
}

/** Refuses what cannot name a sandbox. In a path it would lead elsewhere, or to a response about paths. */
export function sandboxPath(sandbox: string, rest = ''): string {
  if (!SANDBOX_NAME.test(sandbox)) {
    const shown = sandbox.length > 40 ? `${sandbox.slice(0, 40)}…` : sandbox
    throw new CraikError('usage', `${JSON.stringify(shown)} is not a sandbox id or name`, {
      hint: 'list sandboxes:  craik sandbox list',
    })
  }
  return `/api/sandboxes/${encodeURIComponent(sandbox)}${rest}`
}

export function jobPath(sandbox: string, job: string, rest = ''): string {
  return sandboxPath(sandbox, `/jobs/${encodeURIComponent(job)}${rest}`)
}

export function query(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const provided = Object.entries(values).filter(([, value]) => value !== undefined)
  const text = ([name, value]: [string, unknown]) => [
    name,
    value === true ? '1' : value === false ? '0' : `${value}`,
  ]
  return `?${new URLSearchParams(provided.map(text) as [string, string][])}`
}

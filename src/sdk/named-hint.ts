/** Puts the name of a sandbox into hints. The API writes its hints for any sandbox. */
import { CraikError, ERRORS } from '../errors.ts'

const OF_SANDBOX = /^\/api\/sandboxes\/([A-Za-z0-9][A-Za-z0-9._-]*)(?:\/([a-z]+))?/

/** How to search for what was not found, by the part of the path. */
const SEARCH_HINTS: Readonly<Record<string, (sandbox: string) => string>> = {
  files: (sandbox) => `list the files:  craik sandbox exec ${sandbox} -- ls -la`,
  processes: (sandbox) => `list the processes:  craik sandbox ps ${sandbox}`,
  jobs: (sandbox) => `list the jobs:  craik sandbox logs ${sandbox}`,
}

/** Returns the error with the name of the request's sandbox in place of `ID`. */
export function addSandboxName(error: Error, path: string): Error {
  const [, sandbox, what] = OF_SANDBOX.exec(path) ?? []
  if (!(error instanceof CraikError) || sandbox === undefined) return error
  const general = error.code === 'not_found' && error.hint === ERRORS.not_found.hint
  const hint = (general && SEARCH_HINTS[what ?? '']?.(sandbox)) || error.hint.replace(/\bID\b/g, sandbox)
  if (hint === error.hint) return error
  return new CraikError(error.code, error.message, {
    hint,
    ...(error.details && { details: error.details }),
    cause: error.cause,
  })
}

/** Hints of the API are written for any sandbox; whoever asked about one reads its name in them. */
import { CraikError, ERRORS } from '../errors.ts'

const OF_SANDBOX = /^\/api\/sandboxes\/([A-Za-z0-9][A-Za-z0-9._-]*)(?:\/([a-z]+))?/

/** Where to look for what was not found. */
const LOOK: Readonly<Record<string, (sandbox: string) => string>> = {
  files: (sandbox) => `list the files:  craik sandbox exec ${sandbox} -- ls -la`,
  processes: (sandbox) => `list the processes:  craik sandbox ps ${sandbox}`,
  jobs: (sandbox) => `list the jobs:  craik sandbox logs ${sandbox}`,
}

/** The error with the name that its request was about, in place of `ID`. */
export function addSandboxName(error: Error, path: string): Error {
  const [, sandbox, what] = OF_SANDBOX.exec(path) ?? []
  if (!(error instanceof CraikError) || sandbox === undefined) return error
  const general = error.code === 'not_found' && error.hint === ERRORS.not_found.hint
  const hint = (general && LOOK[what ?? '']?.(sandbox)) || error.hint.replace(/\bID\b/g, sandbox)
  if (hint === error.hint) return error
  return new CraikError(error.code, error.message, {
    hint,
    ...(error.details && { details: error.details }),
    cause: error.cause,
  })
}

/** Operations on sandboxes through the client or the command line. Failures are identified by their error codes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError, ERRORS, type ErrorCode } from '../../src/errors.ts'
import { type ApiClient, createClient } from '../../src/sdk/client.ts'
import type { SandboxHome } from '../sandbox-home.ts'

/** An operation that takes longer is stuck. */
const DEADLINE_MS = 180_000

/** Errors that a kill during an operation must never cause. */
const FORBIDDEN_ERRORS: readonly ErrorCode[] = [
  'internal',
  'usage',
  'tampered',
  'store_damaged',
  'denied',
  'invalid_config',
]

/** Returns the code of a failure that is allowed. Throws for any other error. */
export function requireTyped(error: unknown, what: string): ErrorCode {
  if (error instanceof CraikError && !FORBIDDEN_ERRORS.includes(error.code)) return error.code
  throw new Error(`${what}: ${error instanceof CraikError ? `${error.code}: ` : ''}${error}`, {
    cause: error,
  })
}

/** Creates a client whose supervisor the command line starts, as the user who owns the home. */
export function clientOf(home: SandboxHome): ApiClient {
  return createClient({
    connect: async () => {
      await craik(home, ['sandbox', 'list', '--format', 'json'])
      const token = readFileSync(join(home.home, 'run/token'), 'utf8').trim()
      return { socketPath: join(home.home, 'run/craik.sock'), token }
    },
  })
}

/** Runs `craik …`. Throws the error that it reported. */
export async function craik(home: SandboxHome, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await home.run(args, { timeoutMs: DEADLINE_MS })
  if (code === 0) return stdout
  const found = Object.entries(ERRORS).find(([, { exit }]) => exit === code && exit > 2)
  const output = `craik ${args.join(' ')} exited ${code}: ${stderr}`
  if (found === undefined || !/^craik: /m.test(stderr)) throw new Error(output)
  throw new CraikError(found[0] as ErrorCode, output)
}

/** Runs the work with a deadline, so that a stuck operation is reported. */
export function withDeadline<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return work(AbortSignal.timeout(DEADLINE_MS))
}

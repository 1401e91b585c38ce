/** What a person or a program does with sandboxes, by the client or by the command line; failures are told by their code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError, ERRORS, type ErrorCode } from '../../src/errors.ts'
import { type ApiClient, createClient } from '../../src/sdk/client.ts'
import type { SandboxHome } from '../sandbox-home.ts'

/** What takes longer stands still. */
const DEADLINE_MS = 180_000

/** Never of an interruption by what happens around it. */
const NEVER: readonly ErrorCode[] = [
  'internal',
  'usage',
  'tampered',
  'store_damaged',
  'denied',
  'invalid_config',
]

/** Failures that may be: throws what may not be. */
export function requireTyped(error: unknown, what: string): ErrorCode {
  if (error instanceof CraikError && !NEVER.includes(error.code)) return error.code
  throw new Error(`${what}: ${error instanceof CraikError ? `${error.code}: ` : ''}${error}`, {
    cause: error,
  })
}

/** A client whose supervisor is started by the command line, as whoever the home belongs to. */
export function clientOf(home: SandboxHome): ApiClient {
  return createClient({
    connect: async () => {
      await craik(home, ['sandbox', 'list', '--format', 'json'])
      const token = readFileSync(join(home.home, 'run/token'), 'utf8').trim()
      return { socketPath: join(home.home, 'run/craik.sock'), token }
    },
  })
}

/** Runs `craik …`; fails with the error that it told. */
export async function craik(home: SandboxHome, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await home.run(args, { timeoutMs: DEADLINE_MS })
  if (code === 0) return stdout
  const found = Object.entries(ERRORS).find(([, { exit }]) => exit === code && exit > 2)
  const output = `craik ${args.join(' ')} exited ${code}: ${stderr}`
  if (found === undefined || !/^craik: /m.test(stderr)) throw new Error(output)
  throw new CraikError(found[0] as ErrorCode, output)
}

/** With a deadline, so that what stands still is told. */
export function within<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return work(AbortSignal.timeout(DEADLINE_MS))
}

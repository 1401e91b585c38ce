/** The profiles, and the source of each one's Cedar text. */
import { constants, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { packageFile } from '../lib/package-files.ts'
import type { Home } from '../store/home.ts'
import { checkPolicyText, MAX_POLICY_BYTES } from './cedar.ts'

/** Three profiles ship with Craik. `custom` is the user's own file. */
export const PROFILES = ['strict', 'trusted-local', 'automation', 'custom'] as const
export type PolicyProfile = (typeof PROFILES)[number]

/**
 * Returns the Cedar text of a profile. A custom policy is first checked against the schema: `invalid_config` if it
 * fails.
 */
export async function profileText(profile: PolicyProfile, home: Home): Promise<string> {
  if (profile !== 'custom') return readBuiltInPolicy(profile)
  const path = customPolicyPath(home)
  const text = await readPolicyFile(path)
  const problem = (await checkPolicyText(text)).find(({ severity }) => severity === 'error')
  if (problem === undefined) return text
  throw new CraikError('invalid_config', `${path}:${problem.line}:${problem.column}: ${problem.message}`, {
    hint: `fix it, then run:  craik policy check ${path}`,
  })
}

/** Reads synchronously, because transactions call it and others wait for them. */
export function readBuiltInPolicy(profile: Exclude<PolicyProfile, 'custom'>): string {
  return readFileSync(packageFile(`src/policy/profiles/${profile}.cedar`), 'utf8')
}

export function customPolicyPath(home: Home): string {
  return join(home.config, 'policies', 'custom.cedar')
}

/** Reads a regular file of UTF-8 text, at most 1 MiB. Refuses a pipe or device instead of waiting for it. */
export async function readPolicyFile(path: string): Promise<string> {
  const policyError = (problem: string, cause?: unknown) =>
    new CraikError('invalid_config', `cannot read the policy ${path}: ${problem}`, {
      hint: 'use the path of a Cedar file',
      cause,
    })
  let bytes: Buffer
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = await file.stat()
    if (!stats.isFile()) throw policyError('it is not a regular file')
    if (stats.size > MAX_POLICY_BYTES) throw policyError('it is larger than 1 MiB')
    const buffer = Buffer.alloc(MAX_POLICY_BYTES + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = (await file.read(buffer, length, buffer.length - length)).bytesRead
    }
    if (length > MAX_POLICY_BYTES) throw policyError('it is larger than 1 MiB')
    bytes = buffer.subarray(0, length)
  } catch (error) {
    if (error instanceof CraikError) throw error
    const code = (error as NodeJS.ErrnoException).code
    throw policyError(code === 'ENOENT' ? 'there is no such file' : (code ?? 'it cannot be opened'), error)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw policyError('it is not UTF-8 text', error)
  }
}

/** A login in the macOS keychain, through the system's `security` program. Secrets pass only through its pipes. */
import { createHash } from 'node:crypto'
import { hostEnvironment, runChild } from '../../lib/child.ts'
import { findHostProgram } from '../../lib/host-programs.ts'
import type { HostEnvironment } from '../probe-result.ts'
import { MAX_LOGIN_BYTES } from './file-vault.ts'
import { type Vault, VaultProblem } from './vault.ts'

const TIMEOUT_MS = 10_000
/** The exit code of `security` for a missing item. */
const NOT_FOUND = 44
/** `security -i` accepts command lines of at most this length. */
const MAX_LINE_BYTES = 4_000

export interface KeychainItem {
  readonly service: string
  readonly account: string
}

export function keychainVault({ service, account }: KeychainItem, host: HostEnvironment): Vault {
  const source = `macOS keychain, “${service}”`
  const find = async () => findHostProgram('security', host.environment, await host.mounted())
  const ask = async (argv: readonly string[], input: string | undefined, until: AbortSignal) => {
    const program = await find()
    if (program === undefined) return undefined
    const chunks: Buffer[] = []
    const result = await runChild({
      argv: [...program.argv, ...argv],
      argv0: program.argv0,
      cwd: '/',
      env: { ...hostEnvironment(host.environment), HOME: host.userHome },
      timeoutMs: TIMEOUT_MS,
      signal: until,
      maxOutputBytes: MAX_LOGIN_BYTES,
      ...(input !== undefined && { stdin: Buffer.from(input) }),
      onStdout: (chunk) => void chunks.push(chunk),
      onStderr: () => {},
    })
    return { result, output: Buffer.concat(chunks).toString('utf8') }
  }
  const vault: Vault = {
    source,
    key: `keychain:${service}/${account}`,
    async read(until) {
      const answer = await ask(
        ['find-generic-password', '-s', service, '-a', account, '-w'],
        undefined,
        until,
      )
      if (answer === undefined) return undefined
      const { result, output } = answer
      if (result.end === 'exited' && result.exitCode === NOT_FOUND) return undefined
      if (result.end !== 'exited' || result.exitCode !== 0)
        throw new VaultProblem('the keychain could not be read', 'unlock it:  security unlock-keychain')
      const text = unhex(output.trim())
      if (text === '') return undefined
      return { text, identity: createHash('sha256').update(text).digest('hex') }
    },
    async unwritable() {
      return (await find()) === undefined ? 'there is no `security` on PATH that can be trusted' : undefined
    },
    async replace(expected, text, until) {
      const line = `add-generic-password -U -s ${quote(service)} -a ${quote(account)} -X ${Buffer.from(text).toString('hex')}\n`
      if (Buffer.byteLength(line) > MAX_LINE_BYTES)
        throw new VaultProblem(
          'the login is too long for `security` to take from a pipe',
          'refresh it with its own program',
        )
      if ((await vault.read(until))?.identity !== expected.identity) return false
      const answer = await ask(['-i'], line, until)
      if (answer?.result.end !== 'exited' || answer.result.exitCode !== 0)
        throw new VaultProblem('the keychain could not be written', 'unlock it:  security unlock-keychain')
      return (await vault.read(until))?.text === text
    },
  }
  return vault
}

/**
 * `security` prints values in hexadecimal that it does not consider plain text. A login is JSON, which never looks like
 * that.
 */
function unhex(value: string): string {
  return /^(?:[0-9a-f]{2})+$/i.test(value) ? Buffer.from(value, 'hex').toString('utf8') : value
}

function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

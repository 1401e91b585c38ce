/** Finds a secret by name and reads its value from its source. */
import { CraikError } from '../errors.ts'
import { findNamedProgram } from '../lib/host-programs.ts'
import { readPrivateFile } from '../lib/private-files.ts'
import type { Home } from '../store/home.ts'
import { listMountedFolders } from '../store/mounted-folders.ts'
import type { CommandRow, SecretRow, Store } from '../store/store.ts'
import { readAtRestKey } from './at-rest-key.ts'
import { readKeyring } from './keyring.ts'
import { runTool, type SourceResult, type ToolStop } from './run-tool.ts'
import { openValue } from './seal.ts'
import {
  describeSource,
  MAX_VALUE_BYTES,
  parseSecretName,
  type SecretSource,
  stripNewline,
  unknownSecret,
} from './secret.ts'

/**
 * Returns the value, between 1 byte and 64 KiB. The caller wipes it after use. Errors name the secret and its source,
 * and contain nothing that the source returned.
 */
export async function resolveSecret(
  store: Store,
  home: Home,
  environment: NodeJS.ProcessEnv,
  name: string,
  signal: AbortSignal,
  killSignal?: AbortSignal,
): Promise<Buffer> {
  parseSecretName(name)
  const { row, command } = await store.read(async (tables) => {
    const row = await tables.secrets.get(name)
    const command = row?.source === 'command' ? await tables.commands.get(row.reference!) : undefined
    return { row, command }
  })
  if (row === undefined) throw unknownSecret(name)

  const reading = await READERS[row.source as SecretSource]({
    row,
    command,
    home,
    environment,
    mounted: () => listMountedFolders(home, async () => store),
    stop: { signal, killSignal },
  })
  if ('reason' in reading) throw unavailable(row, reading.reason, reading.hint)
  if (reading.value.length === 0) throw unavailable(row, 'it is empty')
  if (reading.value.length > MAX_VALUE_BYTES)
    throw unavailable(row, `it is longer than ${MAX_VALUE_BYTES} bytes`)
  return reading.value
}

interface SecretLocation {
  readonly row: SecretRow
  readonly command: CommandRow | undefined
  readonly home: Home
  readonly environment: NodeJS.ProcessEnv
  readonly mounted: () => Promise<readonly string[]>
  readonly stop: ToolStop
}

const READERS: Record<SecretSource, (where: SecretLocation) => Promise<SourceResult>> = {
  async env({ row, environment }) {
    const value = environment[row.reference!]
    if (value === undefined) return { reason: 'the variable is not set' }
    return { value: Buffer.from(value) }
  },

  async file({ row }) {
    const path = row.reference!
    try {
      // The limit leaves space for the line break after the value.
      return { value: stripNewline(readPrivateFile(path, MAX_VALUE_BYTES + 2, `file ${path}`)) }
    } catch (error) {
      // The hint of this error is about Craik's own keys.
      if (error instanceof CraikError && error.code === 'key_unreadable') return { reason: error.message }
      throw error
    }
  },

  async keyring({ row, environment, mounted, stop }) {
    return readKeyring(row.reference!, environment, await mounted(), stop)
  },

  async command({ row, command, environment, mounted, stop }) {
    const ref = row.reference!
    if (command === undefined)
      return {
        reason: 'no command with that name is registered',
        hint: `register the command:  craik command register ${ref} -- PROGRAM ARGUMENTS`,
      }
    const [name = '', ...args] = command.argv
    const program = findNamedProgram(name, environment, await mounted())
    if (program === undefined)
      return {
        reason: 'its program is not installed, or another user can replace it',
        hint: `show its arguments with  craik command list  and register a program that only you can change`,
      }
    const { stdout, failure } = await runTool(program, args, environment, stop)
    if (failure !== undefined)
      return { reason: failure, hint: `show its arguments with  craik command list  and run it yourself` }
    return { value: stripNewline(stdout) }
  },

  async stored({ row, home }) {
    const key = readAtRestKey(home)
    try {
      return { value: openValue(key, row.name, row.sealed ?? Buffer.of()) }
    } finally {
      key.fill(0)
    }
  },
}

function unavailable(row: SecretRow, reason: string, hint?: string): CraikError {
  return new CraikError(
    'unavailable',
    `secret ${row.name} cannot be read from ${describeSource(row)}: ${reason}`,
    {
      hint: hint ?? `set it there, or bind the name to another source:  craik secret bind ${row.name} --help`,
    },
  )
}

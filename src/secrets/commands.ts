/** Registered commands: argument lists with a reference, which records and bindings use instead of the arguments. */
import { CraikError } from '../errors.ts'
import { parseReference } from '../lib/ids.ts'
import type { CommandRow, Store } from '../store/store.ts'
import { looksSecret } from './detect-secret.ts'
import { registerCommand, removeCommand } from './secret-writes.ts'

/** Leaves space for what receipts put before it. */
const MAX_REF_LENGTH = 128
const MAX_ARGUMENTS = 64
const MAX_ARGV_BYTES = 16 * 1024

export async function addNamedCommand(
  store: Store,
  operator: string,
  ref: string,
  argv: readonly string[],
): Promise<void> {
  requireArgv(argv)
  return store.write(registerCommand, { operator, ref: parseCommandRef(ref), argv })
}

/** Returns the names of the secrets that used the command. */
export async function deleteCommand(store: Store, operator: string, ref: string): Promise<readonly string[]> {
  const { orphans } = await store.write(removeCommand, { operator, ref: parseCommandRef(ref) })
  return orphans
}

export async function listCommands(store: Store): Promise<readonly CommandRow[]> {
  return store.read((tables) => tables.commands.list())
}

export function unknownCommand(ref: string): CraikError {
  return new CraikError('not_found', `no registered command is named ${ref}`, {
    hint: `list the commands:  craik command list   or register one:  craik command register ${ref} -- PROGRAM ARGUMENTS`,
  })
}

function parseCommandRef(ref: string): string {
  if (looksSecret(ref))
    throw new CraikError('usage', 'the name of the command looks like a secret', {
      hint: 'choose a name that is not a key or token',
    })
  if (ref.length > MAX_REF_LENGTH)
    throw new CraikError('usage', `the name of a command can have at most ${MAX_REF_LENGTH} characters`)
  return parseReference<string>(ref, 'command reference')
}

/** Every user of the host can see arguments, and registered ones are stored. So no secret may be among them. */
function requireArgv(argv: readonly string[]): void {
  if (argv.length === 0 || argv[0] === '')
    throw new CraikError('usage', 'the program to register is missing', {
      hint: 'add the program after two dashes:  craik command register REF -- PROGRAM ARGUMENTS',
    })
  if (argv.length > MAX_ARGUMENTS)
    throw new CraikError(
      'too_large',
      `a command can have at most ${MAX_ARGUMENTS} arguments, including its program`,
      { hint: 'put the command in a script, and register the script' },
    )
  if (argv.reduce((bytes, argument) => bytes + Buffer.byteLength(argument), 0) > MAX_ARGV_BYTES)
    throw new CraikError(
      'too_large',
      `the arguments of a command can have at most ${MAX_ARGV_BYTES} bytes in total`,
      { hint: 'put the command in a script, and register the script' },
    )
  if (argv.some((argument) => looksSecret(argument)) || looksSecret(argv.join(' ')))
    throw new CraikError('usage', 'an argument looks like a secret; nothing was registered', {
      hint: 'keep the value out of the command line:  craik secret bind NAME --env VAR',
    })
}

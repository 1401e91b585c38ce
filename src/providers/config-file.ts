/**
 * Reads a JSON or YAML file of the home's config folder. It must be a regular file of limited size, owned by this user,
 * and unambiguous.
 */
import { constants, type Dirent } from 'node:fs'
import { lstat, open, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { quoteArgument } from '../lib/shlex.ts'
import { parseJsonText, parseYamlText } from './config-text.ts'

const MAX_FILE_BYTES = 64 * 1024
const MAX_FILES = 200
/** Includes other files: a folder of millions is not read to its end. */
const MAX_ENTRIES = 10_000

const CONFIG_NAME = /^[^.].*\.(?:json|ya?ml)$/

/**
 * Returns the config files in a folder of `config/`, sorted, as paths relative to `config/`. A missing folder has none.
 */
export async function listConfigFiles(config: string, folder: string): Promise<readonly string[]> {
  const names: string[] = []
  try {
    // With a link in its place, the owner of the link's target could decide what Craik dials.
    if ((await lstat(join(config, folder))).isSymbolicLink())
      throw invalidConfig(folder, 'is a symbolic link', 'use the real folder instead of the link')
    let entries = 0
    for await (const entry of await opendir(join(config, folder))) {
      if (++entries > MAX_ENTRIES) throw invalidConfig(folder, `has more than ${MAX_ENTRIES} entries`)
      if (isConfigName(entry)) names.push(`${folder}/${entry.name}`)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw translateError(error, folder)
  }
  if (names.length > MAX_FILES) throw invalidConfig(folder, `has more than ${MAX_FILES} config files`)
  return names.sort()
}

/**
 * Returns the parsed content of a file of `config/`. `undefined` when it does not exist. `name` is its path relative to
 * `config/`.
 */
export async function readConfigFile(config: string, name: string): Promise<unknown> {
  const text = await readText(config, name)
  if (text === undefined) return undefined
  try {
    return name.endsWith('.json') ? parseJsonText(text) : await parseYamlText(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw invalidConfig(name, error.message)
  }
}

/** Returns the error for a config file. It names the path below `config/`, and the field if there is one. */
export function invalidConfig(
  name: string,
  problem: string,
  hint = 'fix the file, then try again',
): CraikError {
  return new CraikError('invalid_config', `config/${name}: ${problem}`, { hint })
}

function isConfigName(entry: Dirent): boolean {
  return CONFIG_NAME.test(entry.name) && !entry.isDirectory()
}

async function readText(config: string, name: string): Promise<string | undefined> {
  const path = join(config, name)
  let bytes: Buffer
  try {
    // Non-blocking, because opening a named pipe would otherwise wait for a writer.
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await file.stat()
    if (!stats.isFile()) throw invalidConfig(name, 'is not a regular file')
    if (stats.uid !== process.geteuid?.() && stats.uid !== 0)
      throw invalidConfig(name, `belongs to another user (uid ${stats.uid})`, 'change its owner with chown')
    if ((stats.mode & 0o022) !== 0)
      throw invalidConfig(name, 'is writable by other users', `chmod go-w ${quoteArgument(path)}`)
    const buffer = Buffer.alloc(MAX_FILE_BYTES + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = (await file.read(buffer, length, buffer.length - length)).bytesRead
    }
    if (length > MAX_FILE_BYTES) throw invalidConfig(name, 'is larger than 64 KiB')
    bytes = buffer.subarray(0, length)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw translateError(error, name)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidConfig(name, 'is not UTF-8 text')
  }
}

function translateError(error: unknown, name: string): CraikError {
  if (error instanceof CraikError) return error
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ELOOP') return invalidConfig(name, 'is a symbolic link', 'replace the link with the file')
  if (code === 'ENOTDIR') return invalidConfig(name, 'is not a folder')
  return new CraikError('invalid_config', `cannot read config/${name} (${code ?? 'unknown error'})`, {
    hint: 'check its owner and mode',
    cause: error,
  })
}

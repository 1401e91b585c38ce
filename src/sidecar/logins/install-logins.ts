/**
 * Installs logins where programs in the sandbox read them. Each login passes through a file in a tmpfs, as if an
 * entrypoint had waited for it there. That file is overwritten and removed when the login is installed.
 */
import { randomUUID } from 'node:crypto'
import { chmod, constants, lstat, mkdir, open, readFile, rename, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { answerFor } from '../files/request-path.ts'
import type { LoginFile } from '../protocol.ts'
import { LIMITS } from '../protocol.ts'
import { SidecarError, type SidecarRoute } from '../router.ts'

const NAME = /^[a-z][a-z0-9_]{0,63}$/
const NEW_FILE = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW

export interface LoginOptions {
  readonly home: string
  /** This folder is in a tmpfs. */
  readonly folder: string
}

export function loginRoutes(options: LoginOptions): readonly SidecarRoute[] {
  // Each login passes through a file of the same name. Requests therefore run one after the other, so that none
  // overwrites what another has yet to read.
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
  return [
    {
      method: 'PUT',
      path: '/logins',
      async handle(call) {
        const files = parseFiles(await call.json())
        await inTurn(async () => {
          for (const file of files) await installLogin(options, file)
        })
        call.answer(200, {})
      },
    },
  ]
}

async function installLogin(
  { home, folder }: LoginOptions,
  { name, to, content, setting }: LoginFile,
): Promise<void> {
  const location = join(home, to)
  try {
    await requireOwnFolders(home, to)
    if (setting) {
      await writeIfMissing(location, content ?? '')
      return
    }
    if (content === null) {
      await unlinkIfPresent(location)
      return
    }
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const passing = join(folder, name)
    await unlinkIfPresent(passing)
    try {
      await writeNew(passing, Buffer.from(content), 0o400)
      await installAt(location, await readFile(passing))
    } finally {
      await shred(passing)
    }
  } catch (error) {
    throw answerFor(error, location)
  }
}

/** A link on the path could lead the login out of the home, to where it is copied, stored or visible to others. */
async function requireOwnFolders(home: string, to: string): Promise<void> {
  const parts = to.split('/').slice(0, -1)
  for (const at of parts.keys()) {
    const folder = join(home, ...parts.slice(0, at + 1))
    const stats = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (stats === undefined) return
    if (!stats.isDirectory())
      throw new SidecarError('conflict', `${folder} is not a real folder: refusing to write a login there`)
  }
}

/** Writes the file only if it does not exist. */
async function writeIfMissing(location: string, content: string): Promise<void> {
  await mkdir(dirname(location), { recursive: true, mode: 0o700 })
  await writeNew(location, Buffer.from(content), 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** Installs the whole file or nothing, whatever was there before. */
async function installAt(location: string, bytes: Buffer): Promise<void> {
  await mkdir(dirname(location), { recursive: true, mode: 0o700 })
  const written = join(dirname(location), `.${basename(location)}.${randomUUID()}`)
  try {
    await writeNew(written, bytes, 0o400)
    await rename(written, location)
  } catch (error) {
    await unlinkIfPresent(written)
    throw error
  }
}

async function writeNew(path: string, bytes: Buffer, mode: number): Promise<void> {
  const file = await open(path, NEW_FILE, mode)
  try {
    await file.writeFile(bytes)
  } finally {
    await file.close()
  }
}

async function shred(path: string): Promise<void> {
  const size = await lstat(path).then(
    (stats) => (stats.isFile() ? stats.size : 0),
    () => undefined,
  )
  if (size === undefined) return
  if (size > 0) {
    await chmod(path, 0o600)
    const file = await open(path, constants.O_WRONLY | constants.O_NOFOLLOW)
    try {
      await file.write(Buffer.alloc(size), 0, size, 0)
    } finally {
      await file.close()
    }
  }
  await unlinkIfPresent(path)
}

async function unlinkIfPresent(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
  })
}

function parseFiles(body: unknown): readonly LoginFile[] {
  const files = (body as { readonly files?: unknown } | null)?.files
  if (!Array.isArray(files) || files.length > LIMITS.loginFiles || !files.every(isLoginFile))
    throw new SidecarError(
      'usage',
      `the field files must be a list of at most ${LIMITS.loginFiles} login files, each with name, to and content`,
    )
  return files
}

function isLoginFile(value: unknown): value is LoginFile {
  const { name, to, content, setting } = (value ?? {}) as Partial<LoginFile>
  return (
    typeof name === 'string' &&
    NAME.test(name) &&
    typeof to === 'string' &&
    to.length <= LIMITS.pathBytes &&
    to.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0')) &&
    (content === null || typeof content === 'string') &&
    (setting === undefined || typeof setting === 'boolean')
  )
}

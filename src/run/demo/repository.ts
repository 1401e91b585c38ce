/** Finds the repository of a demo by the content of its folder. Craik never runs git in it. */
import { closeSync, constants, openSync, readSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { redactText } from '../../receipts/redaction/redact.ts'

export interface Repository {
  /** The real path, with every link resolved. */
  readonly path: string
  /** The path as the user gave it. */
  readonly given: string
  /** Valid in ids: letters, digits, `.`, `_` and `-`. */
  readonly name: string
}

const NAME_MAX = 40
/** A worktree or submodule has a `.git` file instead of a folder. */
const LINK_TO_REPOSITORY = 'gitdir: '

export function findRepository(path: string, name?: string): Repository {
  const found = realFolder(path)
  if (!holdsRepository(found)) {
    const around = repositoryAround(found)
    throw new CraikError('usage', `${path} is not a git repository: it has no .git`, {
      hint:
        around === undefined
          ? 'change to a git repository, or create one with git init, then try again'
          : `use the repository around it:  --repo-path ${join(path, around)}`,
    })
  }
  return { path: found, given: path, name: name === undefined ? nameOf(found) : parseProjectName(name) }
}

function realFolder(path: string): string {
  let found: string
  try {
    found = realpathSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const message = code === 'ENOENT' ? `folder ${path} does not exist` : `cannot read ${path} (${code})`
    throw new CraikError('usage', message, {
      hint: 'set --repo-path to the folder of a git repository',
      cause: error,
    })
  }
  if (statSync(found).isDirectory()) return found
  throw new CraikError('usage', `${path} is not a folder`, {
    hint: 'set --repo-path to the folder of a git repository',
  })
}

function holdsRepository(folder: string): boolean {
  const git = join(folder, '.git')
  try {
    const stats = statSync(git, { throwIfNoEntry: false })
    if (stats?.isDirectory()) return statSync(join(git, 'HEAD'), { throwIfNoEntry: false })?.isFile() ?? false
    return stats?.isFile() === true && startOf(git) === LINK_TO_REPOSITORY
  } catch (error) {
    // A folder that this user cannot read is not this user's repository.
    if (isForbidden(error)) return false
    throw error
  }
}

const isForbidden = (error: unknown) => ['EACCES', 'EPERM'].includes((error as { code?: string }).code ?? '')

function startOf(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const buffer = Buffer.alloc(LINK_TO_REPOSITORY.length)
    return buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0))
  } finally {
    closeSync(file)
  }
}

/** Returns the path to the surrounding repository, in the form that a user would type. */
function repositoryAround(folder: string): string | undefined {
  let steps = '..'
  for (let at = dirname(folder); at !== dirname(at); at = dirname(at), steps = `../${steps}`)
    if (holdsRepository(at)) return steps
  return undefined
}

function nameOf(folder: string): string {
  const name = basename(folder)
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[._-]+|[._-]+$/g, '')
    .slice(0, NAME_MAX)
  return name === '' || redactText(name).labels.length > 0 ? 'project' : name
}

function parseProjectName(name: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/.test(name) && redactText(name).labels.length === 0) return name
  throw new CraikError(
    'usage',
    'invalid --project-name: use letters, digits and . _ -, at most 40 characters',
    {
      hint: 'omit --project-name to use the name of the folder',
    },
  )
}

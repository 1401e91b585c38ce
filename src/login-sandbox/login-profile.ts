/**
 * A profile is a file of variables with the settings of a login sandbox. Craik reads it as data and never runs it in a
 * shell.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { createPrivateFile } from '../lib/private-files.ts'

/** The variables that a profile can set. They have the same meaning in the environment. */
const PROFILE_VARIABLES = [
  'SANDBOX_LOGIN',
  'SANDBOX_LOGIN_EXPECTED',
  'SANDBOX_WORKSPACE',
  'SANDBOX_REFUSE_PATTERNS',
  'SANDBOX_INBOX_DIR',
  'SANDBOX_BACKEND',
  'SANDBOX_CREDENTIALS',
  'SANDBOX_EGRESS',
  'SANDBOX_APT',
  'SANDBOX_HARNESSES',
  'GIT_AUTHOR_NAME',
  'GIT_AUTHOR_EMAIL',
] as const
export type ProfileVariable = (typeof PROFILE_VARIABLES)[number]
export type ProfileValues = Readonly<Partial<Record<ProfileVariable, string>>>

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const MAX_BYTES = 64 * 1024
const MAX_PROFILES = 1000
const EXTENSION = '.env'
/** In these variables, a leading `~` or `$HOME` means the home folder of the user who reads the file. */
const PATHS: ReadonlySet<string> = new Set(['SANDBOX_WORKSPACE', 'SANDBOX_INBOX_DIR'])

export interface LoginProfile {
  readonly name: string
  readonly path: string
  readonly values: ProfileValues
}

export function homeOf(environment: NodeJS.ProcessEnv): string {
  return environment.HOME || homedir()
}

export function profilesFolder(environment: NodeJS.ProcessEnv): string {
  return join(environment.XDG_CONFIG_HOME || join(homeOf(environment), '.config'), 'sandbox/profiles')
}

function pathOf(environment: NodeJS.ProcessEnv, name: string): string {
  if (!NAME.test(name)) {
    const shown = JSON.stringify(name.slice(0, 80))
    throw new CraikError(
      'usage',
      `invalid profile name ${shown}: use letters, digits and . _ -, at most 64`,
      {
        hint: 'list profiles:  craik profile-list',
      },
    )
  }
  return join(profilesFolder(environment), `${name}${EXTENSION}`)
}

export function readProfile(environment: NodeJS.ProcessEnv, name: string): LoginProfile {
  const path = pathOf(environment, name)
  let text: string
  try {
    requireOwn(path)
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    throw new CraikError('no_profile', `there is no profile ${name}`, {
      hint: `list profiles:  craik profile-list   or create it:  craik profile-new ${name}`,
      cause,
    })
  }
  return { name, path, values: parseProfile(text, path, homeOf(environment)) }
}

/** A user who can write the profile decides which folder a sandbox works on, and under which login. */
function requireOwn(path: string): void {
  const stats = lstatSync(path)
  const uid = process.geteuid?.()
  const problem =
    (!stats.isFile() && 'is not a regular file') ||
    (stats.size > MAX_BYTES && 'is larger than 64 KiB') ||
    (uid !== undefined && stats.uid !== uid && 'belongs to another user') ||
    ((stats.mode & 0o022) !== 0 && 'can be written by others')
  if (problem)
    throw new CraikError('invalid_config', `the profile ${path} ${problem}`, {
      hint: problem.startsWith('can be')
        ? `chmod 600 ${path}`
        : 'replace it with a file of your own:  craik profile-list',
    })
}

const ASSIGNMENT = /^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/

/** Parses plain shell assignments: a value, or a value in quotes. Ignores names that Craik does not use. */
export function parseProfile(text: string, path: string, home: string): ProfileValues {
  const values: Partial<Record<ProfileVariable, string>> = {}
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim()
    if (line === '' || line.startsWith('#')) continue
    const [, name, written] = ASSIGNMENT.exec(line) ?? []
    const value = written === undefined ? undefined : plainValue(written)
    if (name === undefined || value === undefined || value.includes('\0'))
      throw new CraikError('invalid_config', `${path}: line ${index + 1} is not an assignment NAME=value`, {
        hint: 'put a value with spaces in quotes:  SANDBOX_WORKSPACE="~/my code"',
      })
    if (isKnown(name)) values[name] = PATHS.has(name) ? withHome(value, home) : value
  }
  return values
}

function isKnown(name: string): name is ProfileVariable {
  return (PROFILE_VARIABLES as readonly string[]).includes(name)
}

/** Returns undefined when the value is neither plain nor completely in quotes. */
function plainValue(written: string): string | undefined {
  const quoted = /^(["'])(.*)\1[ \t]*(?:#.*)?$/.exec(written)
  if (quoted !== null && !quoted[2]!.includes(quoted[1]!)) return quoted[2]!
  const plain = written.replace(/[ \t]#.*$/, '').trim()
  return /["'`]/.test(plain) ? undefined : plain
}

function withHome(path: string, home: string): string {
  return path.replace(/^(?:~(?=\/|$)|\$HOME(?=\/|$)|\$\{HOME\}(?=\/|$))/, () => home)
}

export function profileNames(environment: NodeJS.ProcessEnv): string[] {
  let entries: string[]
  try {
    entries = readdirSync(profilesFolder(environment))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  return entries
    .filter((entry) => entry.endsWith(EXTENSION))
    .map((entry) => entry.slice(0, -EXTENSION.length))
    .filter((name) => NAME.test(name))
    .sort()
    .slice(0, MAX_PROFILES)
}

export function createProfile(environment: NodeJS.ProcessEnv, name: string, values: ProfileValues): string {
  const path = pathOf(environment, name)
  const lines = PROFILE_VARIABLES.map((variable) => {
    const value = values[variable]
    return value === undefined ? `# ${variable}=` : `${variable}=${quote(value)}`
  })
  mkdirSync(profilesFolder(environment), { recursive: true, mode: 0o700 })
  if (!createPrivateFile(path, `${lines.join('\n')}\n`, 'profile'))
    throw new CraikError('conflict', `the profile ${name} already exists`, { hint: `edit it:  ${path}` })
  return path
}

function quote(value: string): string {
  if (/["'\n\r]/.test(value))
    throw new CraikError('usage', 'a value in a profile cannot contain quotes or line breaks', {
      hint: 'remove the quotes and line breaks from the option or variable that sets the value',
    })
  return /^[A-Za-z0-9_./~@:,+-]*$/.test(value) ? value : `'${value}'`
}

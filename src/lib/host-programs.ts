/**
 * Every program that Craik executes on the host, and the one rule for all of them. A sandbox can write to its
 * workspace, and PATH may name folders there. So Craik executes a program only by its real path, and only when
 * `trusted-path.ts` accepts it. It must also be outside of every workspace, `node_modules/.bin` and virtualenv.
 */
import { accessSync, closeSync, constants, existsSync, openSync, readSync } from 'node:fs'
import { basename, delimiter, dirname, join, resolve } from 'node:path'
import { findContainingFolder, type Owners, resolveTrustedPath, type TrustedPath } from './trusted-path.ts'

interface HostProgram {
  /** `system`: belongs to root, in a system folder. `user`: belongs to root or the user. `own`: Craik's Node. */
  readonly kind: 'system' | 'user' | 'own'
  readonly runBy: 'supervisor' | 'command' | 'both'
  readonly why: string
  /**
   * The program starts other programs itself. Craik does not check those, but the program runs on the host with the
   * system's PATH.
   */
  readonly startsOthers?: true
}

/** Craik executes nothing else on the host, except a command that the user registered as the source of a secret. */
export const HOST_PROGRAMS = {
  node: {
    kind: 'own',
    runBy: 'both',
    why: 'the supervisor, its helpers, npm, and sandboxes without isolation',
  },
  bwrap: { kind: 'system', runBy: 'both', why: 'isolates process sandboxes' },
  cat: { kind: 'system', runBy: 'supervisor', why: 'keeps a mount namespace open' },
  chmod: { kind: 'system', runBy: 'both', why: 'restores access to a sandbox’s files, to remove them' },
  chown: { kind: 'system', runBy: 'supervisor', why: 'gives a volume to the user of a sandbox' },
  du: { kind: 'system', runBy: 'supervisor', why: 'measures a volume' },
  gh: { kind: 'user', runBy: 'both', why: 'reads the GitHub login', startsOthers: true },
  mke2fs: { kind: 'system', runBy: 'supervisor', why: 'creates the disk of a sandbox' },
  mmdebstrap: {
    kind: 'system',
    runBy: 'both',
    why: 'creates the root file system of an image',
    startsOthers: true,
  },
  mount: { kind: 'system', runBy: 'supervisor', why: 'mounts disks and folders of sandboxes' },
  npm: { kind: 'user', runBy: 'command', why: 'installs the agents’ packages', startsOthers: true },
  nsenter: { kind: 'system', runBy: 'supervisor', why: 'mounts folders into a running container' },
  prlimit: { kind: 'system', runBy: 'supervisor', why: 'limits a process sandbox' },
  ps: { kind: 'system', runBy: 'both', why: 'identifies processes on macOS' },
  rm: { kind: 'system', runBy: 'both', why: 'removes folders nested deeper than the longest path' },
  'secret-tool': { kind: 'user', runBy: 'both', why: 'reads the login keyring on Linux', startsOthers: true },
  security: { kind: 'user', runBy: 'both', why: 'reads the keychain of macOS' },
  setpriv: { kind: 'system', runBy: 'both', why: 'drops privileges before a sandbox starts' },
  sh: { kind: 'system', runBy: 'both', why: 'runs the scripts that mount and limit' },
  stat: { kind: 'system', runBy: 'supervisor', why: 'checks that a mounted folder is the chosen one' },
  stty: { kind: 'system', runBy: 'command', why: 'sets the terminal of `craik sandbox shell`' },
  sync: { kind: 'system', runBy: 'supervisor', why: 'writes a snapshot to disk' },
  sysctl: { kind: 'system', runBy: 'both', why: 'reads the boot id on macOS' },
  tini: { kind: 'system', runBy: 'supervisor', why: 'reaps processes in process sandboxes' },
  umount: { kind: 'system', runBy: 'supervisor', why: 'unmounts disks and folders of sandboxes' },
  unshare: { kind: 'system', runBy: 'both', why: 'opens a mount namespace' },
} as const satisfies Readonly<Record<string, HostProgram>>

export type ProgramName = keyof typeof HOST_PROGRAMS
type NameOf<Kind> = {
  [N in ProgramName]: (typeof HOST_PROGRAMS)[N]['kind'] extends Kind ? N : never
}[ProgramName]
export type SystemProgram = NameOf<'system'>
export type UserProgram = NameOf<'user'>
export const USER_PROGRAMS = (Object.keys(HOST_PROGRAMS) as ProgramName[]).filter(
  (name): name is UserProgram => HOST_PROGRAMS[name].kind === 'user',
)

/** A PATH can omit some of these folders, but it cannot add other folders for system programs. */
const SYSTEM_FOLDERS = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
  '/run/current-system/sw/bin',
]

/**
 * Returns the PATH of the supervisor and of the programs that Craik executes on the host: the system folders that the
 * rule accepts.
 */
export function hostPath(): string {
  const all = SYSTEM_FOLDERS.filter((folder) =>
    resolveTrustedPath(folder, 'root-or-user')?.stats.isDirectory(),
  )
  return all.join(delimiter)
}

/** Returns the real path of a system program, or `undefined` when no system folder on the path has a trusted one. */
export function findSystemProgram(name: SystemProgram, path?: string): string | undefined {
  return findRootProgram(name, path)
}

/** Does the same for any name. Craik itself executes no program that is not in the table. */
export function findRootProgram(name: string, path = ''): string | undefined {
  return foldersOf(path)
    .filter((folder) => SYSTEM_FOLDERS.includes(folder))
    .flatMap((folder) => resolveTrustedProgram(join(folder, name), 'root')?.real ?? [])[0]
}

/**
 * Returns a program that the rule accepts. The caller still has to check the workspaces, which are known only when the
 * program is used.
 */
export function resolveTrustedProgram(path: string, owners: Owners): TrustedPath | undefined {
  const found = resolveTrustedPath(path, owners)
  if (found === undefined || !found.stats.isFile() || !isExecutable(found.real)) return undefined
  // The same file may have another name in a workspace. Only root can write to root's files.
  if (found.stats.uid !== 0n && found.stats.nlink > 1n) return undefined
  if (found.locations.some((location) => isProjectFolder(dirname(location)))) return undefined
  return found
}

/** Package managers put these project folders on PATH. */
function isProjectFolder(folder: string): boolean {
  if (basename(folder) === '.bin' && basename(dirname(folder)) === 'node_modules') return true
  return existsSync(join(dirname(folder), 'pyvenv.cfg'))
}

/** How to start a user program. `argv0` is for programs that behave according to the name they are called by. */
export interface FoundProgram {
  readonly argv: readonly [string, ...string[]]
  readonly argv0: string
}

/**
 * The environment variable of a process that does not use the user's PATH, such as the supervisor. It contains, as
 * JSON, the programs that PATH named when the user's command searched it. Each path is checked again whenever it is
 * used.
 */
export const PINS_VARIABLE = 'CRAIK_HOST_PROGRAMS'

export interface Pins {
  /** Paths by the name of the program, in the order of PATH. */
  readonly programs: Readonly<Partial<Record<UserProgram, readonly string[]>>>
  /** Where Craik searches for a registered command by its name. */
  readonly folders: readonly string[]
}

const MAX_PATHS = 8
const MAX_FOLDERS = 64

/**
 * Returns a user program: the first pinned one that meets the whole rule now. Without pins, it is the first one on
 * PATH. `mounted` are the host folders that sandboxes can write to.
 */
export function findHostProgram(
  name: UserProgram,
  environment: NodeJS.ProcessEnv,
  mounted: readonly string[],
): FoundProgram | undefined {
  const program = pathsOf(name, environment).flatMap((path) => resolveUsableProgram(path, mounted) ?? [])[0]
  return program && { argv: commandOf(program.real), argv0: name }
}

/** Returns the program of a command that the user registered, by a path or a name. The same rule applies. */
export function findNamedProgram(
  name: string,
  environment: NodeJS.ProcessEnv,
  mounted: readonly string[],
): FoundProgram | undefined {
  const folders = pinsIn(environment)?.folders ?? foldersOf(environment.PATH)
  const paths = name.includes('/') ? [name] : folders.map((folder) => join(folder, name))
  const program = paths.flatMap((path) => resolveUsableProgram(path, mounted) ?? [])[0]
  return program && { argv: commandOf(program.real), argv0: name }
}

/**
 * Returns the programs that PATH or the pins name and that the rule accepts. Workspaces are checked whenever a program
 * is used.
 */
export function pinPrograms(
  environment: NodeJS.ProcessEnv,
  names: readonly UserProgram[] = USER_PROGRAMS,
): Pins {
  const found = names.map((name) => {
    const paths = pathsOf(name, environment).filter((path) => resolveUsableProgram(path, []) !== undefined)
    return [name, paths.slice(0, MAX_PATHS)] as const
  })
  const folders = (pinsIn(environment)?.folders ?? foldersOf(environment.PATH)).filter(
    (folder) => !isProjectFolder(folder) && resolveTrustedPath(folder, 'root-or-user')?.stats.isDirectory(),
  )
  return {
    programs: Object.fromEntries(found.filter(([, paths]) => paths.length > 0)),
    folders: folders.slice(0, MAX_FOLDERS),
  }
}

/** Returns the pins with `more` added, as JSON. A pin that is still valid stays, and the new one replaces any other. */
export function addPins(environment: NodeJS.ProcessEnv, more: Pins['programs']): string {
  const { programs, folders } = pinPrograms(environment)
  return JSON.stringify({ programs: { ...more, ...programs }, folders } satisfies Pins)
}

/** Returns the pinned program that a sandbox could replace if it could write to this folder. */
export function findPinnedInside(
  folder: string,
  environment: NodeJS.ProcessEnv,
  mounted: readonly string[],
): UserProgram | undefined {
  return USER_PROGRAMS.find((name) =>
    pathsOf(name, environment).some((path) => {
      // Craik does not execute a program that a sandbox can already write to, so it is no reason to refuse the folder.
      const program = resolveUsableProgram(path, mounted)
      return program !== undefined && isInside(program, folder)
    }),
  )
}

function isInside({ locations, real }: TrustedPath, folder: string): boolean {
  if (locations.some((location) => findContainingFolder(location, [folder]) !== undefined)) return true
  // A script reads the rest of its package, as npm does.
  return (
    shebangOf(real) !== undefined &&
    findContainingFolder(folder, [dirname(dirname(real))]) !== undefined &&
    isPackage(real)
  )
}

function isPackage(script: string): boolean {
  return existsSync(join(dirname(dirname(script)), 'package.json'))
}

function resolveUsableProgram(path: string, mounted: readonly string[]): TrustedPath | undefined {
  const program = resolveTrustedProgram(path, 'root-or-user')
  if (program === undefined) return undefined
  const interpreter = interpreterOf(program.real)
  const all =
    interpreter === undefined ? [program] : [program, resolveTrustedProgram(interpreter, 'root-or-user')]
  const isUsable = all.every(
    (one) =>
      one?.locations.every((location) => findContainingFolder(location, mounted) === undefined) ?? false,
  )
  return isUsable ? program : undefined
}

function pathsOf(name: UserProgram, environment: NodeJS.ProcessEnv): readonly string[] {
  const pins = pinsIn(environment)
  if (pins === undefined) return foldersOf(environment.PATH).map((folder) => join(folder, name))
  return pins.programs[name] ?? []
}

/** Only Craik sets this variable, for its own processes. */
function pinsIn(environment: NodeJS.ProcessEnv): Pins | undefined {
  const text = environment[PINS_VARIABLE]
  return text === undefined ? undefined : (JSON.parse(text) as Pins)
}

/** Ignores relative entries, so that Craik never searches its working folder. */
function foldersOf(path = ''): string[] {
  return path.split(delimiter).flatMap((folder) => (folder.startsWith('/') ? [resolve(folder)] : []))
}

/** Runs a Node script with Craik's own Node, because `env` would search PATH for another one. */
function commandOf(real: string): readonly [string, ...string[]] {
  return /\bnode\b/.test(shebangOf(real) ?? '') ? [process.execPath, real] : [real]
}

/**
 * Returns the program that the kernel starts for a script. If that is `env`, it searches the PATH that Craik passes,
 * which is the system's.
 */
function interpreterOf(real: string): string | undefined {
  const line = shebangOf(real)
  return line === undefined || /\bnode\b/.test(line) ? undefined : line.split(/[ \t]/, 1)[0]
}

const MAX_SHEBANG_BYTES = 256

function shebangOf(real: string): string | undefined {
  const head = Buffer.alloc(MAX_SHEBANG_BYTES)
  let file: number | undefined
  try {
    file = openSync(real, 'r')
    const text = head.subarray(0, readSync(file, head)).toString('latin1')
    return /^#![ \t]*([^\n]+)/.exec(text)?.[1]
  } catch {
    // The file is executable but not readable, so it cannot be a script.
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Paths of a workspace as a sandbox names them: which are lies, which are left, and which lead into git's own folder. */
import { z } from 'zod'
import { nameProblem, staysInside } from '../../lib/safe-tar/names.ts'
import { IN_WORKSPACE } from '../../sandboxes/backends/process/protected-paths.ts'
import { CHANGE_LIMITS } from './limits.ts'

/** No honest lister names a path that is absolute, climbs, or is not spelt the shortest way. */
export const workspacePath = z
  .string()
  .min(1)
  .refine((path) => Buffer.byteLength(path) <= CHANGE_LIMITS.pathBytes, 'is too long')
  .refine((path) => path.isWellFormed() && !path.includes('\0'), 'is no name of a file')
  .refine(
    (path) => path.split('/').every((part) => part !== '' && part !== '.' && part !== '..'),
    'leads elsewhere, or takes detours',
  )

export const linkTarget = z
  .string()
  .min(1)
  .refine((target) => Buffer.byteLength(target) <= CHANGE_LIMITS.pathBytes, 'is too long')
  .refine((target) => target.isWellFormed() && !target.includes('\0'), 'is no path')

const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** Why a path that may well exist inside is not brought over. */
export function pathProblem(path: string): string | undefined {
  if (CONTROL.test(path)) return 'its name holds control characters'
  if (path.split('/').some(isGitName)) return 'it belongs to git'
  const problem = nameProblem(path)
  return problem === undefined ? undefined : `its ${problem === 'too deep' ? 'folder is too deep' : problem}`
}

/** Why a link at that path is not brought over. */
export function linkProblem(path: string, target: string): string | undefined {
  if (CONTROL.test(target)) return 'its target holds control characters'
  if (!staysInside(target, path.split('/').length - 1)) return 'the link leads outside'
  return target.split('/').some(isGitName) ? 'the link leads into git’s own folder' : undefined
}

/** What a sandbox in place has no need to be kept from, because it is held until somebody looks; a patch is over at once. */
const ALSO_TRUSTED = [
  ...['.devcontainer.json', '.claude.json', '.cargo', '.pnpmfile.cjs', '.yarnrc', '.aider.conf.yml'],
  ...['.qwen', '.kiro', '.roo', '.windsurf', '.continue', '.amp', '.cline', '.augment', '.trae', '.junie'],
  ...['.vs', '.fleet', '.nova', '.lvimrc', '.rprofile', '.irbrc', '.pryrc', '.bundle'],
  ...['bunfig.toml', 'lefthook.yml', 'lefthook.yaml', '.lefthook.yml', '.lefthook.yaml', 'lefthook.toml'],
  ...['.mise.toml', 'mise.toml', '.tool-versions', '.exrc', '.vimrc', '.nvimrc', '.nvim.lua', '.gdbinit'],
  ...['.lldbinit', '.dir-locals.el', '.gitmodules'],
]
const TRUSTED = new Set([...IN_WORKSPACE.map(({ path }) => path), ...ALSO_TRUSTED])

/**
 * Whether programs of this machine run or trust what has that name, as soon as somebody opens its folder. `HEAD` is what
 * makes a folder a repository of its own, whose configuration git obeys.
 */
export function isTrustedHere(path: string): boolean {
  const names = path.split('/').map(plainName)
  return names.at(-1) === 'head' || names.some((name) => TRUSTED.has(name))
}

/**
 * Every spelling under which some file system finds `.git`: in other case, with the dots, blanks and streams that
 * Windows drops, by its short name there, and with the characters that macOS ignores.
 */
export function isGitName(name: string): boolean {
  return plainName(name)
    .split('\\')
    .some((part) => /^(?:\.git|git~\d+)[. ]*(?:$|:)/u.test(part))
}

function plainName(name: string): string {
  return name
    .normalize('NFKC')
    .replace(/\p{Cf}/gu, '')
    .toLowerCase()
}

/** The folders that a path lies in, the outermost first. */
export function foldersOf(path: string): readonly string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'))
}

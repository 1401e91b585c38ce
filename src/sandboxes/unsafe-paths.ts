/**
 * Decides which paths of a sandbox may be copied to a folder of the host. It holds back those that git, shells, editors
 * and agents of the host would run or trust without asking. `craik run apply` and `craik sandbox cp` both use it.
 */
import { lstat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { nameProblem, staysInside } from '../lib/safe-tar/entry-names.ts'
import { IN_WORKSPACE } from './backends/process/protected-paths.ts'

/**
 * Why a file is held back. `settings` are files that a project may well need: `run apply --include-unsafe` applies them.
 */
export interface HeldBack {
  readonly kind: 'never' | 'settings'
  readonly reason: string
}

const TRUSTED_BY_PROGRAMS: HeldBack = {
  kind: 'settings',
  reason: 'git, a shell, an editor or an agent on this machine would run or trust it',
}

/**
 * Applies even if git does not know the file's name. A sandbox must not write a repository's configuration and hooks.
 */
export const REPOSITORY_FILE: HeldBack = {
  kind: 'settings',
  reason: 'its folder is a separate git repository',
}

/** Checks a path relative to a folder of the host, and the target of a symbolic link at that path. */
export function findHeldBack(path: string, linkTarget?: string): HeldBack | undefined {
  const problem = pathProblem(path) ?? (linkTarget === undefined ? undefined : linkProblem(path, linkTarget))
  if (problem !== undefined) return { kind: 'never', reason: problem }
  return isTrustedHere(path) ? TRUSTED_BY_PROGRAMS : undefined
}

/**
 * Returns the first part of a path that is held back: `.git` for `.git/hooks/pre-commit`. Returns the path itself when
 * only the whole path is a problem.
 */
export function findHeldBackPrefix(path: string): string {
  const parts = path.split('/')
  const index = parts.findIndex((part) => findHeldBack(part) !== undefined)
  return index === -1 ? path : parts.slice(0, index + 1).join('/')
}

/** The name of the file that makes a folder a repository. Git then uses the configuration and hooks beside it. */
export const REPOSITORY_MARKER = 'HEAD'

/**
 * Checks a folder of the host, by its real absolute path, before Craik copies something of a sandbox into it. The
 * path's names do not reveal a bare repository, so this also checks the parent folders.
 */
export async function findHeldBackFolder(realPath: string): Promise<HeldBack | undefined> {
  const path = realPath.slice(1)
  if (path.split('/').some(isGitName)) return { kind: 'never', reason: 'it belongs to git' }
  if (isTrustedHere(path)) return TRUSTED_BY_PROGRAMS
  for (let folder = realPath; ; folder = dirname(folder)) {
    if (await isRepository(folder)) return REPOSITORY_FILE
    if (folder === dirname(folder)) return undefined
  }
}

/** Returns whether a folder of the host is a repository, or becomes one when a sandbox adds the rest. */
export async function isRepository(folder: string): Promise<boolean> {
  // Does not use `join`, because the path of an open folder is a link in /proc, and `join` would shorten the path.
  return lstat(`${folder}/${REPOSITORY_MARKER}`).then(
    () => true,
    () => false,
  )
}

const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** Returns why `run apply` never applies a path. */
export function pathProblem(path: string): string | undefined {
  if (CONTROL.test(path)) return 'its name contains control characters'
  if (path.split('/').some(isGitName)) return 'it belongs to git'
  const problem = nameProblem(path)
  return problem === undefined ? undefined : `its ${problem === 'too deep' ? 'folder is too deep' : problem}`
}

/** Returns why `run apply` never applies a symbolic link at that path. */
export function linkProblem(path: string, target: string): string | undefined {
  if (CONTROL.test(target)) return 'its target contains control characters'
  if (!staysInside(target, path.split('/').length - 1)) return 'the link points outside the folder'
  return target.split('/').some(isGitName) ? 'the link points into a git folder' : undefined
}

/** Trusted in addition to the protected files of a workspace in place. */
const ALSO_TRUSTED = [
  '.devcontainer.json',
  '.claude.json',
  '.cargo',
  '.pnpmfile.cjs',
  '.yarnrc',
  '.aider.conf.yml',
  '.qwen',
  '.kiro',
  '.roo',
  '.windsurf',
  '.continue',
  '.amp',
  '.cline',
  '.augment',
  '.trae',
  '.junie',
  '.vs',
  '.fleet',
  '.nova',
  '.lvimrc',
  '.rprofile',
  '.irbrc',
  '.pryrc',
  '.bundle',
  'bunfig.toml',
  'lefthook.yml',
  'lefthook.yaml',
  '.lefthook.yml',
  '.lefthook.yaml',
  'lefthook.toml',
  '.mise.toml',
  'mise.toml',
  '.tool-versions',
  '.exrc',
  '.vimrc',
  '.nvimrc',
  '.nvim.lua',
  '.gdbinit',
  '.lldbinit',
  '.dir-locals.el',
  '.dir-locals-2.el',
  '.gitmodules',
  '.githooks',
  '.hg',
  '.jj',
  '.svn',
  'lefthook-local.yml',
  '.lefthook-local.yml',
  '.mise.local.toml',
  '.mise',
  '.pnpmfile.mjs',
  'crush.json',
  '.helix',
  '.vim',
  '.emacs',
  '.emacs.d',
  // Package managers and virtual environments put these folders first on PATH.
  '.bin',
  '.venv',
  'venv',
  '.direnv',
  'pyvenv.cfg',
  // The target of a copy can be the user's home, where shells and ssh read these.
  '.bashrc',
  '.bash_profile',
  '.bash_login',
  '.bash_logout',
  '.bash_aliases',
  '.profile',
  '.inputrc',
  '.zshrc',
  '.zshenv',
  '.zprofile',
  '.zlogin',
  '.zlogout',
  '.ssh',
  '.gitconfig',
  '.config',
  '.cshrc',
  '.tcshrc',
  '.login',
  '.xprofile',
  '.xinitrc',
  '.nvm',
  '.local',
  '.docker',
  '.netrc',
]
const TRUSTED = new Set([...IN_WORKSPACE.map(({ path }) => path), ...ALSO_TRUSTED])

/** Returns whether programs of the host run or trust a file of that name as soon as the user opens its folder. */
function isTrustedHere(path: string): boolean {
  const names = path.split('/').map(plainName)
  return names.at(-1) === REPOSITORY_MARKER.toLowerCase() || names.some((name) => TRUSTED.has(name))
}

/**
 * Returns whether some file system reads the name as `.git`: in another case, with the dots, blanks and streams that
 * Windows drops, by its short name there, or with the characters that macOS ignores.
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

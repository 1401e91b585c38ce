/** The programs that tests start and npm does not install, their Debian packages, and the tests that need them. */
import { accessSync, constants } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { findRootProgram } from '../src/lib/host-programs.ts'

const PACKAGE_OF: Readonly<Record<string, string>> = {
  bwrap: 'bubblewrap',
  dockerd: 'docker.io',
  gh: 'gh',
  git: 'git',
  ip: 'iproute2',
  iptables: 'iptables',
  mke2fs: 'e2fsprogs',
  mmdebstrap: 'mmdebstrap',
  mount: 'mount',
  perl: 'perl-base',
  podman: 'podman',
  ps: 'procps',
  python3: 'python3',
  runc: 'runc',
  script: 'bsdutils',
  setpriv: 'util-linux',
  strace: 'strace',
  tar: 'tar',
  tini: 'tini',
  top: 'procps',
  unshare: 'util-linux',
  vi: 'vim-tiny',
  vim: 'vim',
}

/** Sandboxes trust only the system's own copy of these programs, so only that copy counts. */
const TRUSTED = new Set(['bwrap', 'dockerd', 'iptables', 'mke2fs', 'mmdebstrap', 'podman', 'runc', 'tini'])

/**
 * Maps a program that a minimal host lacks to the test files that start it. The patterns cover whole folders when most
 * of their files start it. Unit tests start no program, so they always run.
 */
const NEEDED_BY: readonly (readonly [program: string, files: string])[] = [
  ['bwrap', '{src,scripts}/**/*.process.test.ts'],
  ['bwrap', 'test/{attacks,boundary,contract,conformance,docker,e2e,escape,faults,gateway}/**/*.test.ts'],
  ['bwrap', 'test/{accounts,leaks,login-sandbox,transcripts}/**/*.test.ts'],
  ...['dockerd', 'iptables', 'mmdebstrap', 'runc', 'tini'].flatMap((program) => [
    [program, 'test/docker/**/*.test.ts'] as const,
    [program, 'test/faults/docker-*.test.ts'] as const,
  ]),
  ['podman', 'test/docker/podman.test.ts'],
  ['gh', 'test/gateway/gh.test.ts'],
  ['ip', 'test/gateway/*.test.ts'],
  ['strace', 'test/{attacks,docker}/{received-home,supervisor-programs}.test.ts'],
  ...['vi', 'vim'].map(
    (program) => [program, 'test/{contract,docker}/{sandbox,contract}-*.test.ts'] as const,
  ),
]

export interface MissingProgram {
  readonly program: string
  readonly package: string
}

export function missingPrograms(): readonly MissingProgram[] {
  return Object.entries(PACKAGE_OF)
    .filter(([program]) => !isInstalled(program))
    .map(([program, name]) => ({ program, package: name }))
}

let missing: ReadonlySet<string> | undefined

/** Returns the program that this test file needs and the host lacks. */
export function findMissingProgram(file: string): string | undefined {
  missing ??= new Set(missingPrograms().map(({ program }) => program))
  return NEEDED_BY.find(([program, files]) => missing!.has(program) && matchesGlob(file, files))?.[0]
}

function isInstalled(program: string): boolean {
  const path = `${process.env.PATH}:/usr/sbin:/sbin`
  return TRUSTED.has(program) ? findRootProgram(program, path) !== undefined : isOnPath(program, path)
}

function isOnPath(name: string, path: string): boolean {
  return path.split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

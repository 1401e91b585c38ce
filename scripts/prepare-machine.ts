/** Brings what the tests need beyond npm. Installs it where it may, otherwise says how. */
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { findSystemProgram } from '../src/sandboxes/backends/process/system-program.ts'

/** Programs that tests start, and the Debian packages that hold them. Most are on every machine. */
const NEEDED: Readonly<Record<string, string>> = {
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
  tar: 'tar',
  tini: 'tini',
  top: 'procps',
  unshare: 'util-linux',
  vi: 'vim-tiny',
  vim: 'vim',
}

/** Of what the sandbox rests on only the system's own is trusted by it, so only that counts. */
const TRUSTED = new Set(['bwrap', 'dockerd', 'iptables', 'mke2fs', 'mmdebstrap', 'podman', 'runc', 'tini'])

if (missing().length > 0 && mayInstall()) install(missing())
const packages = missing()
if (packages.length > 0) {
  const command = process.platform === 'linux' ? `sudo ${installing(packages)}` : 'use a Linux machine'
  process.stderr.write(`some tests need programs that are not here; run:  ${command}\n`)
  // Without them those tests fail one by one; on a machine that is to prove something they are not even begun.
  if (process.env.CI === 'true') process.exitCode = 1
}

function missing(): string[] {
  return Object.entries(NEEDED)
    .filter(([program]) => !isHere(program))
    .map(([, name]) => name)
}

function isHere(program: string): boolean {
  if (!TRUSTED.has(program)) return isOnPath(program)
  return findSystemProgram(program, `${process.env.PATH}:/usr/sbin:/sbin`) !== undefined
}

function mayInstall(): boolean {
  return process.platform === 'linux' && process.getuid?.() === 0 && isOnPath('apt-get')
}

/** The lists of packages may be missing or old: they are fetched only when the first attempt fails. */
function install(names: readonly string[]): void {
  process.stderr.write(`installing ${names.join(', ')} for the tests …\n`)
  if (apt(installing(names))) return
  apt('apt-get update')
  apt(installing(names))
}

function installing(names: readonly string[]): string {
  return `apt-get install --yes --no-install-recommends ${names.join(' ')}`
}

function apt(command: string): boolean {
  const [program, ...args] = command.split(' ')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { status, stderr } = spawnSync(program!, ['-qq', ...args], { env, encoding: 'utf8' })
  if (status !== 0) process.stderr.write(stderr ?? '')
  return status === 0
}

function isOnPath(name: string): boolean {
  return (process.env.PATH ?? '').split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

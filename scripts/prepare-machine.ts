/** Brings what the tests need beyond npm: bubblewrap. Installs it where it may, otherwise says how. */
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { findSystemProgram } from '../src/sandboxes/backends/process/system-program.ts'

const INSTALL = 'apt-get install --yes --no-install-recommends bubblewrap'

if (!hasBubblewrap() && mayInstall()) install()
if (!hasBubblewrap()) {
  const command = process.platform === 'linux' ? `sudo ${INSTALL}` : 'use a Linux machine'
  process.stderr.write(`tests of the process sandbox need bubblewrap; run:  ${command}\n`)
  // Without it those tests fail one by one; on a machine that is to prove something they are not even begun.
  if (process.env.CI === 'true') process.exitCode = 1
}

function mayInstall(): boolean {
  return process.platform === 'linux' && process.getuid?.() === 0 && onPath('apt-get')
}

/** The lists of packages may be missing or old: they are fetched only when the first attempt fails. */
function install(): void {
  process.stderr.write('installing bubblewrap for the tests of the process sandbox …\n')
  if (apt(INSTALL)) return
  apt('apt-get update')
  apt(INSTALL)
}

function apt(command: string): boolean {
  const [program, ...args] = command.split(' ')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { status, stderr } = spawnSync(program!, ['-qq', ...args], { env, encoding: 'utf8' })
  if (status !== 0) process.stderr.write(stderr ?? '')
  return status === 0
}

/** Only the system's own is trusted by the sandbox, so only it counts. */
function hasBubblewrap(): boolean {
  return findSystemProgram('bwrap', process.env.PATH) !== undefined
}

function onPath(name: string): boolean {
  return (process.env.PATH ?? '').split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

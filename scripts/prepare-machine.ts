/**
 * Installs the Debian packages that the tests need and reports them first. When it may not install them, it reports
 * that tests are skipped.
 */
import { spawnSync } from 'node:child_process'
import { missingPrograms } from '../test/needed-programs.ts'

const say = (line: string) => process.stderr.write(`${line}\n`)
const MAY_INSTALL =
  process.env.CRAIK_TEST_INSTALL !== '0' && process.platform === 'linux' && process.getuid?.() === 0

if (missingPackages().length > 0 && MAY_INSTALL) install(missingPackages())
const packages = missingPackages()
if (packages.length > 0) {
  const command = process.platform === 'linux' ? `sudo ${installCommand(packages)}` : 'use a Linux machine'
  say(
    `not installed: ${packages.join(', ')}. npm test skips the tests that need them. To run all:  ${command}`,
  )
  if (process.env.CI === 'true') {
    say('CI=true: a test that this machine could run must not be skipped')
    process.exitCode = 1
  }
}

function missingPackages(): string[] {
  return [...new Set(missingPrograms().map((missing) => missing.package))]
}

/** The package lists may be missing or old. `apt-get update` runs only when the first attempt fails. */
function install(names: readonly string[]): void {
  say(`npm test needs these Debian packages and installs them now: ${names.join(', ')}`)
  say('To install nothing and skip the tests that need them, set CRAIK_TEST_INSTALL=0.')
  if (apt(installCommand(names))) return
  apt('apt-get update')
  apt(installCommand(names))
}

function installCommand(names: readonly string[]): string {
  return `apt-get install --yes --no-install-recommends ${names.join(' ')}`
}

function apt(command: string): boolean {
  const [program, ...args] = command.split(' ')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { status, stderr, error } = spawnSync(program!, ['-qq', ...args], { env, encoding: 'utf8' })
  if (status !== 0) say(stderr ?? String(error))
  return status === 0
}

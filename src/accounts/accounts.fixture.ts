/** A temporary home folder of a user and a temporary Craik home, for tests of logins. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { NEVER_ABORTED } from '../lib/never-aborted.fixture.ts'
import { type Home, homeAt } from '../store/home.ts'
import type { Overrides } from './overrides.ts'
import type { Found, HostEnvironment, Probe, ProbeProblem } from './probe-result.ts'
import { isProbeProblem } from './probe-result.ts'

export interface TestMachine extends Disposable {
  readonly userHome: string
  readonly home: Home
  readonly hostEnvironment: HostEnvironment
  /** Writes a file of the user, with an mtime old enough that its stamp can be trusted. */
  write(path: string, content: string, mode?: number): void
  read(path: string): string
  mode(path: string): number
  with(changes: Partial<HostEnvironment>): HostEnvironment
}

export function machine(
  variables: Readonly<Record<string, string>> = {},
  overrides: Overrides = {},
): TestMachine {
  const folder = mkdtempSync(join(tmpdir(), 'craik-accounts-'))
  const userHome = join(folder, 'person')
  mkdirSync(userHome)
  const hostEnvironment: HostEnvironment = {
    userHome,
    environment: { ...variables },
    mounted: async () => [],
    platform: 'linux',
    overrides,
    nowMs: () => Date.now(),
  }
  return {
    userHome,
    home: homeAt(join(folder, 'craik')),
    hostEnvironment: hostEnvironment,
    write(path, content, mode = 0o600) {
      const full = join(userHome, path)
      mkdirSync(dirname(full), { recursive: true })
      writeFileSync(full, content, { mode })
      const past = new Date(Date.now() - 60_000)
      utimesSync(full, past, past)
    },
    read: (path) => readFileSync(join(userHome, path), 'utf8'),
    mode: (path) => statSync(join(userHome, path)).mode & 0o7777,
    with: (changes) => ({ ...hostEnvironment, ...changes }),
    [Symbol.dispose]() {
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export async function findWithProbe(
  probe: Probe,
  hostEnvironment: HostEnvironment,
): Promise<readonly Found[]> {
  return (await probe.probe(hostEnvironment, NEVER_ABORTED)).filter(
    (finding): finding is Found => !isProbeProblem(finding),
  )
}

export async function problemsOf(
  probe: Probe,
  hostEnvironment: HostEnvironment,
): Promise<readonly ProbeProblem[]> {
  return (await probe.probe(hostEnvironment, NEVER_ABORTED)).filter(isProbeProblem)
}

/** Returns an invented token with the shape of a signed one. */
export function fakeJwt(claims: Readonly<Record<string, unknown>>): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [part({ alg: 'none' }), part(claims), 'signature'].join('.')
}

import { mkdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SandboxId } from '../../../lib/ids.ts'
import { currentOwner } from '../../../lib/owner.ts'
import type { SandboxSpec } from '../../backend.ts'
import { TestFolder } from '../../sandbox.fixture.ts'
import { processBackend } from './backend.ts'
import { formatProcessHandle, parseProcessHandle } from './handle.ts'
import { chooseHostUser } from './host-user.ts'
import { refuseSidecarVariables } from './sidecar-variables.ts'
import { chooseStage } from './stage.ts'
import { findIsolationFault } from './verify-isolation.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
})
afterEach(() => test[Symbol.dispose]())

const spec = (changes: Partial<SandboxSpec> = {}): SandboxSpec => ({
  id: 'sbx_00000000000000000000000000' as SandboxId,
  isolation: 'process',
  folder: test.path('home/sandboxes/sbx_00000000000000000000000000'),
  workspace: { mode: 'copy' },
  limits: { memoryBytes: 2 ** 29, processes: 100 },
  hostUser: { uid: 2_100_000_000, gid: 2_100_000_000 },
  ...changes,
})

describe('the host user of a sandbox', () => {
  it('is the user that was chosen for it, and never root', () => {
    const hostUser = { uid: 2_100_000_007, gid: 2_100_000_007 }
    expect(chooseHostUser(spec({ hostUser }), 0)).toEqual(hostUser)
    for (const bad of [
      { uid: 0, gid: 5 },
      { uid: 5, gid: 0 },
    ])
      expect(() => chooseHostUser(spec({ hostUser: bad }), 0)).toThrow('cannot run as root')
    expect(() => chooseHostUser(spec({ hostUser: undefined }), 0)).toThrow()
  })

  it('is the user who runs Craik, unless that is root', () => {
    expect(chooseHostUser(spec({ hostUser: undefined }), 1000)).toBeUndefined()
    expect(() => chooseHostUser(spec(), 1000)).toThrow('only root')
  })
})

describe('the environment of a sandbox', () => {
  it.each([
    'NODE_OPTIONS',
    'LD_PRELOAD',
    'CRAIK_SOCKET',
    'CRAIK_SANDBOX_NAME_X',
    'NODE_EXTRA_CA_CERTS',
    'GLIBC_TUNABLES',
    'UV_THREADPOOL_SIZE',
  ])('cannot control the sidecar through %s', (name) => {
    expect(() => refuseSidecarVariables({ A: '1', [name]: 'x' })).toThrow(name)
  })

  it('can contain any other variable', () => {
    refuseSidecarVariables({
      NODE_ENV: 'test',
      PATH: '/bin',
      LDAP: 'x',
      node_options: 'x',
      CRAIK_SANDBOX_NAME: 'x',
    })
  })
})

describe('the stage folder', () => {
  it('hides none of the folders to mount', () => {
    for (const name of ['a', 'b', 'bc']) mkdirSync(test.path(name))
    const [a, b, bc, missing] = ['a', 'b', 'bc', 'missing'].map((name) => test.path(name)) as [
      string,
      string,
      string,
      string,
    ]
    expect(chooseStage(['/elsewhere'], [missing, a, b])).toBe(a)
    expect(chooseStage([`${a}/deep`], [a, b])).toBe(b)
    expect(chooseStage([a, bc], [a, b])).toBe(b)
    expect(() => chooseStage([a], [a, missing])).toThrow('no free folder')
  })
})

describe('the process backend', () => {
  const backend = (PATH: string | undefined = process.env.PATH) =>
    processBackend({ craikHome: test.path('home'), environment: { PATH } })

  it('without bubblewrap reports what to install, and starts nothing weaker', async () => {
    expect(await backend('').probe()).toMatchObject({ isolation: 'none', fix: 'apt-get install bubblewrap' })
    await expect(backend('').create(spec())).rejects.toMatchObject({
      code: 'unavailable',
      hint: 'apt-get install bubblewrap',
    })
  })

  it('refuses another kind of isolation', async () => {
    await expect(backend().create(spec({ isolation: 'container' }))).rejects.toMatchObject({
      code: 'unavailable',
    })
  })

  it('recovers nothing from an earlier boot', async () => {
    const owner = { ...currentOwner(), bootId: 'another' }
    const limits = { memory: 'cgroup', processes: 'cgroup', cpu: 'not-asked', disk: 'not-asked' } as const
    const handle = formatProcessHandle({ inner: owner, outer: owner, hostUid: 7, limits })
    expect(parseProcessHandle(handle)).toEqual({ inner: owner, outer: owner, hostUid: 7, limits })
    expect(await backend().recover(handle, spec())).toBeUndefined()
    await expect(backend().recover({ innerPid: -1 }, spec())).rejects.toMatchObject({ code: 'internal' })
  })

  it('detects from the host that a process is not isolated', () => {
    expect(findIsolationFault(process.pid, 0)).toBe('it shares the host’s net namespace')
    expect(findIsolationFault(2 ** 22 + 1, 0)).toBe('it cannot be inspected (ENOENT)')
  })
})

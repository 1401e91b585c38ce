import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newId, type SandboxId } from '../../../lib/ids.ts'
import type { ContainerSpec, SandboxSpec } from '../../backend.ts'
import { type ContainerMount, containerConfig } from './container-config.ts'
import type { Engine } from './engine/engine.ts'

const ENGINE = {
  product: 'docker',
  architecture: 'x64',
  processors: 2,
  remapsUsers: false,
  holds: { memory: true, processes: true, cpu: true },
} as unknown as Engine
const HOME: ContainerMount = { type: 'bind', source: '/s/home', target: '/workspace/home', readOnly: false }
const SOCKET: ContainerMount = { type: 'bind', source: '/s/socket', target: '/run/craik', readOnly: true }
let craikHome: string
beforeEach(() => {
  craikHome = mkdtempSync(join(tmpdir(), 'craik-config-'))
})
afterEach(() => rmSync(craikHome, { recursive: true }))
const ID = newId<SandboxId>('sbx', 1)

function configOver(
  line: ContainerSpec['line'],
  mounted: readonly ContainerMount[],
  imageEnvironment: readonly string[] = [],
  product: Engine['product'] = 'docker',
  isRootless = false,
) {
  const container: ContainerSpec = {
    image: 'sha256:1',
    imageName: 'craik/sandbox:1',
    runtime: 'runc',
    line,
    state: 'folder',
    engine: 'ONE',
  }
  const spec: SandboxSpec = {
    id: ID,
    isolation: 'container',
    folder: craikHome,
    workspace: { mode: 'copy' },
    hostUser: undefined,
    limits: { memoryBytes: 2 ** 29, processes: 100, cpuMillis: 1500, diskBytes: 2 ** 26 },
    container,
  }
  const user = { uid: 1000, gid: 1000 }
  return containerConfig(
    { ...ENGINE, product, isRootless },
    { spec, container, craikHome, user, shown: mounted, imageEnvironment },
  )
}

describe('a container’s configuration', () => {
  it('removes every variable of the image, whatever its name', () => {
    const set = ['LD_PRELOAD=/evil.so', 'LANG=tlh', 'PATH=/evil', 'AWS_SECRET_ACCESS_KEY=a=b', '__proto__=x']
    const { Env: own } = configOver('socket', [HOME])
    expect(configOver('socket', [HOME], set).Env).toEqual([
      ...own!,
      'LD_PRELOAD',
      'AWS_SECRET_ACCESS_KEY',
      '__proto__',
    ])
    expect(configOver('socket', [HOME], set, 'podman').Env).toEqual([
      ...own!,
      'LD_PRELOAD=',
      'AWS_SECRET_ACCESS_KEY=',
      '__proto__=',
    ])
  })

  // The escape suite runs completely over the socket transport only.
  it('is the same over each transport, except for the location of the socket', () => {
    const socket = configOver('socket', [SOCKET, HOME])
    const relay = configOver('relay', [HOME])
    const { '/run/craik': own, ...tmpfs } = relay.HostConfig!.Tmpfs as Record<string, string>
    expect(own).toMatch(/^rw,nosuid,nodev,size=1048576,noexec,/)
    const [mounted, ...mounts] = socket.HostConfig!.Mounts!
    expect(mounted).toMatchObject({ Target: '/run/craik', ReadOnly: true })
    const withoutLine = ({ Env, ...config }: typeof socket) => ({
      ...config,
      Env: Env!.filter((entry) => !/^CRAIK_(SOCKET|LISTEN)=/.test(entry)),
    })
    expect(withoutLine({ ...relay, HostConfig: { ...relay.HostConfig, Tmpfs: tmpfs } })).toEqual(
      withoutLine({ ...socket, HostConfig: { ...socket.HostConfig, Mounts: mounts } }),
    )
  })

  it('of Podman overrides what Podman adds, with options that Podman accepts', () => {
    const { '/tmp': own, ...others } = configOver('socket', [HOME], [], 'podman').HostConfig!.Tmpfs!
    expect(others).toEqual({
      '/var/tmp': own,
      '/run': 'rw,nosuid,nodev,size=16777216,noexec,mode=0755,U',
    })
    expect(configOver('socket', [HOME]).HostConfig!.Tmpfs).toEqual({
      '/tmp': own,
      '/run': 'rw,nosuid,nodev,size=16777216,noexec,mode=0755,uid=1000,gid=1000',
    })
  })

  it('prevents core dumps under a Podman that cannot limit them', () => {
    const entrypoint = (product: Engine['product'], isRootless: boolean) =>
      configOver('socket', [HOME], [], product, isRootless).Entrypoint as string[]
    const usual = entrypoint('docker', true)
    expect(entrypoint('podman', false)).toEqual(usual)
    expect(entrypoint('podman', true)).toEqual([
      ...usual.slice(0, 2),
      '/bin/sh',
      '-c',
      'ulimit -c 0 && exec "$@"',
      'sh',
      ...usual.slice(2),
    ])
  })
})

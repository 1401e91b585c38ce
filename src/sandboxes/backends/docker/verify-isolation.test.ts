import type { ContainerInspectInfo } from 'dockerode'
import { describe, expect, it } from 'vitest'
import { type Expected, faultInDescription } from './verify-isolation.ts'

const EXPECTED: Expected = {
  container: {
    image: 'sha256:1',
    imageName: 'craik/sandbox:1',
    runtime: 'runc',
    line: 'socket',
    state: 'folder',
    engine: 'ONE',
  },
  user: { uid: 1000, gid: 1000 },
  shown: [
    { type: 'bind', source: '/s/home', target: '/workspace/home', readOnly: false },
    { type: 'volume', source: 'craik-1', target: '/var/spool/craik', readOnly: false },
    { type: 'bind', source: '/s/socket', target: '/run/craik', readOnly: true },
  ],
  environment: ['PATH=/bin', 'LD_PRELOAD'],
}

type Changes = Partial<Record<'HostConfig' | 'Config' | 'NetworkSettings', Record<string, unknown>>> & {
  readonly Image?: string
  readonly Mounts?: readonly unknown[]
}

const MOUNTS = [
  { Type: 'bind', Source: '/s/home', Destination: '/workspace/home', RW: true },
  { Type: 'volume', Name: 'craik-1', Source: '/v/craik-1', Destination: '/var/spool/craik', RW: true },
  { Type: 'bind', Source: '/s/socket', Destination: '/run/craik', RW: false },
]

/** Returns an engine's description of the requested container. */
function inspectInfo({ HostConfig, Config, NetworkSettings, ...rest }: Changes = {}): ContainerInspectInfo {
  return {
    Image: 'sha256:1',
    Mounts: MOUNTS,
    ...rest,
    NetworkSettings: { Networks: { none: {} }, ...NetworkSettings },
    Config: { User: '1000:1000', Env: ['PATH=/bin', 'LD_PRELOAD'], ...Config },
    HostConfig: {
      NetworkMode: 'none',
      Privileged: false,
      CapAdd: null,
      CapDrop: ['ALL'],
      ReadonlyRootfs: true,
      SecurityOpt: ['no-new-privileges', 'seccomp={}'],
      PidMode: '',
      UTSMode: '',
      IpcMode: 'private',
      UsernsMode: '',
      Devices: [],
      ...HostConfig,
    },
  } as unknown as ContainerInspectInfo
}

describe('a container', () => {
  it('is accepted when it matches its configuration', () => {
    expect(faultInDescription(inspectInfo(), EXPECTED, 'docker')).toBeUndefined()
  })

  it.each([
    [{ Image: 'sha256:2' }, /different image/],
    [{ HostConfig: { NetworkMode: 'bridge' } }, /network/],
    [{ NetworkSettings: { Networks: { none: {}, bridge: {} } } }, /network/],
    [{ HostConfig: { Privileged: true } }, /privileged/],
    [{ HostConfig: { CapDrop: [] } }, /capabilities/],
    [{ HostConfig: { CapAdd: ['SYS_ADMIN'] } }, /capabilities/],
    [{ HostConfig: { ReadonlyRootfs: false } }, /root file system is writable/],
    [{ Config: { User: '' } }, /wrong user/],
    [{ Config: { User: '0:0' } }, /wrong user/],
    [{ Config: { Env: ['PATH=/bin', 'LD_PRELOAD=/evil.so'] } }, /sets environment variables/],
    [{ HostConfig: { SecurityOpt: ['seccomp={}'] } }, /gain privileges/],
    [{ HostConfig: { SecurityOpt: ['no-new-privileges=false'] } }, /gain privileges/],
    [{ HostConfig: { SecurityOpt: ['no-new-privileges', 'seccomp=unconfined'] } }, /not filtered/],
    [{ HostConfig: { PidMode: 'host' } }, /namespace/],
    [{ HostConfig: { IpcMode: 'host' } }, /namespace/],
    [{ HostConfig: { UTSMode: 'host' } }, /namespace/],
    [{ HostConfig: { UsernsMode: 'host' } }, /user namespace/],
    [{ HostConfig: { Devices: [{ PathOnHost: '/dev/kmsg' }] } }, /devices/],
    [{ Mounts: MOUNTS.slice(1) }, /mounts are not the requested/],
    [{ Mounts: MOUNTS.map((one) => ({ ...one, RW: true })) }, /mounts are not the requested/],
    [
      { Mounts: [...MOUNTS, { Type: 'volume', Name: 'x', Destination: '/data', RW: true }] },
      /mounts are not the requested/,
    ],
    [{ Mounts: [{ ...MOUNTS[0], Source: '/' }, ...MOUNTS.slice(1)] }, /mounts are not the requested/],
  ] as const)('is refused when the engine reports %j', (changes, fault) => {
    expect(faultInDescription(inspectInfo(changes as Changes), EXPECTED, 'docker')).toMatch(fault)
  })

  it('of Podman is accepted with the variables that Podman adds, and with no others', () => {
    const added = ['TERM=xterm', 'container=podman', 'HOSTNAME=sandbox', 'HOME=/workspace/home']
    const withMore = (...more: string[]) =>
      faultInDescription(
        inspectInfo({
          Config: { Env: ['PATH=/bin', ...added, ...more] },
          HostConfig: { CapDrop: ['CAP_CHOWN'] },
        }),
        EXPECTED,
        'podman',
      )
    expect(withMore()).toBeUndefined()
    expect(withMore('https_proxy=http://ada:secret@proxy.example')).toMatch(/sets environment variables/)
    expect(withMore('PATH=/evil')).toMatch(/sets environment variables/)
  })
})

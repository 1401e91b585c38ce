import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readEngineAddress, usualAddresses } from './address.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-certificates-'))
  for (const name of ['ca', 'cert', 'key']) writeFileSync(join(folder, `${name}.pem`), name)
})
afterAll(() => rmSync(folder, { recursive: true }))

describe('the engine address in the environment', () => {
  it('prefers Craik’s variable to Docker’s', () => {
    const environment = { CRAIK_ENGINE: 'unix:///a.sock', DOCKER_HOST: 'unix:///b.sock' }
    expect(readEngineAddress(environment)).toMatchObject({ text: 'unix:///a.sock', socket: '/a.sock' })
    expect(readEngineAddress({ DOCKER_HOST: '/b.sock' })?.text).toBe('unix:///b.sock')
    expect(readEngineAddress({ CRAIK_ENGINE: '', DOCKER_HOST: '' })).toBeUndefined()
  })

  it('allows another machine only with TLS and its certificates', () => {
    const DOCKER_HOST = 'tcp://engine.example:2376'
    expect(() => readEngineAddress({ DOCKER_HOST })).toThrow(/without TLS/)
    const options = readEngineAddress({
      DOCKER_HOST,
      DOCKER_TLS_VERIFY: '1',
      DOCKER_CERT_PATH: folder,
    })?.options
    expect(options).toMatchObject({
      host: 'engine.example',
      port: 2376,
      protocol: 'https',
      ca: 'ca',
      key: 'key',
    })
    expect(() =>
      readEngineAddress({ DOCKER_HOST, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: '/none' }),
    ).toThrow(/certificates/)
  })

  it('allows this machine without TLS', () => {
    for (const host of ['localhost', '127.0.0.1', '[::1]']) {
      const address = readEngineAddress({ DOCKER_HOST: `tcp://${host}:1` })
      expect(address).toMatchObject({ socket: undefined, options: { port: 1, protocol: 'http' } })
    }
    expect(() => readEngineAddress({ DOCKER_HOST: 'tcp://127.0.0.1.example:1' })).toThrow(/without TLS/)
  })

  it('is refused when it is anything else, with a hint', () => {
    for (const [value, why] of [
      ['ssh://user@host', /SSH/],
      ['unix://relative.sock', /absolute/],
      ['npipe:////./pipe/docker_engine', /must be unix/],
      ['tcp://user:secret@localhost:1', /only a host/],
      ['tcp://localhost:1/path', /only a host/],
      ['nonsense', /must be unix/],
    ] as const)
      expect(() => readEngineAddress({ CRAIK_ENGINE: value }), value).toThrow(why)
  })

  it('is printed without anything that could be secret', () => {
    try {
      readEngineAddress({ CRAIK_ENGINE: 'tcp://user:secret@localhost:1' })
    } catch (error) {
      expect(JSON.stringify(error) + String(error)).not.toContain('secret')
    }
  })
})

it('ignores what the Docker client would read from the environment itself', () => {
  const { options } = readEngineAddress({ CRAIK_ENGINE: 'unix:///a.sock' })!
  for (const name of ['host', 'port', 'ca', 'cert', 'key', 'username'])
    expect(Object.keys(options)).toContain(name)
})

it('defaults to where engines usually listen: the machine’s, the user’s own, Podman’s, Desktop’s', () => {
  const found = usualAddresses({ XDG_RUNTIME_DIR: '/run/user/1', HOME: '/home/me' }).map(
    ({ socket }) => socket,
  )
  expect(found).toEqual([
    '/var/run/docker.sock',
    '/run/user/1/docker.sock',
    '/run/user/1/podman/podman.sock',
    '/run/podman/podman.sock',
    '/home/me/.docker/run/docker.sock',
  ])
})

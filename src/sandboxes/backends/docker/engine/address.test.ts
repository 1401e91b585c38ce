import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { namedAddress, usualAddresses } from './address.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-certificates-'))
  for (const name of ['ca', 'cert', 'key']) writeFileSync(join(folder, `${name}.pem`), name)
})
afterAll(() => rmSync(folder, { recursive: true }))

describe('the engine that the environment names', () => {
  it('is the one for Craik before the one for Docker', () => {
    const environment = { CRAIK_ENGINE: 'unix:///a.sock', DOCKER_HOST: 'unix:///b.sock' }
    expect(namedAddress(environment)).toMatchObject({ text: 'unix:///a.sock', socket: '/a.sock' })
    expect(namedAddress({ DOCKER_HOST: '/b.sock' })?.text).toBe('unix:///b.sock')
    expect(namedAddress({ CRAIK_ENGINE: '', DOCKER_HOST: '' })).toBeUndefined()
  })

  it('may be on another machine only with TLS, by its own certificates', () => {
    const DOCKER_HOST = 'tcp://engine.example:2376'
    expect(() => namedAddress({ DOCKER_HOST })).toThrow(/without TLS/)
    const options = namedAddress({ DOCKER_HOST, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: folder })?.options
    expect(options).toMatchObject({
      host: 'engine.example',
      port: 2376,
      protocol: 'https',
      ca: 'ca',
      key: 'key',
    })
    expect(() => namedAddress({ DOCKER_HOST, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: '/none' })).toThrow(
      /certificates/,
    )
  })

  it('may be without TLS on this machine', () => {
    for (const host of ['localhost', '127.0.0.1', '[::1]']) {
      const address = namedAddress({ DOCKER_HOST: `tcp://${host}:1` })
      expect(address).toMatchObject({ socket: undefined, options: { port: 1, protocol: 'http' } })
    }
    expect(() => namedAddress({ DOCKER_HOST: 'tcp://127.0.0.1.example:1' })).toThrow(/without TLS/)
  })

  it('is refused when it is anything else, with what to do', () => {
    for (const [value, why] of [
      ['ssh://user@host', /SSH/],
      ['unix://relative.sock', /absolute/],
      ['npipe:////./pipe/docker_engine', /must be unix/],
      ['tcp://user:secret@localhost:1', /only a host/],
      ['tcp://localhost:1/path', /only a host/],
      ['nonsense', /must be unix/],
    ] as const)
      expect(() => namedAddress({ CRAIK_ENGINE: value }), value).toThrow(why)
  })

  it('never shows what could be secret in it', () => {
    try {
      namedAddress({ CRAIK_ENGINE: 'tcp://user:secret@localhost:1' })
    } catch (error) {
      expect(JSON.stringify(error) + String(error)).not.toContain('secret')
    }
  })
})

it('takes nothing of what the client would find by itself', () => {
  const { options } = namedAddress({ CRAIK_ENGINE: 'unix:///a.sock' })!
  for (const name of ['host', 'port', 'ca', 'cert', 'key', 'username'])
    expect(Object.keys(options)).toContain(name)
})

it('looks where engines usually listen: the machine’s, the user’s own, Podman’s, Desktop’s', () => {
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

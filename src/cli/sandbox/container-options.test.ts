import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { containerOf, parseMount } from './container-options.ts'

describe('the container options of a request', () => {
  it('are complete, even without any flag', () => {
    expect(containerOf({ backend: 'docker' })).toEqual({
      backend: 'docker',
      network: 'none',
      mounts: [],
      container: { image: 'craik' },
    })
    expect(
      containerOf({ backend: 'docker', image: 'debian', runtime: 'runsc', line: 'relay', mount: ['.:here'] }),
    ).toEqual({
      backend: 'docker',
      network: 'none',
      mounts: [{ folder: resolve('.'), at: '/mnt/here', mode: 'read_only' }],
      container: { image: 'debian', runtime: 'runsc', line: 'relay' },
    })
    expect(containerOf({ backend: 'docker', transport: 'relay' })).toMatchObject({
      container: { image: 'craik', line: 'relay' },
    })
  })

  it('contain only the given flags if a snapshot has the others, or without a container', () => {
    expect(containerOf({})).toEqual({})
    expect(containerOf({ backend: 'process', network: 'none' })).toEqual({
      backend: 'process',
      network: 'none',
    })
    expect(containerOf({ from: 'before', backend: 'docker' })).toEqual({ from: 'before', backend: 'docker' })
    expect(containerOf({ from: 'before', runtime: 'runc' })).toEqual({
      from: 'before',
      container: { runtime: 'runc' },
    })
  })

  it.each(['bridge', 'host', 'restricted', ''])('never accept the network %j', (network) => {
    expect(() => containerOf({ backend: 'docker', network })).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('craik egress allow') }),
    )
  })
})

describe('a folder to mount', () => {
  it.each([
    ['/srv/library', '/srv/library', '/mnt/library'],
    ['/srv/library/', '/srv/library', '/mnt/library'],
    ['/srv/library:docs', '/srv/library', '/mnt/docs'],
    ['/srv/a:b/library', '/srv/a:b/library', '/mnt/library'],
    ['/srv/a:b:c', '/srv/a:b', '/mnt/c'],
    ['/srv/../etc', '/etc', '/mnt/etc'],
  ])('typed as %s is %s at %s', (typed, folder, at) => {
    expect(parseMount(typed)).toEqual({ folder, at, mode: 'read_only' })
  })

  it.each(['', ':name', '/', '/srv/my library', '/srv/x:', '/srv/x:..', '/srv/x:.hidden'])(
    'typed as %j is refused with a hint',
    (typed) => {
      expect(() => parseMount(typed)).toThrow(
        expect.objectContaining({ code: 'usage', hint: expect.stringContaining('--mount') }),
      )
    },
  )
})

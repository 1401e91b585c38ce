import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { containerOf, parseMount } from './container-options.ts'

describe('what is said of a container', () => {
  it('is everything, also when nothing was typed', () => {
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

  it('is what was typed where a snapshot says the rest, or there is no container', () => {
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

  it.each(['bridge', 'host', 'restricted', ''])('is never the network %j', (network) => {
    expect(() => containerOf({ backend: 'docker', network })).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('boundary') }),
    )
  })
})

describe('a folder to show', () => {
  it.each([
    ['/srv/library', '/srv/library', '/mnt/library'],
    ['/srv/library/', '/srv/library', '/mnt/library'],
    ['/srv/library:docs', '/srv/library', '/mnt/docs'],
    ['/srv/a:b/library', '/srv/a:b/library', '/mnt/library'],
    ['/srv/a:b:c', '/srv/a:b', '/mnt/c'],
    ['/srv/../etc', '/etc', '/mnt/etc'],
  ])('%s is %s at %s', (typed, folder, at) => {
    expect(parseMount(typed)).toEqual({ folder, at, mode: 'read_only' })
  })

  it.each(['', ':name', '/', '/srv/my library', '/srv/x:', '/srv/x:..', '/srv/x:.hidden'])(
    '%j is told what to type instead',
    (typed) => {
      expect(() => parseMount(typed)).toThrow(
        expect.objectContaining({ code: 'usage', hint: expect.stringContaining('--mount') }),
      )
    },
  )
})

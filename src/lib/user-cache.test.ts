import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cacheOfHome, ensureCacheOfHome, ensureUserCache, userCache } from './user-cache.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-cache-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const environment = () => ({ XDG_CACHE_HOME: join(folder, 'xdg') })
const exposed = expect.objectContaining({ code: 'key_exposed' })

describe('the user’s cache', () => {
  it('is in XDG_CACHE_HOME unless that is relative, and in the home folder otherwise', () => {
    const usual = process.platform === 'darwin' ? 'Library/Caches' : '.cache'
    expect(userCache({ XDG_CACHE_HOME: '/x', HOME: '/home/ann' })).toBe('/x/craik')
    for (const XDG_CACHE_HOME of ['', 'x', './x'])
      expect(userCache({ XDG_CACHE_HOME, HOME: '/home/ann' })).toBe(`/home/ann/${usual}/craik`)
    expect(userCache({ HOME: '/home/ann' })).toBe(`/home/ann/${usual}/craik`)
  })

  it('is created for its owner alone, and reused', () => {
    const made = ensureUserCache(environment())
    expect(statSync(made).mode & 0o777).toBe(0o700)
    expect(ensureUserCache(environment())).toBe(made)
  })

  it('has a part for each Craik home, the same by every path to that home', () => {
    mkdirSync(join(folder, 'home'))
    symlinkSync('home', join(folder, 'link'))
    const part = ensureCacheOfHome(join(folder, 'home'), environment())
    expect(statSync(part).mode & 0o777).toBe(0o700)
    expect(cacheOfHome(join(folder, 'link'), environment())).toBe(part)
    expect(cacheOfHome(join(folder, 'other'), environment())).not.toBe(part)
  })

  it('is refused when it is open to others', () => {
    chmodSync(ensureUserCache(environment()), 0o750)
    expect(() => ensureUserCache(environment())).toThrow(exposed)
  })

  it('is refused, and not created, in a project', () => {
    const project = join(folder, 'project')
    mkdirSync(join(project, '.git'), { recursive: true })
    const XDG_CACHE_HOME = join(project, '.cache')
    expect(() => ensureUserCache({ XDG_CACHE_HOME, HOME: '/nonexistent' })).toThrow(exposed)
    expect(statSync(XDG_CACHE_HOME, { throwIfNoEntry: false })).toBeUndefined()
    // A home folder with its settings in git is not a project.
    mkdirSync(join(project, 'user'))
    expect(ensureUserCache({ HOME: project })).toContain(project)
  })

  it('is refused when it is a link', () => {
    mkdirSync(join(folder, 'xdg'), { mode: 0o700 })
    mkdirSync(join(folder, 'elsewhere'), { mode: 0o700 })
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'xdg/craik'))
    expect(() => ensureUserCache(environment())).toThrow(exposed)
  })

  it('is refused, and not created, below a folder that others can write to', () => {
    mkdirSync(join(folder, 'xdg'))
    chmodSync(join(folder, 'xdg'), 0o777)
    expect(() => ensureUserCache(environment())).toThrow(exposed)
    expect(statSync(join(folder, 'xdg/craik'), { throwIfNoEntry: false })).toBeUndefined()
    chmodSync(join(folder, 'xdg'), 0o1777)
    ensureUserCache(environment())
  })

  it('is refused behind a link that leads through such a folder', () => {
    mkdirSync(join(folder, 'open/inner'), { recursive: true })
    chmodSync(join(folder, 'open'), 0o777)
    symlinkSync('open/inner', join(folder, 'xdg'))
    expect(() => ensureUserCache(environment())).toThrow(exposed)
  })
})

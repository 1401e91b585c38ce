import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { cacheOfHome } from '../../lib/user-cache.ts'
import { findRemovable } from './home.ts'

describe('findRemovable', () => {
  let root: string
  let cache: string
  let environment: NodeJS.ProcessEnv
  beforeEach(() => {
    const folder = tempFolder('craik-doctor-')
    root = join(folder, 'home')
    environment = { XDG_CACHE_HOME: join(folder, 'cache') }
    cache = cacheOfHome(root, environment)
    // Image builds store small files in the home, which later commands read.
    mkdirSync(join(root, 'cache/images'), { recursive: true })
    writeFileSync(join(root, 'cache/images/packages-0123456789ab'), 'jq')
  })

  it('returns the cache of the home, and not the files of image builds', () => {
    expect(findRemovable(root, environment)).toEqual([])
    mkdirSync(cache, { recursive: true })
    expect(findRemovable(root, environment)).toEqual([cache])
  })

  it('returns first what an earlier version left in the home', () => {
    mkdirSync(cache, { recursive: true })
    const unused = ['harnesses', 'runtime', 'v24.14.0-x64-1b6b7e5f-0']
    for (const name of [...unused, 'disk-abc', 'v24 x\n']) mkdirSync(join(root, 'cache', name))
    expect(findRemovable(root, environment)).toEqual(unused.map((name) => join(root, 'cache', name)))
  })
})
